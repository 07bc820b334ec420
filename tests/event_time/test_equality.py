"""Windows, frames and joins of time where times are exactly equal: plain Spark on the same text, and plain Python,
beside batch.

Batch shares the compiler, so it cannot see a boundary that the compiler has wrong. Times lie on the boundaries of each
window, also before 1970, and NULL.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from belvedere.workbench.workbench import Workbench
from tests.event_time.cases import at

MINUTE = timedelta(minutes=1)
BEFORE_1970 = datetime(1969, 12, 31, 23, 50, tzinfo=UTC)
TIMES = [
    *(at(t) for t in ("8:00", "8:05", "8:09:59", "8:15", "8:20", "8:20", "8:25:01", "8:30")),
    *(BEFORE_1970 + n * MINUTE for n in (0, 5, 10, 16)),
    None,
]
TABLES = """
CREATE TABLE T (id INT, k INT, ts TIMESTAMP, PRIMARY KEY (id));
CREATE TABLE U (id INT, k INT, ts TIMESTAMP, PRIMARY KEY (id));
CREATE STREAM _S (id INT, k INT, ts TIMESTAMP);
"""
FRAMES = (
    "INTERVAL 5 MINUTES PRECEDING AND CURRENT ROW",
    "CURRENT ROW AND INTERVAL 5 MINUTES FOLLOWING",
    "INTERVAL 10 MINUTES PRECEDING AND INTERVAL 5 MINUTES PRECEDING",
)
SPARKS = {
    "SessionOfAll": "SELECT session_window.start AS a, session_window.end AS b, count(*) AS n FROM T GROUP BY "
    "session_window(ts, '5 minutes')",
    "SessionByKey": "SELECT k, session_window.start AS a, session_window.end AS b, count(*) AS n FROM T GROUP BY k, "
    "session_window(ts, '5 minutes')",
    "SessionOfStream": "SELECT k, session_window.start AS a, session_window.end AS b, count(*) AS n FROM _S GROUP BY "
    "k, session_window(ts, '5 minutes')",
    "SessionOfRows": "SELECT k, session_window.start AS a, session_window.end AS b, count(*) AS n FROM T GROUP BY k, "
    "session_window(ts, CASE id % 3 WHEN 0 THEN '5 minutes' WHEN 1 THEN '0 minutes' ELSE '11 minutes' END)",
    "SessionOfStreamRows": "SELECT k, session_window.start AS a, session_window.end AS b, count(*) AS n, sum(id) AS s "
    "FROM _S GROUP BY k, session_window(ts, IF(id > 30, '10 minutes', '5 minutes'))",
    "Tumbled": "SELECT window.start AS a, window.end AS b, count(*) AS n FROM T GROUP BY window(ts, '5 minutes')",
    "Shifted": "SELECT window.start AS a, window.end AS b, count(*) AS n FROM T GROUP BY window(ts, '10 minutes', '10 "
    "minutes', '5 minutes')",
    "Hopped": "SELECT window.start AS a, window.end AS b, count(*) AS n FROM T GROUP BY window(ts, '10 minutes', '5 "
    "minutes')",
    "Between": "SELECT T.id, U.id AS other FROM T JOIN U ON U.k = T.k AND U.ts BETWEEN T.ts AND T.ts + INTERVAL 5 "
    "MINUTES",
    "Before": "SELECT T.id, U.id AS other FROM T LEFT JOIN U ON U.ts < T.ts AND U.ts >= T.ts - INTERVAL 5 MINUTES",
    **{
        f"Frame{n}": f"SELECT id, count(*) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN {frame}) AS n FROM T"
        for n, frame in enumerate(FRAMES)
    },
}
BOUNDED = "Session(data => TABLE(_S), timecol => DESCRIPTOR(ts), key => DESCRIPTOR(k), gap => INTERVAL '5' MINUTES)"
FLINKS = {
    "Session": f"SELECT k, wstart, wend, count(*) AS n FROM {BOUNDED} GROUP BY k, wstart, wend",
    "Rows": f"SELECT id, wstart, wend FROM {BOUNDED}",
    "Cumulated": "SELECT id, window_start, window_end FROM TABLE(CUMULATE(TABLE T, DESCRIPTOR(ts), INTERVAL '5' "
    "MINUTES, INTERVAL '10' MINUTES))",
    "AsOf": "SELECT t.id, v.id AS other FROM T t JOIN Versions FOR SYSTEM_TIME AS OF t.ts v ON v.k = t.k",
    "Nearest": "SELECT t.id, u.id AS other FROM T t ASOF JOIN U u MATCH_CONDITION (t.ts >= u.ts) ON t.k = u.k",
    "NearestBefore": "SELECT t.id, u.id AS other FROM T t ASOF JOIN U u MATCH_CONDITION (t.ts > u.ts) ON t.k = u.k",
}
SCRIPT = (
    TABLES
    + "Versions := DISTINCT U ON k ORDER BY ts DESC;\n"
    + "".join(f"{n} := {q};\n" for n, q in (SPARKS | FLINKS).items())
)
Row = tuple[int, int, datetime | None]


def rows(name: str) -> list[Row]:
    """Of T all times for two keys; of U, the versions, some of them for one key."""
    if name == "U":
        return [(n, 1, time) for n, time in enumerate(TIMES[:3] + TIMES[6:10])]
    return [(10 * n + k, k, time) for n, time in enumerate(TIMES) for k in (1, 2) if k == 1 or n % 2]


def dicts(given: Iterable[Row]) -> list[dict[str, Any]]:
    return [dict(zip(("id", "k", "ts"), row, strict=True)) for row in given]


def bag(found: Iterable[Iterable[Any]]) -> list[str]:
    return sorted(repr([v.astimezone(UTC) if isinstance(v, datetime) else v for v in row]) for row in found)


def sessions(given: list[Row]) -> dict[int, tuple[datetime, datetime]]:
    """The session of each row by its id: a row at most the gap behind another is in its session."""
    found: dict[int, tuple[datetime, datetime]] = {}
    for key in {k for _, k, _ in given}:
        groups: list[list[tuple[datetime, int]]] = []
        for time, id_ in sorted((t, i) for i, k, t in given if k == key and t is not None):
            if not groups or time - groups[-1][-1][0] > 5 * MINUTE:
                groups.append([])
            groups[-1].append((time, id_))
        found |= {i: (g[0][0], g[-1][0] + 5 * MINUTE) for g in groups for _, i in g}
    return found


def expected() -> dict[str, list[str]]:
    """The rows of `FLINKS` by definition."""
    table, versions = [r for r in rows("T") if r[2] is not None], [r for r in rows("U") if r[2] is not None]
    timeless = [(i, None) for i, _, time in rows("T") if time is None]
    of_row = sessions(table)
    key = {i: k for i, k, _ in table}
    grouped = {(key[i], *ends) for i, ends in of_row.items()}
    ten, epoch = 10 * MINUTE, datetime(1970, 1, 1, tzinfo=UTC)
    cumulated = []
    for id_, _, time in table:
        assert time is not None
        start = time - (time - epoch) % ten
        cumulated += [(id_, start, end) for end in (start + 5 * MINUTE, start + ten) if time < end]

    def nearest(at_it: bool) -> list[tuple[int, int | None]]:
        found = []
        for id_, k, time in table:
            before = [(u, i) for i, own, u in versions if own == k and (u < time or (at_it and u == time))]  # type: ignore[operator]
            found += [(id_, max(before)[1] if before else None)]
        return found

    return {
        "Session": bag((*g, sum((key[i], *e) == g for i, e in of_row.items())) for g in grouped),
        "Rows": bag((i, *ends) for i, ends in of_row.items()),
        "Cumulated": bag(cumulated),
        "AsOf": bag(r for r in nearest(True) if r[1] is not None),
        "Nearest": bag([*nearest(True), *timeless]),
        "NearestBefore": bag([*nearest(False), *timeless]),
    }


@pytest.mark.spark
def test_times_that_are_equal_are_taken_as_spark_and_flink_take_them(spark: Any) -> None:
    """In two epochs, so that the second one's rows join what is stored."""
    wb = Workbench(SCRIPT, spark=spark)
    try:
        for part in (slice(0, None, 2), slice(1, None, 2)):
            for name, source in (("T", "T"), ("U", "U"), ("_S", "T")):
                wb.insert(name, dicts(rows(source)[part]))
            wb.step()
        for name, source in (("T", "T"), ("U", "U"), ("_S", "T")):
            spark.createDataFrame(rows(source), "id INT, k INT, ts TIMESTAMP").createOrReplaceTempView(name)
        for name, query in SPARKS.items():
            found = wb.rows(name)
            assert found, name
            assert bag(r.values() for r in found) == bag(r.values() for r in spark.sql(query).toArrow().to_pylist()), (
                name
            )
        for name, rows_ in expected().items():
            assert bag(r.values() for r in wb.rows(name)) == rows_, name
        for name, batch in wb.batches([*SPARKS, *FLINKS]).items():
            assert bag(r.values() for r in batch) == bag(r.values() for r in wb.rows(name)), name
    finally:
        for name in ("T", "U", "_S"):
            spark.catalog.dropTempView(name)
        wb.close()
