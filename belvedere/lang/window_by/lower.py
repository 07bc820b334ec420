"""A WINDOW BY query of a script as a plan node.

In: the query's text with its place, and the relations that it may name. Out: a `WindowBlock` that knows its columns, their types, the
columns by which its windows are independent, and what tells its rows apart. Raises `BelvedereError` for a query with errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from belvedere.errors import BelvedereError, Diagnostic, Severity, Span, fail
from belvedere.functions.window_by import Type, holds_duration
from belvedere.lang.window_by.chain import chain_of, hindrance, mentions, queries_of, reads_again, values_before
from belvedere.lang.window_by.check import check_query, row_type
from belvedere.lang.window_by.explain import explain_query
from belvedere.lang.window_by.expressions import VariableScope
from belvedere.lang.window_by.groups import ALL_GROUPS, groups_of, over_groups
from belvedere.lang.window_by.joins import JOINED, join_of, over_join
from belvedere.lang.window_by.keys import PartitionKeys, keys_of
from belvedere.lang.window_by.names import free_names
from belvedere.lang.window_by.parser import parse_window_query
from belvedere.lang.window_by.ranges import ranges_of
from belvedere.lang.window_by.resume import resume_of
from belvedere.lang.window_by.tree import Block, Expr, Query, QueryExpression
from belvedere.lang.window_by.types import Typing
from belvedere.plan.nodes import Node
from belvedere.plan.window_by import GROUPS, JOIN, WindowBlock
from belvedere.schema import Column


def lower_window_query(
    text: str, sources: Mapping[str, Node], file: str = "", start: int = 0, broken: Set[str] = frozenset()
) -> tuple[WindowBlock, tuple[Diagnostic, ...]]:
    """The node for `text`, which stands at `start` of its file, over those of `sources` that it names; and what is noteworthy.

    `broken` are folded names whose own definitions were refused: a query that names one is wrong for that reason alone.
    """
    rows = {name: row_type(node.schema) for name, node in sources.items()}
    text, query = _parsed(text, sources, file, start)
    found = check_query(query, rows, file)
    errors = tuple(d for d in found if d.severity == Severity.ERROR)
    if errors:
        raise BelvedereError(() if any(n.casefold() in broken for n in free_names(query)) else errors)
    output = Typing(file).query(query, VariableScope(tables=rows))
    notes, columns = explain_query(query, rows), tuple(_columns(output, query, file))
    relations = tuple((name, sources[name]) for name in _used(query, rows))
    join, over = join_of(query, sources), ""
    groups = groups_of(query, sources) if join is None else ""
    if join is not None:
        query, relations, over = over_join(query), ((JOINED, join),), JOIN
    elif isinstance(groups, Node):
        query, relations, over = over_groups(query), ((ALL_GROUPS, groups),), GROUPS
    keys, identity = _splits(query, relations)
    relations = relations if keys.node is None else ((relations[0][0], keys.node),)
    if query.order and query.limit is None and query.offset is None:
        span, hint = _placed(query.order[0].expr.meta.get("span"), file), "order it where it is read, or add LIMIT"
        message = "a view has no order: ORDER BY without LIMIT is left out"
        found = (*found, Diagnostic("B3060", message, Severity.NOTICE, span, hint=hint))
    resume, ranges, why = None, None, keys.unsaid or (groups if isinstance(groups, str) else "") or hindrance(query)
    if not why and identity is None and keys.columns:
        why = "members of arrays are tuples or results of their own"
    block = _single(query, relations, identity)
    if block is not None:
        source = relations[0][1]
        reached = keys.unsaid or ranges_of(block, source, row_type(source.schema), keys.columns)
        ranges, why = (None, reached) if isinstance(reached, str) else (reached, "")
        resume = resume_of(block, source, row_type(source.schema), ranges)
    return WindowBlock(relations, text, columns, keys.columns, identity, resume, ranges, why, notes, over, keys.words), found


def _parsed(text: str, sources: Mapping[str, Node], file: str, start: int) -> tuple[str, Query]:
    """The query, with positions in the file; tables with dotted names are quoted in the text that comes back."""
    query = parse_window_query(" " * start + text, file)
    places = sorted(_dotted(query, {n.casefold() for n in sources if "." in n}), reverse=True)
    for begin, end in places:
        first, last = begin - start, end - start
        text = f"{text[:first]}`{text[first:last]}`{text[last:]}"
    return text, parse_window_query(" " * start + text, file) if places else query


def _dotted(query: Query, known: set[str]) -> Iterator[tuple[int, int]]:
    """The places of FROM's paths that are names of nested tables."""
    for block in query.blocks:
        for source in block.sources:
            if isinstance(source.expr, QueryExpression):
                yield from _dotted(source.expr.query, known)
            names = list(_path(source.expr))
            if len(names) > 1 and ".".join(n.name for n in names).casefold() in known:
                yield names[0].meta["start"], names[-1].meta["end"] + 1


def _path(expr: Expr) -> Iterator[exp.Identifier]:
    if isinstance(expr, exp.Column):
        yield expr.this
    elif isinstance(expr, exp.Dot) and isinstance(expr.expression, exp.Identifier):
        base = list(_path(expr.this))
        yield from [*base, expr.expression] if base else []


def _used(query: Query, rows: Mapping[str, Type]) -> tuple[str, ...]:
    """The tables that the query may name, in the order of the mapping."""
    wanted = {n.casefold() for n in free_names(query)}
    return tuple(n for n in rows if n.casefold() in wanted)


def _columns(output: Type, query: Query, file: str) -> Iterator[Column]:
    fields = list(output) if output is not None and pa.types.is_struct(output) else [pa.field("value", output or pa.null())]
    for field in fields:
        if holds_duration(field.type):
            hint = "select the parts of the objects that you need, as columns"
            message = f'column "{field.name}" would have durations inside objects or arrays: not supported'
            raise fail("B3620", message, span=_placed(query.span, file), hint=hint)
        yield Column(field.name, field.type)


def _placed(span: Span | None, file: str) -> Span | None:
    return None if span is None else replace(span, file=file)


# -- by what results are independent, and told apart ------------------------------------------------------------------


def _splits(query: Query, relations: tuple[tuple[str, Node], ...]) -> tuple[PartitionKeys, tuple[str, ...] | None]:
    """The keys by which windows are independent, with the relation that has them; and `identity` of the node.

    Both need that the tuples come from rows of one table, the second that each result comes from one of them.
    """
    chain = chain_of(query)
    if chain is None or len(relations) != 1:
        return PartitionKeys(), None
    name, source = relations[0]
    innermost = chain[-1].sources[0].expr
    if not isinstance(innermost, exp.Column) or innermost.name.casefold() != name.casefold() or source.schema.key is None:
        return PartitionKeys(), None
    own = source.schema.key if all(len(b.sources) == 1 for b in chain) else None
    windows = [b for b in chain if b.window is not None]
    if len(windows) != 1:
        return PartitionKeys(), own
    window = windows[0].window
    assert window is not None
    keys = keys_of(window.partition, values_before(windows[0], source.schema), source)
    one_each = window.label is None and window.start.unbounded and not keys.unsaid and own is not None
    limited = any(q.limit is not None or q.offset is not None for q in queries_of(query))
    again = any(reads_again(b, name) for b in chain) or any(mentions(k.expr, name, set()) for k in query.order)
    independent = (
        PartitionKeys(keys.node, unsaid="a subquery reads the table again" if again else "") if limited or again else keys
    )
    return independent, keys.columns if one_each else own


def _single(query: Query, relations: tuple[tuple[str, Node], ...], identity: tuple[str, ...] | None) -> Block | None:
    """The block with WINDOW BY of a query that passes rows of a table on: its windows depend on the rows near them alone."""
    chain = chain_of(query)
    limited = any(q.order or q.limit is not None or q.offset is not None for q in queries_of(query))
    if identity is None or chain is None or limited or any(reads_again(b, relations[0][0]) for b in chain):
        return None
    windows = [b for b in chain if b.window is not None]
    return windows[0] if len(windows) == 1 else None
