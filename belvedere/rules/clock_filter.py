"""Filters on `now()`: every row gets a time to enter and a time to leave.

In: a condition. Out: the part without the clock, and per remaining conjunct the instant (in microseconds, as an expression of
the row) from which or up to which the row is in. What cannot be turned round (`now()` under a month interval, OR, functions of
the clock) is not split: the caller then recomputes whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from belvedere.plan.expressions import conjuncts, reads_clock
from belvedere.plan.nodes import Expr

ENTER = "_enter"
LEAVE = "_leave"
FIXED_UNITS = {"MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK"}
FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE}


@dataclass(frozen=True)
class ClockFilter:
    """`plain` conjuncts, and the microseconds from which (`enters`) and at which no longer (`leaves`) a row is in."""

    plain: tuple[Expr, ...]
    enters: tuple[Expr, ...]
    leaves: tuple[Expr, ...]


def split_clock_filter(condition: Expr) -> ClockFilter | None:
    """Take a condition apart, or None where some conjunct has no time to enter or leave."""
    plain: list[Expr] = []
    enters: list[Expr] = []
    leaves: list[Expr] = []
    for part in _comparisons(condition):
        if not reads_clock(part):
            plain.append(part)
            continue
        bound = _bound(part)
        if bound is None:
            return None
        leaving, at = bound
        (leaves if leaving else enters).append(at)
    return ClockFilter(tuple(plain), tuple(enters), tuple(leaves))


def _comparisons(condition: Expr) -> tuple[Expr, ...]:
    parts: list[Expr] = []
    for part in conjuncts(condition):
        if isinstance(part, exp.Between) and not part.args.get("symmetric"):
            parts.append(exp.GTE(this=part.this.copy(), expression=part.args["low"].copy()))
            parts.append(exp.LTE(this=part.this.copy(), expression=part.args["high"].copy()))
        else:
            parts.append(part)
    return tuple(parts)


def _bound(part: Expr) -> tuple[bool, Expr] | None:
    """(is it a leaving time, its microseconds) of one comparison."""
    if type(part) not in FLIPPED:
        return None
    kind, row, clock = type(part), part.this, part.expression
    if reads_clock(row):
        kind, row, clock = FLIPPED[kind], clock, row
    if reads_clock(row):
        return None
    shifted = _shift(clock, row)
    if shifted is None:
        return None
    micros = exp.Anonymous(this="unix_micros", expressions=[exp.cast(shifted, "timestamp")])
    one = exp.Literal.number(1)
    # row >= clock: the row is in up to and including the instant itself
    if kind is exp.GTE:
        return True, exp.Add(this=micros, expression=one)
    if kind is exp.GT:
        return True, micros
    if kind is exp.LTE:
        return False, micros
    return False, exp.Add(this=micros, expression=one)


def _shift(clock: Expr, row: Expr) -> Expr | None:
    """`row` moved so that it can be compared with the bare clock: now() - i against r is now() against r + i."""
    clock = clock.unnest()
    row = row.copy()
    while not isinstance(clock, exp.CurrentTimestamp):
        if isinstance(clock, exp.Sub) and not reads_clock(clock.expression) and _is_fixed(clock.expression):
            row = exp.Add(this=exp.paren(row), expression=clock.expression.copy())
        elif isinstance(clock, exp.Add) and not reads_clock(clock.expression) and _is_fixed(clock.expression):
            row = exp.Sub(this=exp.paren(row), expression=clock.expression.copy())
        else:
            return None
        clock = clock.this.unnest()
    return row


def _is_fixed(interval: Expr) -> bool:
    """Whether an interval always has the same length."""
    interval = interval.unnest()
    if not isinstance(interval, exp.Interval):
        return False
    unit = interval.args.get("unit")
    return unit is not None and unit.name.upper().rstrip("S") in FIXED_UNITS
