"""Expressions that never fall while one of their columns rises: how a bound on that column becomes one on the expression.

In: a resolved expression over TIMESTAMP or DATE columns. Out: the column and a function of microseconds, or None. Also intervals of
fixed length, and calendar rounding in UTC. A bound on a DATE is its midnight. Nothing is assumed of functions not named here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from belvedere.functions.calendar import MONTHS, UNITS, CalendarStep, floor_to, in_calendar
from belvedere.functions.function_table import function_of
from belvedere.plan.expressions import Expr

NEVER = -(2**63)
"""No bound yet: any time may still come."""
FOREVER = 2**63 - 1
"""Nothing will change any more."""
SPAN = ("DAY", "HOUR", "MINUTE", "SECOND")


@dataclass(frozen=True)
class Monotone:
    """`column` and the function that the expression is of it; `shift` where it is the column itself or moved by so much."""

    column: str
    step: CalendarStep
    shift: int | None = None
    above: int | None = None
    """How far above the column the expression can be; None where that is not known."""
    rounds: bool = False
    """Whether it rounds down: then the column is never below the expression."""

    def __call__(self, bound: int) -> int:
        return bound if bound in (NEVER, FOREVER) else max(NEVER, min(FOREVER, self.step(bound)))


def monotone(expr: Expr) -> Monotone | None:
    """An expression as a non-decreasing function of one column; None where it is not known to be one."""
    match expr:
        case exp.Column():
            return Monotone(expr.name, _same, shift=0, above=0)
        case exp.Paren() | exp.Alias():
            return monotone(expr.this)
        case exp.Add() | exp.Sub():
            return _moved(expr)
        case exp.Cast():
            return _cast(expr)
        case _:
            known = function_of(expr)
            return None if known is None or known.step is None else _after(monotone(expr.this), known.step(expr))


def reach(expr: Expr) -> tuple[str, int] | None:
    """The one column of an expression of times, and how far above it the expression can be; None where that is not known."""
    found = monotone(expr)
    return None if found is None or found.above is None else (found.column, found.above)


def interval_length(expr: Expr) -> int | None:
    """The microseconds of an interval literal of weeks or less, or of a sum of such; None for any other expression."""
    inner = expr.unnest()
    if isinstance(inner, exp.Neg):
        length = interval_length(inner.this)
        return None if length is None else -length
    if isinstance(inner, exp.Add):
        parts = interval_length(inner.this), interval_length(inner.expression)
        return None if parts[0] is None or parts[1] is None else parts[0] + parts[1]
    if not isinstance(inner, exp.Interval) or not isinstance(inner.this, exp.Literal):
        return None
    unit = inner.args.get("unit")
    if isinstance(unit, exp.IntervalSpan):
        return _span_length(inner.this.name, unit.this.name.upper(), unit.expression.name.upper())
    factor = UNITS.get(unit.name.upper().removesuffix("S")) if unit is not None else None
    try:
        exact = Decimal(inner.this.name) * factor if factor is not None else None
    except InvalidOperation:
        return None
    return int(exact) if exact is not None and exact == int(exact) else None


def _span_length(text: str, first: str, last: str) -> int | None:
    """`'1 02:03' DAY TO MINUTE`."""
    if first not in SPAN or last not in SPAN:
        return None
    units = SPAN[SPAN.index(first) : SPAN.index(last) + 1]
    numbers = text.lstrip("-").replace(" ", ":").split(":")
    if len(numbers) != len(units):
        return None
    try:
        total = sum(int(Decimal(n) * UNITS[u]) for n, u in zip(numbers, units, strict=True))
    except InvalidOperation:
        return None
    return -total if text.startswith("-") else total


def _same(time: int) -> int:
    return time


def _moved(expr: exp.Add | exp.Sub) -> Monotone | None:
    """A time plus or minus an interval."""
    inner, length = monotone(expr.this), interval_length(expr.expression)
    if inner is None or length is None:
        return _moved_by_months(expr, inner)
    moved = length if isinstance(expr, exp.Add) else -length
    step = inner.step
    shift, above = (None if n is None else n + moved for n in (inner.shift, inner.above))
    return Monotone(inner.column, lambda t: step(t) + moved, shift, above)


def _moved_by_months(expr: exp.Add | exp.Sub, inner: Monotone | None) -> Monotone | None:
    interval = expr.expression.unnest()
    if inner is None or not isinstance(interval, exp.Interval) or not isinstance(interval.this, exp.Literal):
        return None
    unit = interval.args.get("unit")
    months = MONTHS.get(unit.name.upper().removesuffix("S")) if isinstance(unit, exp.Var) else None
    text = interval.this.name
    if months is None or not text.lstrip("-").isdigit():
        return None
    count = int(text) * months * (1 if isinstance(expr, exp.Add) else -1)
    return _after(inner, lambda t: in_calendar(t, lambda d: _add_months(d, count)), rounds=False)


def _cast(expr: exp.Cast) -> Monotone | None:
    inner = monotone(expr.this)
    kind = expr.to.this
    if kind is exp.DataType.Type.DATE:
        return _after(inner, floor_to("DAY"))
    if kind in (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ):
        return inner
    return None


def _after(inner: Monotone | None, step: CalendarStep | None, rounds: bool = True) -> Monotone | None:
    if inner is None or step is None:
        return None
    first = inner.step
    own = rounds and (inner.shift == 0 or inner.rounds)
    return Monotone(inner.column, lambda t: step(first(t)), above=inner.above if rounds else None, rounds=own)


def _add_months(day: datetime, months: int) -> datetime:
    """As SQL does: the last day of the month where the day does not exist."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    first = day.replace(year=year, month=month + 1, day=1)
    following = first.replace(year=year + month // 11, month=(month + 1) % 12 + 1)
    return first + timedelta(days=min(day.day, (following - first).days) - 1)


def combine(bounds: Mapping[str, int], expr: Expr, nullable: Collection[str] = ()) -> int | None:
    """The bound of an expression given its columns'; None where none follows. `nullable` columns may be NULL."""
    match expr:
        case exp.Case() if expr.this is None:
            return _combine_cases(bounds, expr, set(nullable))
        case exp.Greatest() | exp.Least() | exp.Coalesce():
            parts = [combine(bounds, e, nullable) for e in (expr.this, *expr.expressions)]
            known = [p for p in parts if p is not None]
            if isinstance(expr, exp.Greatest) and not any(c.name in nullable for c in expr.find_all(exp.Column)):
                return max(known, default=None)
            return min(known) if len(known) == len(parts) else None
        case _:
            found = monotone(expr)
            return None if found is None or found.column not in bounds else found(bounds[found.column])


def _combine_cases(bounds: Mapping[str, int], expr: exp.Case, nullable: set[str]) -> int | None:
    """The least of the branches; after `WHEN c IS NULL` c is not NULL."""
    parts: list[int | None] = []
    for branch in expr.args["ifs"]:
        value, condition = branch.args["true"], branch.this.unnest()
        if not isinstance(value, exp.Null):
            parts.append(combine(bounds, value, nullable))
        if (
            isinstance(condition, exp.Is)
            and isinstance(condition.expression, exp.Null)
            and isinstance(condition.this, exp.Column)
        ):
            nullable = nullable - {condition.this.name}
    default = expr.args.get("default")
    if default is not None and not isinstance(default, exp.Null):
        parts.append(combine(bounds, default, nullable))
    known = [p for p in parts if p is not None]
    return min(known) if known and len(known) == len(parts) else None
