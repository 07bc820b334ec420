"""Aggregates as accumulator columns: the contribution of an epoch, the merge of two states, and the result.

In: an aggregate, and whether its input is append-only. Out: an `Accumulator`, or None if the aggregate must be
recomputed by key. Counts support retraction (rows carry `_weight`), as do sums and averages of integers and decimals.
Sums and averages of doubles are accumulated only if rows are never retracted. The same holds for aggregates whose row
in the function table has an algebra (`belvedere.functions.algebra`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import pyarrow as pa
from sqlglot import exp, parse_one

from belvedere.functions.algebra import Algebra
from belvedere.functions.function_table import function_of
from belvedere.plan.expressions import column, replace_columns
from belvedere.plan.operators.nodes import Aggregate, Expr, Item
from belvedere.schema import Schema
from belvedere.spark_sql.dialect import SparkSql

BIGINT = pa.int64()
DOUBLE = pa.float64()
ROWS = "_n"

GUARD = 6
"""Number of additional digits of a quotient beyond those of an average.

Rounding twice is then correct for at least a million rows.
"""


@dataclass(frozen=True)
class Accumulator:
    """One aggregate stored as columns: the contribution of an epoch, the merge of two states, and the result.

    `partials` are aggregates over the rows of a delta (they can read `_weight`); `merge` gives, per state column, an
    expression over `old.<column>` and `new.<column>`; `result` is the aggregate's value over the state columns.
    """

    columns: tuple[tuple[str, pa.DataType], ...]
    partials: tuple[Expr, ...]
    merge: tuple[Expr, ...]
    result: Expr


@dataclass(frozen=True)
class Accumulators:
    """The accumulators of all aggregates of one GROUP BY, with names that cannot clash.

    `partials` are the aggregates over a delta, `merge` has one expression per partial over `old.` and `new.` columns,
    `results` the columns of the aggregate itself over the state's columns.
    """

    schema: Schema
    partials: tuple[Item, ...]
    merge: tuple[Expr, ...]
    results: tuple[Item, ...]


def accumulators_of(node: Aggregate, accumulators: tuple[Accumulator, ...]) -> Accumulators:
    """Lay out the accumulators of an aggregate as columns after its keys. The first one counts the group's rows."""
    partials = [Item(ROWS, template("coalesce(sum(_weight), 0)"), BIGINT, nullable=False, hidden=True)]
    merge = [template(f"coalesce(old.{ROWS}, 0) + coalesce(new.{ROWS}, 0)")]
    results = [Item(i.name, column(i.name), i.type, i.nullable, i.hidden, i.doc) for i in node.keys]
    for n, (item, accumulator) in enumerate(zip(node.aggregates, accumulators, strict=True)):
        own = {name: f"_a{n}_{name}" for name, _ in accumulator.columns}
        for (name, type_), partial, together in zip(
            accumulator.columns, accumulator.partials, accumulator.merge, strict=True
        ):
            partials.append(Item(own[name], partial, type_, hidden=True))
            merge.append(_renamed(together, own))
        results.append(replace(item, expr=_renamed(accumulator.result, own)))
    columns = tuple(i.column for i in node.keys) + tuple(p.column for p in partials)
    return Accumulators(
        Schema(columns, tuple(i.name for i in node.keys)), tuple(partials), tuple(merge), tuple(results)
    )


def _renamed(expr: Expr, names: Mapping[str, str]) -> Expr:
    """Return the expression with columns renamed. A table prefix (`old`, `new`) stays."""

    def change(node: Expr) -> Expr:
        if isinstance(node, exp.Column) and node.name in names:
            return exp.column(names[node.name], table=node.table or None, quoted=True)
        return node

    return expr.copy().transform(change)


def accumulate(item: Item, source: Schema, append_only: bool) -> Accumulator | None:
    """Return the columns in which an aggregate is stored, or None if it cannot be stored so."""
    call, condition = _unfiltered(item.expr)
    if condition is not None and not isinstance(call, exp.Count | exp.Sum | exp.Avg | exp.Min | exp.Max):
        return None
    if isinstance(call, exp.Count):
        return _count(call, condition)
    value = call.this if isinstance(call, exp.Func) else None
    if not isinstance(value, exp.Expr) or isinstance(value, exp.Distinct | exp.Star) or is_modified(call):
        return None
    if condition is not None:
        value = exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])
    return _of_value(call, value, item.type, source, append_only)


def _unfiltered(expr: Expr) -> tuple[Expr, Expr | None]:
    if isinstance(expr, exp.Filter):
        return expr.this, expr.expression.this
    return expr, None


def is_modified(call: Expr) -> bool:
    """Return whether DISTINCT, ORDER BY, IGNORE NULLS or further arguments change the meaning.

    Such calls are recomputed.
    """
    return any(v for k, v in call.args.items() if k != "this" and v not in (None, False, []))


def _count(call: exp.Count, condition: Expr | None) -> Accumulator | None:
    values = [call.this, *call.expressions]
    if isinstance(call.this, exp.Distinct):
        return None
    tests: list[Expr] = [
        exp.Not(this=exp.Is(this=v.copy(), expression=exp.Null())) for v in values if not isinstance(v, exp.Star)
    ]
    if condition is not None:
        tests.append(condition.copy())
    counted: Expr = exp.and_(*tests) if tests else exp.true()
    partial = template("coalesce(sum(CASE WHEN x THEN _weight ELSE 0 END), 0)", x=counted)
    return Accumulator(
        (("c", BIGINT),), (partial,), (template("coalesce(old.c, 0) + coalesce(new.c, 0)"),), template("c")
    )


def _of_value(call: Expr, value: Expr, result: pa.DataType, source: Schema, append_only: bool) -> Accumulator | None:
    row = function_of(call)
    algebra = None if row is None else row.algebra
    if pa.types.is_duration(result) and (algebra is None or algebra.is_of_numbers):
        return None  # intervals have no common zero with numbers
    exact = pa.types.is_integer(result) or pa.types.is_decimal(result)
    match call:
        case exp.Sum() if pa.types.is_integer(result) and not is_small_integer(value, source):
            return _whole_sum(value)
        case exp.Sum() if exact or append_only:
            return _sum(value, result) if adds_exactly(result) else None
        case exp.Avg():
            return _average(value, result, source, append_only)
    return _of_algebra(algebra, value, result) if append_only and algebra is not None else None


_COUNT = "coalesce(sum(CASE WHEN x IS NOT NULL THEN _weight ELSE 0 END), 0)"
_PLUS_COUNT = "coalesce(old.c, 0) + coalesce(new.c, 0)"
_SUM = "coalesce(sum(CASE WHEN _weight > 0 THEN x ELSE -x END), 0)"
_PLUS_SUM = "coalesce(old.s, 0) + coalesce(new.s, 0)"


def _sum(value: Expr, result: pa.DataType) -> Accumulator:
    if pa.types.is_integer(result):
        value = _wide(value)
    partials = (template(_SUM, x=value), template(_COUNT, x=value))
    merge = (template(_PLUS_SUM), template(_PLUS_COUNT))
    return Accumulator((("s", result), ("c", BIGINT)), partials, merge, template("CASE WHEN c > 0 THEN s END"))


def _whole_sum(value: Expr) -> Accumulator:
    """Return a sum of BIGINT as the sums of the upper and lower 32 bits, which do not overflow on the way.

    The result therefore overflows only if the sum of the present rows does, whatever rows arrived and left before.
    """
    value = _wide(value)
    partials = (
        template(_SUM, x=template("shiftright(x, 32)", x=value)),
        template(_SUM, x=template("x & 4294967295", x=value)),
        template(_COUNT, x=value),
    )
    merge = tuple(template(f"coalesce(old.{n}, 0) + coalesce(new.{n}, 0)") for n in ("h", "l", "c"))
    total = template("CASE WHEN c > 0 THEN (h + shiftright(l, 32)) * 4294967296 + (l & 4294967295) END")
    return Accumulator((("h", BIGINT), ("l", BIGINT), ("c", BIGINT)), partials, merge, total)


def _average(value: Expr, result: pa.DataType, source: Schema, append_only: bool) -> Accumulator | None:
    partials = [template(_SUM, x=value), template(_COUNT, x=value)]
    merge = (template(_PLUS_SUM), template(_PLUS_COUNT))
    if pa.types.is_decimal(result):
        # Spark: avg(DECIMAL(p, s)) is DECIMAL(p + 4, s + 4), its sum DECIMAL(p + 10, s)
        total: pa.DataType = pa.decimal128(min(38, result.precision + 6), max(0, result.scale - 4))
        if result.scale == 38 or _quotient_scale(total) < result.scale + GUARD:
            return None
        final = template("CASE WHEN c > 0 THEN s / CAST(c AS DECIMAL(20, 0)) END")
        return Accumulator((("s", total), ("c", BIGINT)), tuple(partials), merge, final)
    if is_small_integer(value, source):
        partials[0] = template(_SUM, x=_wide(value))
        final = template("CASE WHEN c > 0 THEN CAST(s AS DOUBLE) / c END")
        return Accumulator((("s", BIGINT), ("c", BIGINT)), tuple(partials), merge, final)
    if not append_only:
        return None
    partials[0] = template(_SUM, x=template("CAST(x AS DOUBLE)", x=value))
    final = template("CASE WHEN c > 0 THEN s / c END")
    return Accumulator((("s", DOUBLE), ("c", BIGINT)), tuple(partials), merge, final)


def adds_exactly(type_: pa.DataType) -> bool:
    """Return whether `+` keeps all digits of two numbers of this type.

    Spark drops digits beyond 38 from the end, down to six decimals.
    """
    return not (pa.types.is_decimal(type_) and type_.precision == 38 and type_.scale > 6)


def _quotient_scale(total: pa.Decimal128Type) -> int:
    """Return the number of decimal digits that Spark gives to a sum of this type divided by a DECIMAL(20, 0)."""
    whole: int = total.precision - total.scale
    return min(int(total.scale) + 21, max(38 - whole, 6))


def _wide(value: Expr) -> Expr:
    """Cast a value to BIGINT: the least INT has no negative of its own type."""
    return template("CAST(x AS BIGINT)", x=value)


def is_small_integer(value: Expr, source: Schema) -> bool:
    """Return whether a column has at most 32 bits. Its sums cannot overflow a BIGINT in practice."""
    found = source.find(value.name) if isinstance(value, exp.Column) else None
    return found is not None and pa.types.is_integer(found.type) and found.type.bit_width <= 32


def _of_algebra(algebra: Algebra, value: Expr, result: pa.DataType) -> Accumulator:
    """Return the accumulator that the function's algebra defines."""
    x = template("CAST(x AS DOUBLE)", x=value) if algebra.of_reals else value
    columns = tuple((name, result if type_ is None else type_) for name, type_ in algebra.parts)
    return Accumulator(
        columns,
        tuple(template(t, x=x) for t in algebra.add),
        tuple(map(template, algebra.merge)),
        template(algebra.result),
    )


@cache
def _parsed(text: str) -> Expr:
    return parse_one(text, dialect=SparkSql)


def template(text: str, **parts: Expr) -> Expr:
    """Return a Spark expression with its column names replaced by other expressions."""
    expr = _parsed(text)
    return replace_columns(expr, {k: exp.paren(v, copy=True) for k, v in parts.items()}) if parts else expr.copy()
