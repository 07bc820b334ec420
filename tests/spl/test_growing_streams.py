"""SPL windows over append-only relations: UNION ALL of streams, SELECT STREAM, EMIT STREAM and joins, against Python.

Rows of two streams come in turns, at clocks of their own, several in one epoch: their windows take them in the order of
their arrival.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from belvedere.workbench.workbench import Workbench

START = datetime(2020, 1, 1, 8, tzinfo=UTC)
SCRIPT = """
CREATE STREAM X (i INT, ts TIMESTAMP NOT NULL, WATERMARK FOR ts) KEEP 1 DAY;
CREATE STREAM Y (i INT, ts TIMESTAMP NOT NULL, WATERMARK FOR ts) KEEP 1 DAY;
Timed := SELECT STREAM i, ts AS ROWTIME FROM X UNION ALL SELECT STREAM i, ts AS ROWTIME FROM Y;
Both := SELECT i, ts FROM X UNION ALL SELECT i, ts FROM Y;
Minutes := SELECT date_trunc('MINUTE', ts) AS m, sum(i) AS i FROM X GROUP BY m EMIT STREAM AFTER WATERMARK;
OfUnion := SELECT STREAM collect_list(i) AS l FROM (SELECT i FROM X UNION ALL SELECT i FROM Y)
    WINDOW (tumbling, delta(i, 10)) AS D;
OfView := SELECT STREAM collect_list(i) AS l FROM Both WINDOW (sliding, count(3), count(2)) AS D WHERE i > 3;
OfTime := SELECT STREAM collect_list(i) AS l, firingTime() AS f FROM Both WINDOW (tumbling, time(2 * 30)) AS D;
OfStream := SELECT STREAM collect_list(i) AS l FROM Timed WINDOW (tumbling, count(10 / 2)) AS D;
OfEmit := SELECT STREAM collect_list(i) AS l FROM Minutes WINDOW (tumbling, count(2)) AS D;
Panes := SELECT STREAM intervalStart() AS s, sum(i) AS n FROM Both WINDOW (timeInterval, intervalDuration(60.0)) AS D;
Running := SELECT STREAM i, count(*) OVER (RANGE INTERVAL '1' MINUTE PRECEDING) AS n FROM Timed;
"""
Row = tuple[int, datetime]


def arrivals() -> list[Row]:
    """Numbers and event times, in the order of their arrival; a stream's times rise."""
    return [(n * 7 % 23, START + timedelta(seconds=11 * n)) for n in range(40)]


def tumbling_delta(values: list[int], step: int) -> list[list[int]]:
    found: list[list[int]] = []
    held: list[int] = []
    for value in values:
        if held and value - held[0] > step:
            found.append(held)
            held = []
        held.append(value)
    return found


def sliding(values: list[int], size: int, every: int) -> list[list[int]]:
    firings = (values[max(0, n - size) : n] for n in range(every, len(values) + 1, every))
    return [f for f in firings if len(f) == size]


def blocks(values: list[int], size: int) -> list[list[int]]:
    return [values[n : n + size] for n in range(0, len(values) - size + 1, size)]


def timed(rows: list[Row], clocks: list[datetime], end: datetime) -> list[tuple[list[int], datetime]]:
    """Every minute from 8 o'clock on, what came in it; a timer that is due at a row's clock runs first."""
    found, now = [], START + timedelta(minutes=1)
    while now <= end:
        held = [v for (v, _), c in zip(rows, clocks, strict=True) if now - timedelta(minutes=1) <= c < now]
        found += [(held, now)] if held else []
        now += timedelta(minutes=1)
    return found


def sums(rows: list[Row]) -> dict[datetime, int]:
    found: dict[datetime, int] = {}
    for value, time in rows:
        minute = time.replace(second=0)
        found[minute] = found.get(minute, 0) + value
    return found


def lists(rows: list[dict[str, Any]]) -> list[list[int]]:
    return [r["l"] for r in rows]


def test_windows_over_all_that_only_grows(executor: Any) -> None:
    wb, rows = Workbench(SCRIPT, spark=executor), arrivals()
    wb.clock(START)
    wb.step()
    clocks = [time + timedelta(seconds=1) for _, time in rows]
    for place, ((value, time), clock) in enumerate(zip(rows, clocks, strict=True)):
        wb.clock(clock)
        wb.insert("XY"[place % 2], [{"i": value, "ts": time}])
        if place % 13 == 12:
            wb.step()
    last = rows[-1][1] + timedelta(minutes=5)
    wb.clock(last)
    for stream in ("X", "Y"):
        wb.bound(stream, last)
    wb.step()
    names = [line.split(" ")[0] for line in SCRIPT.splitlines() if ":=" in line]
    found = {name: wb.rows(name) for name in names}
    batch = {name: wb.batch(name) for name in names if name not in ("Timed", "Both")}
    wb.close()
    values = [value for value, _ in rows]
    assert lists(found["OfUnion"]) == tumbling_delta(values, 10)
    assert lists(found["OfView"]) == sliding([v for v in values if v > 3], 3, 2)
    assert [(r["l"], r["f"]) for r in found["OfTime"]] == timed(rows, clocks, last)
    assert lists(found["OfStream"]) == blocks(values, 5)
    assert lists(found["OfEmit"]) == blocks(list(sums(rows[::2]).values()), 2)
    assert {r["s"]: r["n"] for r in found["Panes"]} == sums(rows)
    minute = timedelta(minutes=1)
    assert [r["n"] for r in found["Running"]] == [sum(t - minute <= s <= t for _, s in rows) for _, t in rows]
    assert batch == {name: found[name] for name in batch}
