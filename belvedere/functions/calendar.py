"""Rounding of times to units of the calendar, in UTC.

In: a unit's name. Out: a function of microseconds since 1970. It reads no expression.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from belvedere.values.instants import instant, microseconds

EARLIEST = -(2**63)
"""Lower bound of all times."""

UNITS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}
MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
MONDAY = 4 * UNITS["DAY"]
"""Offset of weeks in microseconds since 1970: they begin on Monday, and the first Monday is the 5th of January."""

CalendarStep = Callable[[int], int]


def floor_to(unit: str) -> CalendarStep | None:
    """Return a function that rounds down to a calendar unit in UTC; None for an unknown unit."""
    unit = unit.upper().removesuffix("S")
    if unit in UNITS:
        size = UNITS[unit]
        offset = MONDAY if unit == "WEEK" else 0
        return lambda t: floor(t, size, offset)
    if unit in MONTHS:
        return lambda t: in_calendar(t, lambda d: _month_start(d, MONTHS[unit]))
    return None


def floor(time: int, size: int, offset: int = 0) -> int:
    """Round down to a multiple of `size` after `offset`."""
    return time - (time - offset) % size


def in_calendar(time: int, change: Callable[[datetime], datetime]) -> int:
    """Apply a change of calendar fields to a time in microseconds. Times outside the calendar's range remain unchanged,
    as a lower bound."""
    try:
        moved = change(instant(time))
    except (OverflowError, ValueError):
        return EARLIEST if time < 0 else time
    return microseconds(moved)


def _month_start(day: datetime, months: int) -> datetime:
    month = (day.month - 1) // months * months + 1
    return datetime(day.year, month, 1, tzinfo=UTC)
