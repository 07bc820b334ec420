"""A WINDOW BY query as a plan node, for views that are kept.

In: the query's text, the name of the relation in its FROM, and the plan that gives that relation. Out: a `WindowBlock` that knows
its columns, their types, and the input's columns by which its windows are independent. Raises `BelvedereError` for a query
with errors, or for one that is more than one block over that relation.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from sqlglot import exp

from belvedere.errors import BelvedereError, Severity, fail
from belvedere.lang.window_by import Block, Query, WindowBy
from belvedere.lang.window_by_check import check_query, row_type
from belvedere.lang.window_by_parser import parse_window_query
from belvedere.lang.window_by_types import Scope, Typing
from belvedere.plan.nodes import Node
from belvedere.plan.window_by import WindowBlock
from belvedere.schema import Column


def lower_window_query(text: str, relation: str, source: Node, file: str = "") -> WindowBlock:
    """The node for `text`, whose FROM names `relation`: the rows of `source`."""
    query = parse_window_query(text, file)
    row = row_type(source.schema)
    errors = [d for d in check_query(query, {relation: row}, file) if d.severity == Severity.ERROR]
    if errors:
        raise BelvedereError(errors)
    block = query.blocks[0]
    if block.window is None or len(query.blocks) > 1 or query.order or query.limit is not None or query.offset is not None:
        hint = "make the query with WINDOW BY a view of its own and build on it"
        raise fail("B3624", "a kept view with WINDOW BY is one block without ORDER BY and LIMIT", span=query.span, hint=hint)
    output = Typing(file).query(query, Scope(tables={relation: row}))
    return WindowBlock(source, relation, text, tuple(partition_columns(query, block.window, source)), tuple(_columns(output)))


def partition_columns(query: Query, window: WindowBy, source: Node) -> Iterator[str]:
    """The input's columns that PARTITION BY names; none where it names something else, so that windows depend on all rows."""
    block = query.blocks[0]
    if not _is_plain(block) or query.bindings:
        return
    variable = block.sources[0].variable.text
    found = []
    for key in window.partition:
        if not isinstance(key, exp.Dot) or not isinstance(key.this, exp.Column) or key.this.name != variable:
            return
        column = source.schema.find(key.expression.name)
        if column is None:
            return
        found.append(column.name)
    yield from found


def _is_plain(block: Block) -> bool:
    """Whether the block's items are the rows of its one relation."""
    return len(block.sources) == 1 and isinstance(block.sources[0].expr, exp.Column) and block.group is None and not block.lets


def _columns(output: pa.DataType | None) -> Iterator[Column]:
    if output is not None and pa.types.is_struct(output):
        yield from (Column(f.name, f.type) for f in output)
    else:
        yield Column("value", output if output is not None else pa.string())
