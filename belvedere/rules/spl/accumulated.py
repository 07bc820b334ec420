"""Aggregates of a window that are kept as accumulators, and the output rows that are computed from them.

In: an `SplAggregate`, rows, blocks of rows, firings. Out: accumulators of rows as a table, and the node's rows, one per
firing. Other aggregates are computed by the query over the contents.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from belvedere.functions.function_table import function_of
from belvedere.kernels.search import Ints
from belvedere.kernels.spl.accumulators import (
    BlockAggregate,
    Counted,
    Deviation,
    End,
    Exact,
    Extreme,
    Real,
    Whole,
    whole,
)
from belvedere.kernels.spl.window_rows import Firings
from belvedere.plan.operators.nodes import Item
from belvedere.plan.operators.spl_aggregate import SplAggregate
from belvedere.plan.operators.window_specs import MAX_DECIMAL_DIGITS
from belvedere.rules.spl.contents import name_of, readings
from belvedere.schema import Column, Schema
from belvedere.spark_sql.dialect import SparkSql


def accumulator_of(item: Item, given: Schema) -> BlockAggregate | None:
    """Return the accumulator of an aggregate, or None if it has none."""
    call, included = item.expr, None
    if isinstance(call, exp.Filter) and isinstance(call.expression.this, exp.Column):
        call, included = call.this, call.expression.this.name
    if call.args.get("expressions"):
        return None
    if isinstance(call, exp.Count) and isinstance(call.this, exp.Star):
        return Counted(None, pa.int64(), included)
    if not isinstance(call.this, exp.Column):
        return None
    name = call.this.name
    type_ = given[name].type
    match call:
        case exp.Count():
            return Counted(name, type_, included)
        case exp.First() | exp.Last() if included is None:
            return End(name, type_, None, isinstance(call, exp.Last))
        case exp.Min() | exp.Max() if _is_comparable(type_):
            return Extreme(name, type_, included, isinstance(call, exp.Max))
        case exp.Sum() | exp.Avg():
            return _sum_of(name, type_, included, isinstance(call, exp.Avg))
    row = function_of(call)
    moment = row.algebra.moment if row is not None and row.algebra is not None else ""
    return Deviation(name, type_, included, moment) if moment and _is_number(type_) else None


def _sum_of(name: str, type_: pa.DataType, included: str | None, is_average: bool) -> BlockAggregate | None:
    if pa.types.is_integer(type_):
        return Whole(name, type_, included, is_average)
    if pa.types.is_floating(type_):
        return Real(name, type_, included, is_average)
    if pa.types.is_decimal(type_) and not is_average and type_.precision <= MAX_DECIMAL_DIGITS:
        return Exact(name, type_, included)
    return None


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_))


def _is_comparable(type_: pa.DataType) -> bool:
    if pa.types.is_decimal(type_):
        return bool(type_.precision <= MAX_DECIMAL_DIGITS)
    return _is_number(type_) or any(is_(type_) for is_ in (pa.types.is_string, pa.types.is_timestamp, pa.types.is_date))


def not_accumulated(node: SplAggregate) -> list[str]:
    """Return by name, for each aggregate without accumulator, why it is computed from the window's whole contents.

    Empty if all have one.
    """
    if node.sort:
        return ["ORDER BY"]
    found = [f"GROUP BY {g.name}" for g in node.groups]
    return found + [i.expr.sql(SparkSql) for i in node.aggregates if accumulator_of(i, node.input.schema) is None]


def accumulators_of(node: SplAggregate) -> dict[str, BlockAggregate] | None:
    """Return the aggregates by name, and the partition's columns taken from the last row.

    Return None if an aggregate has no accumulator.
    """
    if not_accumulated(node):
        return None
    given = node.input.schema
    found: dict[str, BlockAggregate] = {
        i.name: End(i.expr.name, given[i.expr.name].type, None, True) for i in node.partition
    }
    for item in node.aggregates:
        kept = accumulator_of(item, given)
        assert kept is not None
        found[item.name] = kept
    return found


def accumulated_columns(kept: dict[str, BlockAggregate]) -> tuple[Column, ...]:
    """Return the columns of the accumulators of all aggregates."""
    return tuple(Column(f"{n}.{m}", t) for n, a in enumerate(kept.values()) for m, t in enumerate(a.types))


def accumulated(kept: dict[str, BlockAggregate], rows: pa.Table) -> pa.Table:
    """Return the accumulators of each row."""
    return _table(kept, [part for a in kept.values() for part in a.of_rows(rows)])


def folded(kept: dict[str, BlockAggregate], rows: pa.Table, first: Ints, last: Ints) -> pa.Table:
    """Return the accumulators of ranges of rows."""
    found = []
    for n, a in enumerate(kept.values()):
        found += a.fold([whole(rows[f"{n}.{m}"]) for m in range(len(a.types))], first, last)
    return _table(kept, found)


def _table(kept: dict[str, BlockAggregate], parts: list[pa.Array]) -> pa.Table:
    fields = [pa.field(c.name, c.type) for c in accumulated_columns(kept)]
    return pa.table([p.cast(f.type) for p, f in zip(parts, fields, strict=True)], schema=pa.schema(fields))


def firing_rows(node: SplAggregate, rows: pa.Table, firings: Firings, numbers: Ints) -> pa.Table | None:
    """Compute the node's rows from the accumulators, one per firing in order.

    Return None if a value overflows; the query then reports which one.
    """
    kept = accumulators_of(node)
    assert kept is not None
    try:
        found = folded(kept, rows, firings.first, firings.last)
        types = {i.name: i.type for i in (*node.partition, *node.aggregates)}
        columns = {
            name: a.value([whole(found[f"{n}.{m}"]) for m in range(len(a.types))]).cast(types[name])
            for n, (name, a) in enumerate(kept.items())
        }
    except (OverflowError, pa.ArrowInvalid):
        return None
    said = readings(node, firings, numbers)
    return pa.table(columns | {r.name: said[name_of(r.reading)] for r in node.readings})
