"""Expressions that are non-decreasing in one of their columns: a bound on the column gives a bound on the expression.

In: a resolved expression over TIMESTAMP or DATE columns, or intervals of fixed length. Out: the column and a function
of microseconds, or None. The bound of a DATE is its midnight; the bound of a number derived from a time is that number.
`belvedere.plan.rising` covers functions. This module covers operators, casts, and expressions of several columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from math import floor as whole

from sqlglot import exp

from belvedere.functions.calendar import MONTHS, UNITS, CalendarStep, floor
from belvedere.plan.expressions import Expr
from belvedere.plan.rising import Rise, floor_day, in_months, rise_of, shift_by, time_literal, whole_number

NEVER = -(2**63)
"""No bound yet: any time may still arrive."""
FOREVER = 2**63 - 1
"""Bound after which nothing changes any more."""
SPAN = ("DAY", "HOUR", "MINUTE", "SECOND")


LAST_TIME = 253402300799_999_999
"""Last microsecond of the year 9999. No time is later, so rows that wait for it wait for the end of the input."""


@dataclass(frozen=True)
class Monotone:
    """`column` and a non-decreasing function of it. `shift` is set if the function only adds a constant."""

    column: str
    step: CalendarStep
    shift: int | None = None
    above: int | None = None
    """Maximum of the expression minus the column; None if unknown."""
    numeric: bool = False
    """Whether the value is a number derived from a time."""

    def __call__(self, bound: int) -> int:
        return bound if bound in (NEVER, FOREVER) else max(NEVER, min(FOREVER, self.step(bound)))


def monotone(expr: Expr) -> Monotone | None:
    """Return an expression as a non-decreasing function of one column; None if it is not known to be one."""
    match expr:
        case exp.Column():
            return Monotone(expr.name, _same, shift=0, above=0)
        case exp.Paren() | exp.Alias():
            return monotone(expr.this)
        case exp.Add() | exp.Sub():
            return _moved(expr)
        case exp.Mul() | exp.IntDiv():
            return _scaled(expr)
        case exp.Floor() if not expr.args.get("to") and isinstance(expr.this.unnest(), exp.Div):
            return _divided(expr.this.unnest(), whole)
        case exp.Cast():
            return _cast(expr)
        case _:
            found = rise_of(expr)
            return None if found is None else _after(monotone(found[0]), found[1])


def reach(expr: Expr) -> tuple[str, int] | None:
    """Return the only column of a time expression, and the maximum of the expression minus the column; None if
    unknown."""
    found = monotone(expr)
    return None if found is None or found.above is None else (found.column, found.above)


def interval_length(expr: Expr) -> int | None:
    """Return the microseconds of an interval literal of weeks or less, or of a sum of such; None for any other
    expression."""
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
    """Return the microseconds of an interval such as `'1 02:03' DAY TO MINUTE`."""
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
    """Handle a time plus or minus an interval, a date plus or minus days, or a number plus or minus a constant."""
    inner, length = monotone(expr.this), interval_length(expr.expression)
    if inner is None:
        return _mirrored(expr)
    sign = 1 if isinstance(expr, exp.Add) else -1
    if length is not None:
        return _after(inner, shift_by(sign * length))
    count = whole_number(expr.expression)
    if count is not None and inner.numeric:
        return _after(inner, Rise(lambda n: n + sign * count, numeric=True))
    if count is not None and _is_date(expr.this):
        return _after(inner, shift_by(sign * count * UNITS["DAY"]))
    return _moved_by_months(expr, inner) or _rounded_number(expr, inner)


def _mirrored(expr: exp.Add | exp.Sub) -> Monotone | None:
    """Handle `INTERVAL '1' HOUR + t`."""
    length = interval_length(expr.this) if isinstance(expr, exp.Add) else None
    return None if length is None else _after(monotone(expr.expression), shift_by(length))


def _is_date(expr: Expr) -> bool:
    inner = expr.unnest()
    return isinstance(inner, exp.Cast) and inner.to.this is exp.DataType.Type.DATE


def _moved_by_months(expr: exp.Add | exp.Sub, inner: Monotone) -> Monotone | None:
    interval = expr.expression.unnest()
    if not isinstance(interval, exp.Interval) or not isinstance(interval.this, exp.Literal):
        return None
    unit = interval.args.get("unit")
    months = MONTHS.get(unit.name.upper().removesuffix("S")) if isinstance(unit, exp.Var) else None
    text = interval.this.name
    if months is None or not text.lstrip("-").isdigit():
        return None
    return _after(inner, Rise(in_months(int(text) * months * (1 if isinstance(expr, exp.Add) else -1))))


def _rounded_number(expr: exp.Add | exp.Sub, inner: Monotone) -> Monotone | None:
    """Handle `n - n % 60` and `n - pmod(n - c, 60)`: rounding to a multiple; `%` rounds towards zero."""
    rest = expr.expression.unnest()
    if not isinstance(expr, exp.Sub) or not inner.numeric:
        return None
    if isinstance(rest, exp.Mod):
        of, size, down = rest.this, whole_number(rest.expression), False
    elif isinstance(rest, exp.Anonymous) and rest.name.lower() == "pmod" and len(rest.expressions) == 2:
        of, size, down = rest.expressions[0], whole_number(rest.expressions[1]), True
    else:
        return None
    base, offset = _base(of.unnest())
    if size is None or size <= 0 or offset is None or base != expr.this.unnest() or not (down or offset == 0):
        return None
    if down:
        return _after(inner, Rise(lambda n: floor(n, size, offset), numeric=True))
    return _after(inner, Rise(lambda n: n - (n % size if n >= 0 else -(-n % size)), numeric=True))


def _base(expr: Expr) -> tuple[Expr, int | None]:
    """Split a number into an expression and the constant subtracted from it."""
    if not isinstance(expr, exp.Sub):
        return expr, 0
    origin = expr.expression.unnest()
    if isinstance(origin, exp.UnixMicros):
        return expr.this.unnest(), time_literal(origin.this)
    return expr.this.unnest(), whole_number(origin)


def _scaled(expr: exp.Mul | exp.IntDiv) -> Monotone | None:
    """Handle a number multiplied or divided by a positive constant; DIV rounds towards zero."""
    a, b = expr.this, expr.expression
    if isinstance(expr, exp.IntDiv):
        return _divided(expr, int) if whole_number(b) is not None else None
    if whole_number(a) is not None:
        a, b = b, a
    inner, factor = monotone(a), whole_number(b)
    if inner is None or not inner.numeric or factor is None or factor < 0:
        return None
    return _after(inner, Rise(lambda n: n * factor, numeric=True))


def _divided(expr: Expr, to_whole: Callable[[float], int]) -> Monotone | None:
    """Handle the quotient of a number and a positive constant, rounded to an integer."""
    inner, size = monotone(expr.this), whole_number(expr.expression)
    if inner is None or not inner.numeric or size is None or size <= 0:
        return None
    if isinstance(expr, exp.IntDiv):
        return _after(inner, Rise(lambda n: n // size if n >= 0 else -(-n // size), numeric=True))
    return _after(inner, Rise(lambda n: to_whole(n / size), numeric=True))


def _cast(expr: exp.Cast) -> Monotone | None:
    inner, kind = monotone(expr.this), expr.to.this
    if inner is not None and inner.numeric:
        return inner if kind in (exp.DataType.Type.BIGINT, exp.DataType.Type.INT) else None
    if inner is None:
        whole_part = kind in (exp.DataType.Type.BIGINT, exp.DataType.Type.INT) and isinstance(
            expr.this.unnest(), exp.Div
        )
        return _divided(expr.this.unnest(), int) if whole_part else None
    if kind is exp.DataType.Type.DATE:
        return _after(inner, Rise(floor_day, above=0))
    return inner if kind in TIMES else None


TIMES = (
    exp.DataType.Type.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPTZ,
    exp.DataType.Type.TIMESTAMPLTZ,
    exp.DataType.Type.TIMESTAMPNTZ,
)


def _after(inner: Monotone | None, rise: Rise) -> Monotone | None:
    """Return the composition of a function with its argument."""
    if inner is None:
        return None
    first, step = inner.step, rise.step
    shift = None if inner.shift is None or rise.shift is None else inner.shift + rise.shift
    above = None if inner.above is None or rise.above is None else inner.above + rise.above
    return Monotone(inner.column, lambda t: step(first(t)), shift, above, rise.numeric)


def combine(bounds: Mapping[str, int], expr: Expr, never_null: Collection[str] = ()) -> int | None:
    """Return the bound of an expression, given its columns' bounds; None if there is none. Columns outside `never_null`
    may be NULL."""
    match expr:
        case exp.Paren():
            return combine(bounds, expr.this, never_null)
        case exp.Case() if expr.this is None:
            return _combine_cases(bounds, expr, never_null)
        case exp.If():
            return _least([_part(bounds, expr.args.get(n), never_null) for n in ("true", "false")])
        case exp.Greatest():
            return _combine_greatest(bounds, expr, never_null)
        case exp.Least():
            return _combine_least(bounds, expr, never_null)
        case exp.Coalesce():
            return _least([_part(bounds, p, never_null) for p in _until_sure(expr, never_null)])
        case _:
            found = monotone(expr)
            if found is not None:
                return found(bounds[found.column]) if found.column in bounds else None
            rise = rise_of(expr)  # expressions of several columns
            inner = None if rise is None else combine(bounds, rise[0], never_null)
            return inner if rise is None or inner is None or inner in (NEVER, FOREVER) else rise[1].step(inner)


def _part(bounds: Mapping[str, int], expr: Expr | None, never_null: Collection[str]) -> int | None:
    """Return the bound of one possible value of an expression. NULL is below no bound, and no time exceeds the last
    one."""
    beyond = expr is None or isinstance(expr, exp.Null) or time_literal(expr) == LAST_TIME
    return FOREVER if beyond or expr is None else combine(bounds, expr, never_null)


def _least(parts: list[int | None]) -> int | None:
    known = [p for p in parts if p is not None]
    return min(known) if known and len(known) == len(parts) else None


def _combine_greatest(bounds: Mapping[str, int], expr: exp.Greatest, never_null: Collection[str]) -> int | None:
    """Return the greatest bound of the arguments. If a column may be NULL, return the least one, because `greatest`
    skips NULLs."""
    parts = [expr.this, *expr.expressions]
    if any(c.name not in never_null for c in expr.find_all(exp.Column)):
        return _least([combine(bounds, p, never_null) for p in parts])
    known = [k for p in parts if (k := combine(bounds, p, never_null)) is not None]
    return max(*known, *(c for p in parts if (c := time_literal(p)) is not None), NEVER) if known else None


def _combine_least(bounds: Mapping[str, int], expr: exp.Least, never_null: Collection[str]) -> int | None:
    """Return the least bound of all arguments. The bound of a constant is itself, until nothing changes any more."""
    parts = [expr.this, *expr.expressions]
    constants = [c for p in parts if (c := time_literal(p)) is not None]
    least = _least([combine(bounds, p, never_null) for p in parts if time_literal(p) is None])
    return least if least is None or least == FOREVER else min((least, *constants))


def _until_sure(expr: exp.Coalesce, never_null: Collection[str]) -> list[Expr]:
    """Return the arguments of COALESCE up to the first that is never NULL."""
    parts = [expr.this, *expr.expressions]
    sure = (n for n, p in enumerate(parts) if (found := monotone(p)) is not None and found.column in never_null)
    return parts[: next(sure, len(parts)) + 1]


def _combine_cases(bounds: Mapping[str, int], expr: exp.Case, never_null: Collection[str]) -> int | None:
    """Return the least bound of the branches; after `WHEN c IS NULL`, c is not NULL."""
    parts: list[int | None] = []
    for branch in expr.args["ifs"]:
        parts.append(_part(bounds, branch.args["true"], never_null))
        test = branch.this.unnest()
        if isinstance(test, exp.Is) and isinstance(test.expression, exp.Null) and isinstance(test.this, exp.Column):
            never_null = {*never_null, test.this.name}
    parts.append(_part(bounds, expr.args.get("default"), never_null))
    return _least(parts)
