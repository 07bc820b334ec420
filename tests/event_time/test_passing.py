"""Watermarks through functions, window functions and joins: EMIT AFTER WATERMARK emits all final rows, and only those.

Each view has a twin without EMIT. After each epoch the emitted rows are rows that the twin has in the end (never
early), none goes (never taken back), and once the input has ended they are the twin's rows (nothing is left out). The
twins are their batch answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlglot import exp

from belvedere.compiler import compile_script
from belvedere.plan.bounds import bounds_of
from belvedere.plan.rising import local_step, rise_of, utc_step
from belvedere.values.instants import instant, microseconds
from belvedere.workbench.workbench import Workbench
from tests.depth import at_night

FUNCTIONS = [
    "ts AT TIME ZONE 'Europe/Berlin'",
    "date_trunc('DAY', ts AT TIME ZONE 'America/New_York')",
    "CAST(ts AT TIME ZONE 'Asia/Kathmandu' AS DATE)",
    "to_utc_timestamp(ts, 'Europe/Berlin')",
    "convert_timezone('Europe/Berlin', 'America/New_York', CAST(ts AS TIMESTAMP_NTZ))",
    "from_utc_timestamp(ts, '+05:30')",
    "date_bin('1 hour', ts)",
    "date_bin(INTERVAL '7' MINUTES, ts, TIMESTAMP '2020-01-01 00:03:00')",
    "date_trunc('HOUR', ts + INTERVAL 30 MINUTES) - INTERVAL 30 MINUTES",
    "CAST(ts AS TIMESTAMP_NTZ)",
    "to_timestamp_ntz(ts)",
    "unix_seconds(ts) DIV 3600",
    "(unix_seconds(ts) - 7) DIV 3600 * 3600 + 7",
    "unix_micros(ts)",
    "unix_timestamp(ts)",
    "floor(unix_seconds(ts) / 3600)",
    "CAST(unix_millis(ts) / 1000 AS BIGINT)",
    "unix_seconds(ts) - unix_seconds(ts) % 3600",
    "unix_seconds(ts) - pmod(unix_seconds(ts), 3600)",
    "timestamp_seconds(unix_seconds(ts) DIV 60 * 60)",
    "unix_date(CAST(ts AS DATE))",
    "trunc(ts, 'MM')",
    "to_date(ts)",
    "date_add(ts, 3)",
    "date_sub(ts, 3)",
    "CAST(ts AS DATE) + 1",
    "add_months(ts, 1)",
    "last_day(ts)",
    "next_day(ts, 'FR')",
    "timestampadd(HOUR, 5, ts)",
    "dateadd(MONTH, 1, ts)",
    "timestampdiff(MINUTE, TIMESTAMP '2020-01-01 00:00:00', ts)",
    "datediff(ts, DATE '2020-01-01')",
    "greatest(ts, TIMESTAMP '2020-03-29 12:00:00')",
    "least(ts, TIMESTAMP '2020-10-29 12:00:00')",
    "coalesce(ts, TIMESTAMP '2020-03-29 12:00:00')",
    "if(i > 3, ts, ts + INTERVAL '1' HOUR)",
    "nullif(ts, TIMESTAMP '2020-03-29 12:00:00')",
    "INTERVAL '1' HOUR + ts",
]
"""Each is followed by the bound of `ts`."""


def functions_script() -> str:
    items = ", ".join(f"{text} AS f{n}" for n, text in enumerate(FUNCTIONS))
    return (
        f"CREATE STREAM X (i INT, ts TIMESTAMP NOT NULL, WATERMARK FOR ts) KEEP 1 DAY;\nV := SELECT i, ts, {items} "
        "FROM X;"
    )


def times_around_changes() -> list[datetime]:
    """Times around the changes of clocks, and others."""
    random = Random(7)
    anchors = [
        "2020-03-08 07:00",
        "2020-03-29 01:00",
        "2020-10-25 01:00",
        "2020-11-01 06:00",
        "1969-12-31 23:59",
        "2021-02-28 23:00",
    ]
    found = [
        datetime.fromisoformat(random.choice(anchors)) + timedelta(seconds=random.randrange(-9000, 9000))
        for _ in range(150)
    ]
    return [t.replace(tzinfo=UTC) for t in found]


def value(given: Any) -> int | None:
    if given is None or isinstance(given, int):
        return given
    return microseconds(
        given if isinstance(given, datetime) else datetime(given.year, given.month, given.day, tzinfo=UTC)
    )


@pytest.mark.spark
def test_a_bound_is_never_above_what_spark_makes_of_later_times(spark: Any) -> None:
    wb = Workbench(functions_script(), spark=spark)
    times = times_around_changes()
    wb.insert("X", [{"i": n % 7, "ts": t} for n, t in enumerate(times)])
    wb.step()
    rows = wb.rows("V")
    plan = wb.catalog.views["V"].plan
    wb.close()
    exact = 0
    for bound in sorted({r["ts"] for r in rows})[::5]:
        bounds = bounds_of(plan, lambda _, b=bound: {"ts": value(b)})
        for n, text in enumerate(FUNCTIONS):
            later = [v for r in rows if r["ts"] >= bound and (v := value(r[f"f{n}"])) is not None]
            assert not later or bounds[f"f{n}"] <= min(later), (text, bound)
            exact += bool(later) and bounds[f"f{n}"] == min(later)
    assert exact > 0.7 * len(FUNCTIONS) * 30  # and not lower than it need be


@pytest.mark.parametrize("text", FUNCTIONS)
def test_each_function_may_group_what_is_emitted(text: str) -> None:
    streams = "CREATE STREAM X (i INT, ts TIMESTAMP, WATERMARK FOR ts) KEEP 1 DAY;\n"
    found = compile_script(
        f"{streams}V := SELECT {text} AS h, count(*) AS n FROM X GROUP BY {text} EMIT AFTER WATERMARK;"
    )
    assert found.ok or "i >" in text, found.diagnostics


def test_local_times_are_the_least_that_a_clock_still_shows() -> None:
    """By looking at every quarter of an hour of four days."""
    quarter = 900_000_000
    for zone, day in (("Europe/Berlin", "2020-10-24"), ("Europe/Berlin", "2020-03-28"), ("Pacific/Apia", "2011-12-29")):
        start = microseconds(datetime.fromisoformat(day).replace(tzinfo=UTC))
        moments = [start + n * quarter for n in range(4 * 96)]
        known = ZoneInfo(zone)
        shown = [microseconds(instant(t).astimezone(known).replace(tzinfo=UTC)) for t in moments]
        local, utc = local_step(zone), utc_step(zone)
        assert local is not None
        assert utc is not None
        assert [local(t) for t in moments[:192]] == [min(shown[n:]) for n in range(192)]
        back = [microseconds(instant(t).replace(tzinfo=known).astimezone(UTC)) for t in moments]
        assert [utc(t) for t in moments[:192]] == [min(back[n:]) for n in range(192)]


@pytest.mark.parametrize("call", [exp.TimestampTrunc, exp.DateTrunc])
@pytest.mark.parametrize("unit", ["HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"])
def test_rounding_never_goes_up(call: type[exp.Func], unit: str) -> None:
    found = rise_of(call(this=exp.column("t"), unit=exp.var(unit)))
    assert found is not None
    argument, rise = found
    assert (argument, rise.above) == (exp.column("t"), 0)
    for year in (1969, 1970, 2024):
        time = microseconds(datetime(year, 3, 31, 23, 59, 59, 999_999, tzinfo=UTC))
        down = rise.step(time)
        assert down <= time
        assert rise.step(down) == down


PASSING = """
CREATE STREAM X (i INT, k STRING, v INT, ts TIMESTAMP, WATERMARK FOR ts) KEEP 1 DAY;
CREATE STREAM Y (i INT, ts TIMESTAMP NOT NULL, WATERMARK FOR ts) KEEP 1 DAY;
"""
VIEWS = {
    "Rows": "SELECT i, ts, sum(i) OVER (ORDER BY ts ROWS 2 PRECEDING) AS s FROM X",
    "Lag": "SELECT i, ts, lag(i) OVER (PARTITION BY k ORDER BY ts) AS p FROM X",
    "Lead": "SELECT i, lead(i) OVER (PARTITION BY k ORDER BY ts) AS n FROM X",
    "Ahead": "SELECT i, sum(i) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING) AS s FROM X",
    "Both": "SELECT i, lead(i, 2) OVER (ORDER BY ts) AS n, lead(i) OVER (PARTITION BY k ORDER BY ts) AS m, "
    "lag(i) OVER (ORDER BY ts) AS p FROM X",
    "Around": "SELECT i, ts, count(*) OVER (ORDER BY ts RANGE BETWEEN INTERVAL 3 MINUTES PRECEDING AND INTERVAL 4 "
    "MINUTES FOLLOWING) AS n FROM X",
    "Running": "SELECT i, ts, sum(i) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT "
    "ROW) AS s FROM X",
    "Chain": "SELECT a.i, a.ts FROM X a JOIN Y b ON b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 MINUTES "
    "JOIN Y c ON c.ts BETWEEN b.ts AND b.ts + INTERVAL 5 MINUTES",
    "Longer": "SELECT a.ts FROM X a JOIN Y b ON b.ts BETWEEN a.ts AND a.ts + INTERVAL 2 MINUTES JOIN Y c ON c.ts "
    "BETWEEN b.ts AND b.ts + INTERVAL 2 MINUTES JOIN X d ON d.ts BETWEEN c.ts AND c.ts + INTERVAL 2 MINUTES",
    "Later": "SELECT greatest(ts, TIMESTAMP '2020-01-01 08:10:00') AS h, i FROM X",
    "FullJoin": "SELECT coalesce(a.w, b.w) AS w, a.n, b.n AS m FROM "
    "(SELECT date_trunc('MINUTE', ts) AS w, count(*) AS n FROM X WHERE ts IS NOT NULL GROUP BY 1) a FULL JOIN "
    "(SELECT date_trunc('MINUTE', ts) AS w, count(*) AS n FROM Y GROUP BY 1) b ON a.w = b.w",
}
WINDOWS = {
    "Gap": "FROM X AS x WINDOW BY w PARTITION BY x.k ORDER BY x.ts TYPE TUMBLING START AS s END AS e NEXT AS n "
    "WHEN n.ts - e.ts > duration('PT2M') SELECT s.k, s.ts AS since, e.ts AS last, ARRAY_COUNT(w) AS n",
    "Week": "FROM X AS x WINDOW BY w PARTITION BY x.k ORDER BY x.ts TYPE SLIDING START AS s END NEXT AS n "
    "WHEN n.ts - s.ts >= duration('PT3M') SELECT s.i, ARRAY_COUNT(w) AS n",
    "Value": "FROM X AS x WINDOW BY w PARTITION BY x.k ORDER BY x.ts TYPE TUMBLING START AS s WHEN s.v < 25 END NEXT "
    "AS n WHEN n.v >= 25 SELECT s.i, ARRAY_COUNT(w) AS n",
    "Place": "FROM X AS x WINDOW BY w ORDER BY x.ts TYPE SLIDING START AS s AT a END AT b WHEN b - a = 2 "
    "SELECT s.i, ARRAY_SUM(w[*].v) AS n",
    "Label": "FROM X AS x WINDOW BY w ORDER BY x.ts TYPE SLIDING LABEL AS l AT p START AT a WHEN p - a = 1 "
    "ONLY END AT b WHEN b - p = 1 SELECT l.i, ARRAY_SUM(w[*].v) AS n",
    "Open": "FROM X AS x WINDOW BY w PARTITION BY x.k ORDER BY x.ts TYPE SLIDING START AS s END AS e NEXT AS n "
    "WHEN n.ts - s.ts >= duration('PT3M') SELECT s.i, e.i AS j, ARRAY_COUNT(w) AS n",
    "Session": "FROM X AS x WINDOW BY w PARTITION BY x.k ORDER BY x.ts TYPE TUMBLING START AS s END AS e NEXT AS n "
    "WHEN n.ts - e.ts > duration('PT2M') SELECT s.k, s.ts AS since, ARRAY_MAX(w[*].ts) AS last, ARRAY_SUM(w[*].v) AS v",
    "Only": "FROM X AS x WINDOW BY w PARTITION BY x.k ORDER BY x.ts TYPE TUMBLING START AS s WHEN s.v < 25 "
    "ONLY END AS e WHEN e.v >= 25 SELECT s.i, e.i AS j, ARRAY_COUNT(w) AS n",
}
ONLY = WINDOWS["Only"].replace("SELECT s.i,", "SELECT s.ts AS since,")
OVER_WINDOWS = {
    "PerTumble": "SELECT wend, sum(n) AS n, count(*) AS c FROM Tumble(data => TABLE(Gaps), timecol => "
    "DESCRIPTOR(since), dur => INTERVAL '3' MINUTES) GROUP BY wend",
    "PerHop": "SELECT wstart, k, sum(n) AS n FROM Hop(data => TABLE(Gaps), timecol => DESCRIPTOR(since), "
    "dur => INTERVAL '4' MINUTES, hopsize => INTERVAL '2' MINUTES) WHERE k <> 'c' GROUP BY wstart, k",
    "PerMinute": "SELECT date_trunc('MINUTE', since) AS m, max(last) AS last, sum(n) AS n FROM Gaps GROUP BY m",
    "PerStart": "SELECT since, count(*) AS c, sum(n) AS n FROM Slides GROUP BY since",
    "PerLabel": "SELECT at, sum(n) AS n FROM Labels GROUP BY at",
    "PerOpen": "SELECT wend, count(last) AS ended FROM Tumble(data => TABLE(Gaps), timecol => DESCRIPTOR(since), "
    "dur => INTERVAL '5' MINUTES) GROUP BY wend HAVING count(*) > 0",
    "Of": "SELECT date_trunc('MINUTE', wend) AS m, max(n) AS n FROM (SELECT wend, k, sum(n) AS n FROM Tumble(data => "
    "TABLE(Gaps), timecol => DESCRIPTOR(since), dur => INTERVAL '1' MINUTE) GROUP BY wend, k) GROUP BY m",
    "Near": "SELECT g.k, g.since, g.n, y.i FROM Gaps g JOIN Y y ON y.ts BETWEEN g.since AND g.since + INTERVAL '3' "
    "MINUTES",
    "Ended": "SELECT g.k, g.since, g.last, y.i FROM Y y JOIN Gaps g ON y.ts BETWEEN g.since AND g.last",
    "Pairs": "SELECT g.k, g.since, g.n, s.n AS m FROM Gaps g JOIN Slides s ON s.since BETWEEN g.since AND g.since + "
    "INTERVAL '1' MINUTE",
    "PerJoin": "SELECT wend, sum(n) AS n, count(*) AS c FROM Tumble(data => TABLE(Joined), timecol => "
    "DESCRIPTOR(since), dur => INTERVAL '5' MINUTES) GROUP BY wend",
}
"""Over views of windows."""
GIVEN = """
Gaps := {Gap};
Slides := FROM X AS x WHERE x.ts IS NOT NULL WINDOW BY w PARTITION BY x.k
    ORDER BY x.ts TYPE SLIDING START AS s WHEN s.v < 25
  END NEXT AS n WHEN n.v >= 25 SELECT s.ts AS since, ARRAY_COUNT(w) AS n;
Labels := FROM X AS x WHERE x.ts IS NOT NULL WINDOW BY w ORDER BY x.ts TYPE SLIDING LABEL AS l AT p START AT a WHEN p -
    a = 1
  END AT b WHEN b - p = 1 SELECT l.ts AS at, ARRAY_SUM(w[*].v) AS n;
Joined := SELECT g.since, g.n, y.i FROM Gaps g JOIN Y y ON y.ts BETWEEN g.since AND g.since + INTERVAL '2' MINUTES;
"""
ON_SPARK = {
    "LocalDay": "SELECT date_trunc('MINUTE', ts AT TIME ZONE 'Asia/Kathmandu') AS h, count(*) AS n FROM X WHERE ts IS "
    "NOT NULL GROUP BY h",
    "Seconds": "SELECT unix_seconds(ts) DIV 300 AS h, sum(i) AS n FROM X WHERE ts IS NOT NULL GROUP BY "
    "unix_seconds(ts) DIV 300",
    "Bins": "SELECT date_bin('5 minutes', ts) AS h, count(*) AS n FROM X WHERE ts IS NOT NULL GROUP BY date_bin('5 "
    "minutes', ts)",
}
"""Functions that Spark alone has."""
TIMED = (*WINDOWS, "Rows", "Lag", "Lead", "Ahead", "Both", "Around", "Running", "Later")
"""Views of which rows without a time are left out."""


def passing_script(views: dict[str, str], given: str = "") -> str:
    twins = [given, *(f"{name} := {text} EMIT AFTER WATERMARK;" for name, text in views.items())]
    for name, text in views.items():
        source = "FROM X AS x WHERE x.ts IS NOT NULL" if "FROM X AS x" in text else "FROM X WHERE ts IS NOT NULL"
        timed = text.replace("FROM X AS x" if "FROM X AS x" in text else "FROM X", source) if name in TIMED else text
        twins.append(f"{name}All := {timed};")
    return PASSING + "\n".join(twins)


def bag(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(repr(r) for r in rows)


def insert_some(wb: Workbench, epoch: int, random: Random, end: bool) -> None:
    """Rows of both streams, some without a time, and their bounds; beyond all times at the end."""
    bound = datetime(2020, 1, 1, 8, tzinfo=UTC) + timedelta(minutes=6 * epoch)
    for stream in ("X", "Y"):
        rows: list[dict[str, Any]] = []
        for _ in range(6):
            rows.append({"i": random.randrange(100), "ts": bound + timedelta(seconds=random.randrange(900))})
            rows[-1] |= {"k": random.choice("ab"), "v": random.randrange(50)} if stream == "X" else {}
        rows += [{"i": -1, "k": "a", "v": 1, "ts": None}] if epoch == 1 and stream == "X" else []
        wb.insert(stream, rows)
        last = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
        wb.bound(stream, last if end else bound + timedelta(minutes=6), strict=True)


def check_emission(
    wb: Workbench,
    views: dict[str, str],
    epochs: int,
    seed: int = 5,
    restarts: bool = False,
    whole: Collection[str] | None = None,
) -> None:
    """Check the views beside their twins; `whole` are those with all rows at the end, by default all.

    With other seeds than the first, and restarts, some view may have no row before the end.
    """
    random = Random(seed)
    snapshots: dict[str, list[Counter[str]]] = {name: [] for name in views}
    for epoch in range(epochs):
        insert_some(wb, epoch, random, end=epoch == epochs - 1)
        wb.step()
        if restarts and random.random() < 0.4:
            wb.restart()
        for name, seen in snapshots.items():
            seen.append(bag(wb.rows(name)))
    for name, seen in snapshots.items():
        if seed == 5:
            assert sum(seen[-2].values()), f"{name}: nothing before the end"
            assert seen[-2] != seen[-1], name
        for earlier, later in pairwise(seen):
            assert earlier <= later, f"{name} took rows back"
        complete = bag(wb.rows(f"{name}All"))
        assert seen[-1] <= complete, f"{name} was early"
        assert (whole is not None and name not in whole) or seen[-1] == complete, name
        assert complete == bag(wb.batch(f"{name}All")), name


@pytest.mark.thorough
def test_what_is_emitted_is_final_and_all_comes(executor: Any) -> None:
    views = VIEWS | WINDOWS
    wb = Workbench(passing_script(views) + "FromView := SELECT * FROM GapAll EMIT ON WINDOW CLOSE;", spark=executor)
    check_emission(wb, views, 4)
    assert bag(wb.rows("FromView")) == bag(wb.rows("GapAll"))
    wb.close()


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [5, *at_night(range(6, 16))])
def test_groups_and_joins_of_windows_come_out_once_final(executor: Any, seed: int) -> None:
    gap = WINDOWS["Gap"].replace("FROM X AS x", "FROM X AS x WHERE x.ts IS NOT NULL")
    wb = Workbench(passing_script(OVER_WINDOWS, GIVEN.replace("{Gap}", gap)), spark=executor)
    check_emission(wb, OVER_WINDOWS, 4, seed, restarts=True)
    wb.close()


@pytest.mark.spark
@pytest.mark.nightly
def test_groups_by_functions_of_time_come_out_once_final(spark: Any) -> None:
    wb = Workbench(passing_script(ON_SPARK), spark=spark)
    check_emission(wb, ON_SPARK, 3)
    wb.close()


@pytest.mark.parametrize(
    "text",
    [
        # a window may end later with an old `last`
        "SELECT date_trunc('DAY', last) AS d, sum(n) AS n FROM Gaps GROUP BY d",
        # groups by what a later row changes
        "SELECT date_trunc('DAY', since) AS d, n, count(*) AS c FROM Gaps GROUP BY d, n",
        "SELECT date_trunc('DAY', since) AS d, count(*) AS c FROM Gaps WHERE n > 3 GROUP BY d",
        # windows without an end appear later
        "SELECT date_trunc('DAY', since) AS d, count(*) AS c FROM Onlys GROUP BY d",
        "SELECT g.since, y.i FROM Gaps g LEFT JOIN Y y ON y.ts BETWEEN g.since AND g.last",
        "SELECT i, count(*) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING) AS n FROM X",
        "SELECT i, ts, sum(i) OVER (PARTITION BY k) AS n FROM X",
        "SELECT lead(i) OVER (ORDER BY ts) AS n, max(i) OVER () AS m FROM X",
        "SELECT i, ntile(4) OVER (ORDER BY ts) AS n FROM X",
        "SELECT minute AS m, count(*) AS n FROM (SELECT extract(MINUTE FROM ts) AS minute FROM X) GROUP BY minute",
    ],
)
def test_what_a_later_row_may_change_at_any_time_is_refused(text: str) -> None:
    found = compile_script(f"{PASSING}Gaps := {WINDOWS['Gap']};\nOnlys := {ONLY};\nV := {text} EMIT AFTER WATERMARK;")
    assert [d.code for d in found.diagnostics if d.severity.value == "error"] == ["B5013"]
