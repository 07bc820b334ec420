"""Interval literals as microseconds.

In: an `exp.Interval` or a folded sum of them. Out: an exact length; months and years have none and are refused.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from sqlglot import exp

from belvedere.functions.calendar import UNITS

SPAN = ("DAY", "HOUR", "MINUTE", "SECOND")


def microseconds(expr: exp.Expr) -> int | None:
    """The length of an interval; None where it is no literal of days or less."""
    inner = expr.unnest()
    if isinstance(inner, exp.Neg):
        length = microseconds(inner.this)
        return None if length is None else -length
    if isinstance(inner, exp.Add):
        parts = microseconds(inner.this), microseconds(inner.expression)
        return None if parts[0] is None or parts[1] is None else parts[0] + parts[1]
    if not isinstance(inner, exp.Interval) or not isinstance(inner.this, exp.Literal):
        return None
    unit = inner.args.get("unit")
    if isinstance(unit, exp.IntervalSpan):
        return _span(inner.this.name, unit.this.name.upper(), unit.expression.name.upper())
    factor = UNITS.get(unit.name.upper().removesuffix("S")) if unit is not None else None
    try:
        exact = Decimal(inner.this.name) * factor if factor is not None else None
    except InvalidOperation:
        return None
    return int(exact) if exact is not None and exact == int(exact) else None


def _span(text: str, first: str, last: str) -> int | None:
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
