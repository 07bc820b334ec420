"""Aggregates of firings without a row for each row of their contents: by the kernels that aggregate ranges of rows.

In: an `SplAggregate` whose aggregates these kernels know, rows, firings. Out: its rows, one per firing. The cost does not follow the
size of the windows. What is not known here is computed by the query over the contents.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from sqlglot import exp

from belvedere.engine.rows import combined
from belvedere.kernels.aggregates import aggregate
from belvedere.kernels.rows import SortedRows
from belvedere.kernels.search import Ints
from belvedere.kernels.specs import LONGEST_DECIMAL, WindowAggregate
from belvedere.kernels.spl.rows import Firings
from belvedere.plan.nodes import Expr, Item
from belvedere.plan.spl_aggregate import SplAggregate
from belvedere.rules.spl.contents import name_of, readings
from belvedere.schema import Schema

NAMES: dict[type[Expr], str] = {exp.Count: "COUNT", exp.Sum: "SUM", exp.Avg: "AVG", exp.Min: "MIN", exp.Max: "MAX"}
ENDS = (exp.First, exp.Last)


def aggregates_of(node: SplAggregate) -> tuple[WindowAggregate | str, ...] | None:
    """What the kernels compute for each aggregate (`first` and `last`: `<` or `>` and the column); None where they cannot."""
    found = tuple(_known(i, node.input.schema) for i in node.aggregates)
    return None if node.groups or any(f is None for f in found) else tuple(f for f in found if f is not None)


def _known(item: Item, given: Schema) -> WindowAggregate | str | None:
    call, included = item.expr, None
    if isinstance(call, exp.Filter) and isinstance(call.expression.this, exp.Column):
        call, included = call.this, call.expression.this.name
    if isinstance(call, ENDS) and isinstance(call.this, exp.Column) and included is None:
        return ("<" if isinstance(call, exp.First) else ">") + str(call.this.name)
    function = NAMES.get(type(call))
    if function is None or call.args.get("expressions"):
        return None
    if function == "COUNT" and isinstance(call.this, exp.Star):
        return WindowAggregate(item.name, "COUNT", None, included)
    if not isinstance(call.this, exp.Column) or not _fits(function, call.this, given):
        return None
    return WindowAggregate(item.name, function, call.this.name, included)


def _fits(function: str, column: Expr, given: Schema) -> bool:
    type_ = given[column.name].type
    if function == "COUNT":
        return True
    if pa.types.is_decimal(type_):
        return function != "AVG" and type_.precision <= LONGEST_DECIMAL
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return True
    comparable = pa.types.is_string(type_) or pa.types.is_timestamp(type_) or pa.types.is_date(type_)
    return function in ("MIN", "MAX") and comparable


def firing_rows(node: SplAggregate, rows: pa.Table, firings: Firings, numbers: Ints, members: Ints | None) -> pa.Table | None:
    """The node's rows, one per firing in their order; None where the kernels cannot compute them."""
    known = aggregates_of(node)
    if known is None:
        return None
    table = rows if members is None else rows.take(pa.array(members))
    sorted_rows = SortedRows(table, ())
    columns = {i.name: combined(table[i.expr.name]).take(pa.array(firings.last)) for i in node.partition}
    try:
        for item, found in zip(node.aggregates, known, strict=True):
            columns[item.name] = _values(found, sorted_rows, firings).cast(item.type)
    except (OverflowError, pa.ArrowInvalid):
        return None  # the query says what overflows
    said = readings(node, firings, numbers)
    columns |= {r.name: said[name_of(r.reading)] for r in node.readings}
    return pa.table(columns)


def _values(found: WindowAggregate | str, rows: SortedRows, firings: Firings) -> pa.Array:
    if isinstance(found, str):
        return rows.column(found[1:]).take(pa.array(firings.first if found[0] == "<" else firings.last))
    return aggregate(found, rows, firings.first, firings.last, np.zeros(len(firings), np.int64))
