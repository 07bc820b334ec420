"""Clock steps of expressions with now(): `current_date` changes once a day, `date_trunc('hour', now())` once an hour.

In: expressions. Out: the interval in microseconds at which time alone changes their value. All times are UTC, so a step
begins at a multiple of its length. Units longer than a day change at the beginning of some day, so their step is a day.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from belvedere.plan.operators.nodes import Expr, Node

MINUTE, HOUR, DAY = 60_000_000, 3_600_000_000, 86_400_000_000
STEPS = {"SECOND": 1_000_000, "MINUTE": MINUTE, "HOUR": HOUR}
LONG = frozenset(("DAY", "WEEK", "MONTH", "QUARTER", "YEAR", "DOW", "DAYOFWEEK", "DOY", "DAYOFYEAR"))
PARTS_OF_DATES = (exp.Year, exp.Quarter, exp.Month, exp.Week, exp.Day, exp.DayOfMonth, exp.DayOfWeek, exp.DayOfYear)


def clock_step(nodes: Iterable[Node]) -> int | None:
    """Return the interval at which time alone may change the result of these operators; None if it may change at any
    moment."""
    clocks = (c for n in nodes for e in n.expressions for c in e.find_all(exp.CurrentTimestamp))
    steps = [_step(c) for c in clocks]
    return None if None in steps else min((s for s in steps if s is not None), default=None)


def next_step(clock: int, step: int) -> int:
    """Return the time at which the next step begins."""
    return (clock // step + 1) * step


def _step(clock: Expr) -> int | None:
    """Return the step of the innermost rounding around a clock. The rounded clock may be shifted by whole steps."""
    node, moved = clock, 0
    while (above := node.parent) is not None:
        found = _rounded(above, node)
        if found is not None:
            return found if moved % found == 0 else None
        if (
            isinstance(above, exp.Add | exp.Sub)
            and above.this is node
            and (length := _length(above.expression)) is not None
        ):
            moved += length if isinstance(above, exp.Add) else -length
        elif not isinstance(above, exp.Paren):
            return None
        node = above
    return None


def _rounded(node: Expr, inside: Expr) -> int | None:
    """Return the step of a rounding of `inside`; None if it is not one."""
    if isinstance(node, exp.TimestampTrunc | exp.DateTrunc) and node.this is inside:
        return _of_unit(node.args.get("unit"))
    if isinstance(node, exp.Extract) and node.expression is inside:
        unit = node.this.name.upper()
        return None if unit == "SECOND" else _of_unit(node.this)  # seconds keep their fraction
    is_date = isinstance(node, exp.Cast) and node.to.this is exp.DataType.Type.DATE
    return DAY if is_date or isinstance(node, PARTS_OF_DATES) else None


def _of_unit(unit: Expr | None) -> int | None:
    name = "" if unit is None else unit.name.upper()
    return DAY if name in LONG else STEPS.get(name)


def _length(interval: Expr) -> int | None:
    """Return the length of an interval of whole seconds, minutes, hours or days."""
    interval = interval.unnest()
    unit = interval.args.get("unit") if isinstance(interval, exp.Interval) else None
    name = "" if unit is None else unit.name.upper().removesuffix("S")
    size = DAY if name == "DAY" else STEPS.get(name)
    number = interval.this.name if isinstance(interval, exp.Interval) and isinstance(interval.this, exp.Literal) else ""
    return size * int(number) if size is not None and number.isdigit() else None
