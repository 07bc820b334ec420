"""Windows of months, quarters, years, local days and weeks: their ends equal those of Python's calendar.

Days on which clocks change have 23 or 25 hours. Under EMIT AFTER WATERMARK a window comes out once the bound has
reached its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from belvedere.compiler import compile_script
from belvedere.workbench.workbench import Workbench

STREAM = "CREATE STREAM X (i INT, ts TIMESTAMP NOT NULL, d DATE, l TIMESTAMP_NTZ, WATERMARK FOR ts) KEEP 1 DAY;\n"
Window = tuple[datetime, datetime]
Windows = Callable[[datetime], Iterator[Window]]


def months(size: int, step: int | None = None, zone: str | None = None) -> Windows:
    """Windows of so many months, counted from January 1970; `step` is the distance of their starts."""
    return lambda t: _hop(t, size, step or size, zone, _month_of, _month_start)


def days(size: int, step: int | None = None, zone: str | None = None, first: int = 0) -> Windows:
    """Windows of so many local days; `first` is a day since 1970 at which one begins."""
    return lambda t: _hop(t, size, step or size, zone, lambda x: _day_of(x) - first, lambda n: _day_start(n + first))


def cumulated(size: int, step: int) -> Windows:
    def found(time: datetime) -> Iterator[Window]:
        start = _month_of(time) // size * size
        ends = (start + n for n in range(step, size + 1, step))
        return (
            (_aware(_month_start(start)), _aware(_month_start(e)))
            for e in ends
            if _month_start(e) > time.replace(tzinfo=None)
        )

    return found


def _hop(
    time: datetime,
    size: int,
    step: int,
    zone: str | None,
    number: Callable[[datetime], int],
    start: Callable[[int], datetime],
) -> Iterator[Window]:
    known = ZoneInfo(zone) if zone else UTC
    own = number(time.astimezone(known))
    first = own // step * step
    while first > own - size:
        yield _aware(start(first), known), _aware(start(first + size), known)
        first -= step


def _aware(local: datetime, zone: Any = UTC) -> datetime:
    return local.replace(tzinfo=zone).astimezone(UTC)


def _month_of(time: datetime) -> int:
    return (time.year - 1970) * 12 + time.month - 1


def _month_start(number: int) -> datetime:
    return datetime(1970 + number // 12, number % 12 + 1, 1)


def _day_of(time: datetime) -> int:
    return time.date().toordinal() - date(1970, 1, 1).toordinal()


def _day_start(number: int) -> datetime:
    return datetime(1970, 1, 1) + timedelta(days=number)


BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"
CALLS: dict[str, tuple[str, Windows]] = {
    "Month": ("TUMBLE(TABLE X, DESCRIPTOR(ts), INTERVAL '1' MONTH)", months(1)),
    "Quarter": ("TUMBLE(TABLE X, DESCRIPTOR(ts), INTERVAL '1' QUARTER)", months(3)),
    "Years": ("TUMBLE(TABLE X, DESCRIPTOR(ts), INTERVAL '2' YEAR)", months(24)),
    "Five": ("TUMBLE(TABLE X, DESCRIPTOR(ts), INTERVAL '5' MONTHS)", months(5)),
    "LocalDay": (
        f"TUMBLE(TABLE X, DESCRIPTOR(ts), size => INTERVAL '1' DAY, timezone => '{BERLIN}')",
        days(1, zone=BERLIN),
    ),
    "HalfHour": (
        f"TUMBLE(TABLE X, DESCRIPTOR(ts), size => INTERVAL '1' DAY, timezone => '{LORD_HOWE}')",
        days(1, zone=LORD_HOWE),
    ),
    "ThreeDays": (
        f"TUMBLE(TABLE X, DESCRIPTOR(ts), size => INTERVAL '3' DAY, timezone => '{BERLIN}')",
        days(3, zone=BERLIN),
    ),
    "Week": (
        f"TUMBLE(TABLE X, DESCRIPTOR(ts), size => INTERVAL '1' WEEK, zone => '{BERLIN}')",
        days(7, zone=BERLIN, first=4),
    ),
    "LocalMonth": (
        f"TUMBLE(TABLE X, DESCRIPTOR(ts), size => INTERVAL '1' MONTH, timezone => '{NEW_YORK}')",
        months(1, zone=NEW_YORK),
    ),
    "HopMonths": ("HOP(TABLE X, DESCRIPTOR(ts), INTERVAL '2' MONTH, INTERVAL '1' QUARTER)", months(3, 2)),
    "HopDays": (
        f"HOP(TABLE X, DESCRIPTOR(ts), slide => INTERVAL '1' DAY, size => INTERVAL '4' DAY, timezone => '{NEW_YORK}')",
        days(4, 1, NEW_YORK),
    ),
    "YearToDate": ("CUMULATE(TABLE X, DESCRIPTOR(ts), INTERVAL '1' MONTH, INTERVAL '1' YEAR)", cumulated(12, 1)),
    "OfDates": ("TUMBLE(TABLE X, DESCRIPTOR(d), INTERVAL '1' MONTH)", lambda t: months(1)(t.replace(hour=0))),
    "OfLocal": ("TUMBLE(TABLE X, DESCRIPTOR(l), INTERVAL '1' DAY)", days(1)),
    "HopLocal": ("HOP(TABLE X, DESCRIPTOR(l), INTERVAL '1' DAY, INTERVAL '3' DAY)", days(3, 1)),
}
EMITTED = ("Five", "LocalDay", "HopDays")


def moments() -> list[datetime]:
    """Times in the days on which clocks change, and others."""
    random, found = Random(4), []
    for day in ("2020-03-28", "2020-10-24", "2020-10-31", "2020-02-28", "2020-12-30", "1969-12-30"):
        start = datetime.fromisoformat(day).replace(tzinfo=UTC)
        found += [start + timedelta(seconds=random.randrange(3 * 86_400)) for _ in range(8)]
    return sorted(found)


def script() -> str:
    views = []
    for name, (call, _) in CALLS.items():
        items = "window_start AS s, window_end AS e, count(*) AS n, sum(i) AS t"
        select = f"SELECT {items} FROM TABLE({call}) GROUP BY window_start, window_end"
        views.append(f"{name} := {select};")
        views += [f"{name}Emitted := {select} EMIT AFTER WATERMARK;"] if name in EMITTED else []
    return STREAM + "\n".join(views)


def windowed(rows: list[tuple[int, datetime]], windows: Windows) -> Counter[tuple[datetime, datetime, int, int]]:
    found: dict[Window, list[int]] = {}
    for number, time in rows:
        for window in windows(time):
            found.setdefault(window, []).append(number)
    return Counter((s, e, len(v), sum(v)) for (s, e), v in found.items())


def shown(rows: list[dict[str, Any]]) -> Counter[tuple[datetime, datetime, int, int]]:
    def aware(time: datetime) -> datetime:
        return time if time.tzinfo else time.replace(tzinfo=UTC)

    return Counter((aware(r["s"]), aware(r["e"]), r["n"], r["t"]) for r in rows)


@pytest.mark.spark
@pytest.mark.nightly
def test_windows_of_the_calendar_are_those_of_python(spark: Any) -> None:
    rows = list(enumerate(moments()))
    wb = Workbench(script(), spark=spark)
    bounds = [rows[len(rows) // 2][1], rows[-1][1] + timedelta(days=800)]
    for part, bound in ((rows[: len(rows) // 2], bounds[0]), (rows[len(rows) // 2 :], bounds[1])):
        wb.insert("X", [{"i": n, "ts": t, "d": t.date(), "l": t.replace(tzinfo=None)} for n, t in part])
        wb.bound("X", bound)
        wb.step()
        if bound == bounds[0]:
            for name in EMITTED:
                all_of = windowed(part, CALLS[name][1])
                assert shown(wb.rows(f"{name}Emitted")) == Counter({w: 1 for w in all_of if w[1] <= bound}), name
    for name, (_, windows) in CALLS.items():
        assert shown(wb.rows(name)) == windowed(rows, windows), name
        if name in EMITTED:
            assert shown(wb.rows(f"{name}Emitted")) == windowed(rows, windows), name
    wb.close()


LOST_ENDS = ("HopDays", "YearToDate")
"""Where the end of a window does not determine its start: clocks that skip a day, or not known here."""


@pytest.mark.parametrize("name", CALLS)
def test_one_end_of_a_window_determines_the_other(name: str) -> None:
    call = CALLS[name][0]
    for shown_end, key in (("window_start", "window_end"), ("window_end", "window_start")):
        found = compile_script(f"{STREAM}V := SELECT {shown_end}, count(*) AS n FROM TABLE({call}) GROUP BY {key};")
        errors = [d.code for d in found.diagnostics if d.severity.value == "error"]
        assert errors == (["B3030"] if name in LOST_ENDS else []), (name, key)


@pytest.mark.spark
@pytest.mark.nightly
def test_groups_by_one_end_are_those_by_both(spark: Any) -> None:
    names = [n for n in CALLS if n not in LOST_ENDS]
    views = "".join(
        f"{n} := SELECT window_start AS s, max(window_end) AS e, count(*) AS n, sum(i) AS t "
        f"FROM TABLE({CALLS[n][0]}) GROUP BY window_end;\n"
        for n in names
    )
    rows = list(enumerate(moments()))
    wb = Workbench(STREAM + views, spark=spark)
    wb.insert("X", [{"i": n, "ts": t, "d": t.date(), "l": t.replace(tzinfo=None)} for n, t in rows])
    wb.step()
    for name in names:
        assert shown(wb.rows(name)) == windowed(rows, CALLS[name][1]), name
    wb.close()


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("TUMBLE(TABLE X, DESCRIPTOR(ts), size => INTERVAL '1' HOUR, timezone => 'Europe/Berlin')", "B5002"),
        ("TUMBLE(TABLE X, DESCRIPTOR(ts), size => INTERVAL '1' DAY, timezone => 'Nowhere')", "B3002"),
        ("TUMBLE(TABLE X, DESCRIPTOR(l), size => INTERVAL '1' DAY, timezone => 'Europe/Berlin')", "B5002"),
        ("HOP(TABLE X, DESCRIPTOR(ts), INTERVAL '1' DAY, INTERVAL '3' MONTH)", "B5002"),
        ("HOP(TABLE X, DESCRIPTOR(ts), INTERVAL '1' MONTH, INTERVAL '900' MONTH)", "B5002"),
        ("CUMULATE(TABLE X, DESCRIPTOR(ts), INTERVAL '2' MONTH, INTERVAL '5' MONTH)", "B5002"),
        ("TUMBLE(TABLE X, DESCRIPTOR(ts), INTERVAL '0' MONTH)", "B5002"),
        ("SESSION(TABLE X, DESCRIPTOR(ts), INTERVAL '1' MONTH)", "B5002"),
    ],
)
def test_what_has_no_such_windows_is_refused(call: str, code: str) -> None:
    found = compile_script(f"{STREAM}V := SELECT * FROM TABLE({call});")
    assert [d.code for d in found.diagnostics] == [code]
