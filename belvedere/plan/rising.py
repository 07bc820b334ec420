"""Functions that are non-decreasing in their argument, and their effect on its bound.

In: a call over TIMESTAMP, DATE or a number derived from one. Out: the argument, and a function of its microseconds (for
a number: of itself), or None. Each row of `RISING` is one function, proved by a step that never decreases. If the
function itself decreases (a clock that is put back), the step is the least later value. Functions without a row are not
assumed to be monotone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from sqlglot import exp

from belvedere.functions.calendar import MONTHS, UNITS, CalendarStep, floor, floor_to, in_calendar
from belvedere.functions.function_table import function_name
from belvedere.plan.expressions import Expr
from belvedere.values.instants import EPOCH, instant, microseconds

SHORT_UNITS = {"MM": "MONTH", "MON": "MONTH", "YYYY": "YEAR", "YY": "YEAR", "DD": "DAY"}
WEEKDAYS = "THFRSASUMOTUWE"
"""Initials of the weekdays from that of the 1st of January 1970 on."""
HOUR, DAY = UNITS["HOUR"], UNITS["DAY"]
FARTHEST_ZONE = 16 * HOUR
"""Maximum distance of a local clock from UTC, in microseconds."""


@dataclass(frozen=True)
class Rise:
    """Effect of a function on the microseconds of its argument (or on a number)."""

    step: CalendarStep
    shift: int | None = None
    """Constant that it adds, if it does nothing else."""
    above: int | None = None
    """Maximum of the value minus the argument; None if unknown."""
    numeric: bool = False
    """Whether the value is a number."""


Rising = Callable[[Expr], tuple[Expr, Rise] | None]


def rise_of(call: Expr) -> tuple[Expr, Rise] | None:
    """Return the argument in which a call is non-decreasing, and its effect; None if the call is not known to be."""
    row = RISING.get(function_name(call))
    return None if row is None else row(call)


def arguments(call: Expr) -> list[Expr]:
    """Return the arguments of a call, also if sqlglot knows it only by name."""
    return list(call.expressions)


def whole_number(expr: Expr | None) -> int | None:
    """Return the value of an integer literal, perhaps negative, or None."""
    if isinstance(expr, exp.Neg):
        found = whole_number(expr.this)
        return None if found is None else -found
    inner = expr.unnest() if expr is not None else None
    return int(inner.name) if isinstance(inner, exp.Literal) and not inner.is_string and inner.name.isdigit() else None


def time_literal(expr: Expr | None) -> int | None:
    """Return the microseconds of `TIMESTAMP '...'` or `DATE '...'`; a text without a zone is UTC."""
    inner = expr.unnest() if expr is not None else None
    while isinstance(inner, exp.Cast | exp.TimeStrToTime | exp.TsOrDsToDate | exp.TsOrDsToTimestamp):
        inner = inner.this.unnest()
    if not isinstance(inner, exp.Literal) or not inner.is_string or inner is expr:
        return None
    try:
        return microseconds(datetime.fromisoformat(inner.name.strip()))
    except (ValueError, OverflowError):
        return None


# -- steps


def rounded(step: CalendarStep | None) -> Rise | None:
    """Return rounding down: the value is never above its argument."""
    return None if step is None else Rise(step, above=0)


def shift_by(by: int) -> Rise:
    """Return a shift by this number of microseconds."""
    return Rise(lambda t: t + by, by, by)


def in_months(count: int) -> CalendarStep:
    """Return the addition of months as in SQL: the last day of the month if the day does not exist."""
    return lambda t: in_calendar(t, lambda d: add_months(d, count))


def add_months(day: datetime, months: int) -> datetime:
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    first = day.replace(year=year, month=month + 1, day=1)
    following = first.replace(year=year + month // 11, month=(month + 1) % 12 + 1)
    return first + timedelta(days=min(day.day, (following - first).days) - 1)


def floor_day(time: int) -> int:
    return time - time % DAY


def _towards_zero(amount: int, size: int) -> int:
    return amount // size if amount >= 0 else -(-amount // size)


# -- time zones


def local_step(zone: str) -> CalendarStep | None:
    """Return a lower bound of the local times at an instant or later: a clock that is put back shows an hour twice."""
    return _least_later(_offset_at(zone))


def utc_step(zone: str) -> CalendarStep | None:
    """Return a lower bound of the instants at which a clock of the zone shows a time or a later one. A skipped hour
    maps to the hour after it."""
    offset = _offset_at(zone)
    return None if offset is None else _least_later(lambda t: -_resolved(offset, t))


def _resolved(offset: Callable[[int], int], local: int) -> int:
    """Return the UTC offset of a local time in microseconds. If the local time occurs twice, the earlier instant
    counts, as in Java."""
    before, after = offset(local - DAY), offset(local + DAY)
    return (
        before
        if offset(local - before) == before or before == after
        else (after if offset(local - after) == after else before)
    )


def _least_later(offset: Callable[[int], int] | None) -> CalendarStep | None:
    """Return the least `t + offset(t)` over all later t. Offsets change rarely and only by hours, so testing two days
    is enough."""
    if offset is None:
        return None

    @lru_cache(256)
    def step(time: int) -> int:
        try:
            at = [time + n * HOUR for n in range(49)]
            offsets = [offset(t) for t in at]
        except (OverflowError, ValueError):
            return time - FARTHEST_ZONE
        least = time + offsets[0]
        for n in range(48):
            if offsets[n + 1] < offsets[n]:
                change = _change(offset, at[n], at[n + 1])
                least = min(least, change + offset(change))
        return least

    return step


def _change(offset: Callable[[int], int], before: int, after: int) -> int:
    """Return the first microsecond of the new offset."""
    old = offset(before)
    while after - before > 1:
        middle = (before + after) // 2
        before, after = (middle, after) if offset(middle) == old else (before, middle)
    return after


@cache
def _offset_at(zone: str) -> Callable[[int], int] | None:
    """Return the function from an instant to a zone's UTC offset, in microseconds; None for an unknown zone."""
    fixed = re.fullmatch(r"(?:UTC|GMT|UT)?(?:([+-])(\d{1,2})(?::(\d{1,2}))?(?::(\d{1,2}))?)?|Z", zone)
    if fixed is not None:
        sign, *parts = fixed.groups()
        seconds = sum(int(p or 0) * f for p, f in zip(parts, (3600, 60, 1), strict=True))
        distance = (-1 if sign == "-" else 1) * seconds * 1_000_000
        return lambda _: distance
    try:
        known = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
    micro = timedelta(microseconds=1)
    return lambda t: (known.utcoffset(instant(t).astimezone(known)) or EPOCH - EPOCH) // micro


def _zoned(argument: Expr, step: CalendarStep | None) -> tuple[Expr, Rise] | None:
    return None if step is None else (argument, Rise(step, above=FARTHEST_ZONE))


def _zone(expr: Expr | None) -> str | None:
    return expr.name if isinstance(expr, exp.Literal) and expr.is_string else None


def _at_time_zone(call: Expr) -> tuple[Expr, Rise] | None:
    zone = _zone(call.args.get("zone"))
    return None if zone is None else _zoned(call.this, local_step(zone))


def _from_time_zone(call: Expr) -> tuple[Expr, Rise] | None:
    zone = _zone(call.args.get("zone"))
    return None if zone is None else _zoned(call.this, utc_step(zone))


def _convert_timezone(call: Expr) -> tuple[Expr, Rise] | None:
    """Handle `convert_timezone([from,] to, t)`: the default of the first zone is UTC, the session's."""
    *zones, time = arguments(call)
    names = [_zone(z) for z in zones]
    steps = [utc_step(n) for n in names[:-1] if n is not None] + [local_step(n) for n in names[-1:] if n is not None]
    known = [s for s in steps if s is not None]
    if len(known) != len(zones) or not known:
        return None
    first, last = known[0], known[-1]
    return time, Rise(first if len(known) == 1 else lambda t: last(first(t)), above=2 * FARTHEST_ZONE)


# -- rows


def _one(rise: Callable[[Expr], Rise | None]) -> Rising:
    """Return the rule of a function that is non-decreasing in its first argument."""

    def row(call: Expr) -> tuple[Expr, Rise] | None:
        found = rise(call)
        argument = call.this if isinstance(call.this, exp.Expr) else next(iter(arguments(call)), None)
        return None if found is None or argument is None else (argument, found)

    return row


def _unit_of(call: Expr) -> str:
    unit = call.args.get("unit")
    return "" if unit is None else str(unit.name).upper()


def _whole_units(size: int, after_day: bool = False) -> Rising:
    """Return the rule for the number of whole units since 1970, rounded down."""
    return _one(
        lambda call: (
            None
            if call.args.get("format")
            else Rise(lambda t: (floor_day(t) if after_day else t) // size, numeric=True)
        )
    )


def _of_number(size: int) -> Rising:
    """Return the rule for a time from a number of units since 1970."""
    return _one(lambda call: Rise(lambda n: n * size))


def _trunc(call: Expr) -> Rise | None:
    unit = _unit_of(call)
    return rounded(floor_to(SHORT_UNITS.get(unit, unit)))


def _next_day(call: Expr) -> Rise | None:
    """Handle `next_day`: the first such weekday after a date."""
    day = WEEKDAYS.find(str(call.args["expression"].name).upper()[:2])
    if day < 0 or not isinstance(call.args["expression"], exp.Literal):
        return None
    return Rise(lambda t: floor(t, 7 * DAY, day // 2 * DAY) + 7 * DAY, above=7 * DAY)


def _to_date(call: Expr) -> Rise | None:
    return rounded(floor_day) if call.args.get("format") is None else None


def _plus_units(call: Expr) -> Rise | None:
    """Handle `dateadd(HOUR, 2, t)`, `timestampadd`."""
    unit = _unit_of(call).removesuffix("S")
    count = whole_number(call.args.get("expression"))
    if count is None:
        return None
    if unit in UNITS:
        return shift_by(count * UNITS[unit])
    return Rise(in_months(count * MONTHS[unit])) if unit in MONTHS else None


def _plus_days(call: Expr) -> Rise | None:
    """Handle `date_add(t, 1)`: a date."""
    count = whole_number(call.args.get("expression"))
    if count is None or _unit_of(call) not in ("", "DAY"):
        return None
    return Rise(lambda t: floor_day(t) + count * DAY, above=count * DAY)


def _minus_days(call: Expr) -> tuple[Expr, Rise] | None:
    time, days = arguments(call)
    count = whole_number(days)
    return None if count is None else (time, Rise(lambda t: floor_day(t) - count * DAY, above=-count * DAY))


def _plus_months(call: Expr) -> Rise | None:
    count = whole_number(call.args.get("expression"))
    return None if count is None else Rise(lambda t: in_months(count)(floor_day(t)))


def _added_months(call: Expr) -> tuple[Expr, Rise] | None:
    """Handle `add_months` of a column, or of a fixed date and an increasing number of months."""
    origin = time_literal(call.this)
    if origin is None:
        return _one(_plus_months)(call)
    return call.args["expression"], Rise(lambda n: in_months(n)(origin) if abs(n) < 120_000 else 0)


def _last_day(call: Expr) -> Rise | None:
    month = floor_to("MONTH")
    return None if month is None else Rise(lambda t: in_months(1)(month(t)) - DAY, above=31 * DAY)


def _since(call: Expr) -> Rise | None:
    """Handle `timestampdiff(SECOND, TIMESTAMP '...', t)`: whole units, rounded towards zero."""
    unit, origin = _unit_of(call).removesuffix("S"), time_literal(call.args.get("expression"))
    size = UNITS.get(unit)
    if unit in MONTHS and origin is not None:
        return _months_since(instant(origin), MONTHS[unit])
    if size is None or origin is None:
        return None
    return Rise(lambda t: _towards_zero(t - origin, size), numeric=True)


def _months_since(origin: datetime, size: int) -> Rise | None:
    """Return the number of whole months after the first moment of a month."""
    first = origin.year * 12 + origin.month
    if microseconds(origin) != microseconds(origin.replace(day=1, hour=0, minute=0, second=0, microsecond=0)):
        return None
    return Rise(lambda t: _towards_zero(_month(t) - first, size), numeric=True)


def _month(time: int) -> int:
    """Return the number of a month, from January of the year 0 on; the first or last one for times beyond the
    calendar."""
    try:
        found = instant(time)
    except OverflowError:
        return 13 if time < 0 else 9999 * 12 + 12
    return found.year * 12 + found.month


def _days_since(call: Expr) -> Rise | None:
    origin = time_literal(call.args.get("expression"))
    if origin is None or _unit_of(call) not in ("", "DAY"):
        return None
    return Rise(lambda t: (floor_day(t) - floor_day(origin)) // DAY, numeric=True)


def _year(call: Expr) -> tuple[Expr, Rise] | None:
    if call.this.name.upper() != "YEAR":
        return None
    return call.expression, Rise(lambda t: (_month(t) - 1) // 12, numeric=True)


SAME = Rise(lambda t: t, 0, 0)
RISING: Mapping[str, Rising] = {
    "AddMonths": _added_months,
    "AtTimeZone": _at_time_zone,
    "convert_timezone": _convert_timezone,
    "date_sub": _minus_days,
    "DateFromUnixDate": _of_number(DAY),
    "DateDiff": _one(_days_since),
    "DateTrunc": _one(_trunc),
    "Extract": _year,
    "FromTimeZone": _from_time_zone,
    "LastDay": _one(_last_day),
    "NextDay": _one(_next_day),
    "Nullif": _one(lambda call: SAME),
    "StrToUnix": _whole_units(UNITS["SECOND"]),
    "timestamp_micros": _of_number(1),
    "timestamp_millis": _of_number(UNITS["MILLISECOND"]),
    "timestamp_seconds": _of_number(UNITS["SECOND"]),
    "TimestampAdd": _one(_plus_units),
    "TimestampDiff": _one(_since),
    "TimestampTrunc": _one(_trunc),
    "to_timestamp_ntz": _one(lambda call: SAME if len(arguments(call)) == 1 else None),
    "TsOrDsAdd": _one(_plus_days),
    "TsOrDsToDate": _one(_to_date),
    "UnixDate": _whole_units(DAY, after_day=True),
    "UnixMicros": _whole_units(1),
    "UnixMillis": _whole_units(UNITS["MILLISECOND"]),
    "UnixSeconds": _whole_units(UNITS["SECOND"]),
}
"""Rule of each function, by the key of its row in the table of functions."""
