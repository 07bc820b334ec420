"""`python -m bench.window_by`: the WINDOW BY paper's queries against Spark SQL, a nested loop and DuckDB, in one run.

Each query computes its windows over the same cached rows and reduces them to one checksum. So every result is computed,
and none is transferred. "WINDOW BY" and "Spark in order" return their rows in order; "any order" and all others do not.
"Spark SQL" is OVER with Spark's segment tree on, or for tumbling windows the equivalent window functions and GROUP BY.
The nested loop is the paper's rewrite of unbounded windows: a join of starts, ends and rows. The engines take turns,
and the best time of each counts. `--cpu` measures the processor time of all their processes, which other programs on
the machine influence less. Rows: `stations` series of equal length; a threshold of `cold` (of 1000) gives windows of
about 1000 / (1000 - cold) rows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from belvedere.spark.session import local_session
from belvedere.spark.window_by.windows import Spread
from belvedere.spark.window_by.windows_query import run_window_query, sql
from belvedere.workbench.calibration import processor_time

ROW = "{:<22}{:>12}{:>12}{:>22}{:>16}{:>22}{:>22}"
COLUMNS = ("WINDOW BY", "any order", "Spark SQL", "Spark in order", "nested loop", "DuckDB")
HEAD = "FROM ghcn AS g WINDOW BY w PARTITION BY g.station ORDER BY g.day TYPE "
COLD = "START AS s WHEN s.val < {c} END NEXT AS n WHEN n.val >= {c}"
OVER = "SELECT val, {f}(val) OVER (PARTITION BY station ORDER BY day {frame}) AS a FROM ghcn"
LOOP = """
WITH numbered AS (SELECT *, row_number() OVER (PARTITION BY station ORDER BY day) AS p,
  lead(val) OVER (PARTITION BY station ORDER BY day) AS following, count(*) OVER (PARTITION BY station) AS n FROM ghcn),
ends AS (SELECT s.station, s.p, min(e.p) AS e FROM numbered s JOIN numbered e ON s.station = e.station AND e.p >= s.p
  AND (e.following >= {c} OR e.p = e.n) WHERE s.val < {c} GROUP BY s.station, s.p)
SELECT s.station, s.p, avg(x.val) AS a FROM ends s JOIN numbered x ON x.station = s.station AND x.p BETWEEN s.p AND s.e
GROUP BY s.station, s.p
"""
SPELLS = """
WITH marked AS (SELECT *, lead(val) OVER (PARTITION BY station ORDER BY day) AS following FROM ghcn),
moved AS (SELECT *, CASE WHEN following >= {c} THEN 0 WHEN val < {c} THEN 1 END AS turn FROM marked),
state AS (SELECT *, coalesce(last_value(turn, true) OVER (PARTITION BY station ORDER BY day
  ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS open FROM moved),
numbered AS (SELECT *, sum(CASE WHEN open = 0 AND val < {c} THEN 1 ELSE 0 END) OVER (PARTITION BY station
    ORDER BY day) AS spell FROM state)
SELECT avg(val) AS a FROM numbered WHERE open = 1 OR val < {c} GROUP BY station, spell
"""
BLOCKS = """
SELECT avg(val) AS a FROM (SELECT *, row_number() OVER (PARTITION BY station ORDER BY day) AS p FROM ghcn)
    GROUP BY station, (p - 1) DIV 20
"""
SESSIONS = """
WITH gaps AS (SELECT *, CASE WHEN day - lag(day) OVER (PARTITION BY station ORDER BY day) > 2 THEN 1 ELSE 0 END AS gap
    FROM ghcn),
numbered AS (SELECT *, sum(gap) OVER (PARTITION BY station ORDER BY day) AS session FROM gaps)
SELECT avg(val) AS a FROM numbered GROUP BY station, session
"""


@dataclass(frozen=True)
class Contest:
    """One query in the form of each engine; None if an engine cannot express it."""

    name: str
    window_by: str
    over: str | None = None
    loop: str | None = None
    duck: str | None = None
    order: str = "station, day"
    """ORDER BY that sorts the rows of `over` like WINDOW BY."""


def contests(lengths: list[int], colds: list[int]) -> Iterator[Contest]:
    """Yield the paper's queries: counted windows for several lengths, cold ones for several thresholds."""
    for length in lengths:
        frame = f"ROWS BETWEEN CURRENT ROW AND {length - 1} FOLLOWING"
        counted = (
            HEAD
            + f"SLIDING START AS s AT sp WHEN TRUE END AT ep WHEN ep - sp = {length - 1} SELECT ARRAY_{{f}}(w[*].val) "
            "AS a"
        )
        for name in ("AVG", "MAX", "MEDIAN"):
            over = OVER.format(f=name, frame=frame)
            yield Contest(
                f"12 {name} of {length}", counted.format(f=name), over if name != "MEDIAN" else None, None, over
            )
    week = "RANGE BETWEEN CURRENT ROW AND 7 FOLLOWING"
    range_query = HEAD + "SLIDING START AS s END NEXT AS n WHEN n.day - s.day > 7 SELECT ARRAY_AVG(w[*].val) AS a"
    yield Contest("11 one week", range_query, OVER.format(f="AVG", frame=week), None, OVER.format(f="AVG", frame=week))
    for cold in colds:
        average = f"{COLD.format(c=cold)} SELECT ARRAY_AVG(w[*].val) AS a"
        loop, spells = LOOP.format(c=cold), SPELLS.format(c=cold)
        yield Contest(f"13 while below {cold}", HEAD + f"SLIDING {average}", None, loop, loop)
        yield Contest(
            f"14 spells below {cold}",
            HEAD + f"TUMBLING {average}",
            spells,
            None,
            spells.replace(", true)", " IGNORE NULLS)"),
            "station, spell",
        )
    blocks = "TUMBLING START AT sp END AT ep WHEN ep - sp = 19 SELECT ARRAY_AVG(w[*].val) AS a"
    yield Contest(
        "15 blocks of 20", HEAD + blocks, BLOCKS, None, BLOCKS.replace("DIV", "//"), "station, (p - 1) DIV 20"
    )
    yield Contest(
        "16 weeks", HEAD + "TUMBLING START AS s END NEXT AS n WHEN n.day - s.day > 7 SELECT ARRAY_AVG(w[*].val) AS a"
    )
    neighbours = (
        "LABEL AS l AT lp START AT sp WHEN lp - sp = 1 END AT ep WHEN ep - lp = 1 SELECT ARRAY_AVG(w[*].val) AS a"
    )
    frame = "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING"
    yield Contest(
        "17 neighbours",
        HEAD + "SLIDING " + neighbours,
        OVER.format(f="AVG", frame=frame),
        None,
        OVER.format(f="AVG", frame=frame),
    )
    growing = "LABEL AT lp START UNBOUNDED END AT ep WHEN ep = lp SELECT ARRAY_AVG(w[*].val) AS a"
    frame = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    yield Contest(
        "19 until now",
        HEAD + "SLIDING " + growing,
        OVER.format(f="AVG", frame=frame),
        None,
        OVER.format(f="AVG", frame=frame),
    )
    sessions = "TUMBLING START AS s END AS e NEXT AS n WHEN n.day - e.day > 2 SELECT ARRAY_AVG(w[*].val) AS a"
    yield Contest("20 sessions", HEAD + sessions, SESSIONS, None, SESSIONS, "station, session")


def rows(spark: Any, count: int, stations: int) -> Any:
    """Return `count` rows of `stations` series: days with gaps, and values from 0 to 999."""
    return spark.range(count).selectExpr(
        f"id % {stations} AS station",
        f"id div {stations} * 2 + pmod(xxhash64(id, 1), 2) AS day",
        "pmod(xxhash64(id, 2), 1000) AS val",
    )


def in_turns(
    actions: Mapping[str, Callable[[], Any]], repeats: int, now: Callable[[], float]
) -> dict[str, tuple[float, float]]:
    """Return the best time of each action and its checksum."""
    found = dict.fromkeys(actions, (float("inf"), 0.0))
    for _ in range(repeats):
        for name, action in actions.items():
            begin = now()
            answer = float(action() or 0)
            found[name] = min(found[name][0], now() - begin), answer
    return found


def in_any_order(spark: Any, text: str, tables: dict[str, Any]) -> Any:
    """Return the query without the order of its rows."""
    return run_window_query(spark, text, tables, spread=Spread.HASHED)


def spark_sum(frame: Any) -> float:
    return float(frame.selectExpr("sum(a) AS s").collect()[0].s or 0)


def measure(count: int, stations: int, given: argparse.Namespace) -> None:
    """Print one table."""
    repeats = given.repeats
    spark = local_session(memory=given.memory)
    ghcn = rows(spark, count, stations).cache()
    ghcn.count()
    ghcn.createOrReplaceTempView("ghcn")
    duck = _duck(ghcn)

    print(f"{count:,} rows, {stations:,} partitions, {'processor ' * given.cpu}seconds")
    print(ROW.format("query", *COLUMNS))
    for contest in contests(given.lengths, given.cold):
        if not any(contest.name.startswith(n) for n in given.only):
            continue
        found = in_turns(
            runs(spark, contest, ghcn, duck, given.loops), repeats, processor_time if given.cpu else time.perf_counter
        )
        print(ROW.format(contest.name, *(shown(found, c) for c in COLUMNS)), flush=True)
    duck.close()
    ghcn.unpersist()


def runs(spark: Any, contest: Contest, ghcn: Any, duck: Any, loops: bool) -> dict[str, Callable[[], Any]]:
    """Return the measured functions, by column."""
    tables, text = {"ghcn": ghcn}, contest.window_by
    found: dict[str, Callable[[], Any]] = {
        "WINDOW BY": lambda: spark_sum(sql(spark, text, **tables)),
        "any order": lambda: spark_sum(in_any_order(spark, text, tables)),
    }
    if contest.over is not None:
        found["Spark SQL"] = lambda: spark_sum(spark.sql(contest.over))
        found["Spark in order"] = lambda: spark_sum(spark.sql(f"{contest.over} ORDER BY {contest.order}"))
    if contest.loop is not None and loops:
        found["nested loop"] = lambda: spark_sum(spark.sql(contest.loop))
    if contest.duck is not None and (loops or contest.duck != contest.loop):
        found["DuckDB"] = lambda: duck.execute(f"SELECT sum(a) FROM ({contest.duck})").fetchall()[0][0]
    return found


def shown(found: Mapping[str, tuple[float, float]], column: str) -> str:
    """Return a time, and whether the result differs (an OVER frame is not empty if a window is unclosed)."""
    if column not in found:
        return ""
    took, theirs = found[column]
    answer = found["any order"][1]
    return f"{took:.2f}" + ("" if abs(answer - theirs) <= 1e-6 * max(1.0, abs(theirs)) else " (other answer)")


def _duck(frame: Any) -> Any:
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads TO 2")
    connection.register("arrow", frame.toArrow())
    connection.execute("CREATE TABLE ghcn AS SELECT * FROM arrow")
    return connection


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.window_by", description="WINDOW BY against OVER, nested loops and DuckDB"
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--stations", type=int, nargs="+", default=[500, 1], help="numbers of partitions to try")
    parser.add_argument("--lengths", type=int, nargs="+", default=[10, 1_000, 100_000])
    parser.add_argument("--cold", type=int, nargs="+", default=[900], help="thresholds of Fig. 13 and 14")
    parser.add_argument("--memory", default="6g", help="of the JVM")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--cpu", action="store_true", help="measure processor seconds, not those of the clock")
    parser.add_argument(
        "--loops", action="store_true", help="run the nested loops too: their time grows with the square of a partition"
    )
    parser.add_argument("--only", nargs="+", default=[""], help="queries whose names begin so: 11, 12, 13, ...")
    given = parser.parse_args()
    for rows_given, stations in product(given.rows, given.stations):
        measure(rows_given, stations, given)


if __name__ == "__main__":
    main()
