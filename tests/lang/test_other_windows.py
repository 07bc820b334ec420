"""Window clauses of other systems: the hint says the form of this language, and what is unambiguous is read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.workbench.workbench import Workbench

STREAM = "CREATE STREAM X (i INT, k STRING, ts TIMESTAMP NOT NULL, WATERMARK FOR ts) KEEP 1 DAY;\n"
REFUSED = [
    ("CREATE TABLE t (ts TIMESTAMP NOT NULL LATENESS INTERVAL 1 HOURS, v INT);", "WATERMARK FOR ts AS ts - INTERVAL"),
    (
        "CREATE VIEW v WITH ('emit_final' = 'ts') AS SELECT ts, count(*) AS n FROM X GROUP BY ts;",
        "EMIT AFTER WATERMARK",
    ),
    ("CREATE SOURCE s (v INT) WITH (connector = 'kafka');", "CREATE STREAM"),
    ("V := SELECT i, sum(i) OVER (ORDER BY ts SESSION WITH GAP INTERVAL '10 minutes') AS s FROM X;", "SESSION(TABLE t"),
    (
        "CREATE STREAM Z (ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL '5 seconds');",
        "WATERMARK FOR ts AS ts - INTERVAL",
    ),
    ("V := SELECT k, count(*) AS n FROM X WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY k;", "TUMBLE(TABLE t"),
    (
        "V := SELECT k FROM X WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 10 MINUTES) GROUP BY k EMIT FINAL;",
        "a grace period is",
    ),
    ("V := SELECT k FROM X WINDOW HOPPING (SIZE 30 SECONDS, ADVANCE BY 10 SECONDS) GROUP BY k;", "HOP(TABLE t"),
    ("V := SELECT k, count(*) AS n FROM X WINDOW SESSION (60 SECONDS) GROUP BY k;", "SESSION(TABLE t"),
    ("V := SELECT k, count(*) AS n FROM X GROUP BY k EMIT FINAL;", "EMIT AFTER WATERMARK"),
    ("V := SELECT * FROM X WHERE mz_now() <= ts + INTERVAL '1 hour';", "now()"),
    ("V := SELECT h FROM X, date_bin_hopping('1 minute', '5 minutes', ts) AS h;", "HOP(TABLE t"),
    ("V := SELECT k, count(*) AS n FROM X [RANGE 10 MINUTE SLIDE 5 MINUTE] GROUP BY k;", "WINDOW (sliding, time(600))"),
    ("V := SELECT count(*) AS n FROM X [ROWS 10];", "(sliding, count(10))"),
    ("V := SELECT ISTREAM(k, i) FROM X [RANGE 10 MINUTE];", "SELECT STREAM"),
    ("V := SELECT * FROM X MATCH_RECOGNIZE (PATTERN (A) DEFINE A AS A.i > 1) AS m;", "WINDOW BY"),
    ("V := SELECT count(*) AS n FROM X GROUP BY session_window(ts, 'often');", "session_window(time, '10 minutes')"),
    ("V := SELECT k FROM X [NOW] WHERE i > 1;", "a.ts = b.ts"),
]


@pytest.mark.parametrize(("text", "hint"), REFUSED, ids=[t[:60] for t, _ in REFUSED])
def test_the_hint_says_the_form_of_this_language(text: str, hint: str) -> None:
    found = compile_script(STREAM + text)
    assert not found.ok
    assert hint in (found.diagnostics[0].hint or "")


def test_a_delay_of_is_a_watermark_below_its_column() -> None:
    texts = ("WATERMARK FOR ts DELAY OF INTERVAL '5' SECONDS", "WATERMARK FOR ts AS ts - INTERVAL '5' SECONDS")
    one, other = (compile_script(f"CREATE STREAM Z (ts TIMESTAMP, {text}) KEEP 1 DAY;") for text in texts)
    assert one.ok
    assert one.catalog.inputs["Z"].watermarks == other.catalog.inputs["Z"].watermarks


SAME = {
    "Tumbled": (
        "SELECT k, TUMBLE_START(ts, INTERVAL '5' MINUTE) AS s, TUMBLE_ROWTIME(ts, INTERVAL '5' MINUTE) AS r, count(*) "
        "AS n FROM X GROUP BY k, TUMBLE(ts, INTERVAL '5' MINUTE)",
        "SELECT k, window_start AS s, window_time AS r, count(*) AS n FROM TUMBLE(TABLE X, DESCRIPTOR(ts), INTERVAL "
        "'5' MINUTE) GROUP BY k, window_start, window_end, window_time",
    ),
    "Hopped": (
        "SELECT HOP_END(ts, INTERVAL '1' MINUTE, INTERVAL '5' MINUTE) AS e, sum(i) AS n FROM X "
        "GROUP BY HOP(ts, INTERVAL '1' MINUTE, INTERVAL '5' MINUTE)",
        "SELECT window_end AS e, sum(i) AS n FROM HOP(TABLE X, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '5' "
        "MINUTE) GROUP BY window_start, window_end",
    ),
    "Sessions": (
        "SELECT k, SESSION_START(ts, INTERVAL '2' MINUTE) AS s, SESSION_END(ts, INTERVAL '2' MINUTE) AS e, count(*) "
        "AS n FROM X GROUP BY k, SESSION(ts, INTERVAL '2' MINUTE)",
        "SELECT k, window_start AS s, window_end AS e, count(*) AS n FROM SESSION(TABLE X PARTITION BY k, "
        "DESCRIPTOR(ts), INTERVAL '2' MINUTE) GROUP BY k, window_start, window_end",
    ),
    "Times": (
        "SELECT window_time(window) AS t, count(*) AS n FROM X GROUP BY window(ts, '5 minutes')",
        "SELECT window_end - INTERVAL '1' MICROSECOND AS t, count(*) AS n FROM TUMBLE(TABLE X, DESCRIPTOR(ts), "
        "INTERVAL '5' MINUTE) GROUP BY window_start, window_end",
    ),
}


def test_windows_in_group_by_are_those_of_from(executor: Any) -> None:
    views = "".join(f"{name} := {one};\n{name}From := {other};\n" for name, (one, other) in SAME.items())
    wb = Workbench(STREAM + views, spark=executor)
    start = datetime(2020, 1, 1, 8, tzinfo=UTC)
    wb.insert("X", [{"i": n, "k": "ab"[n % 2], "ts": start + timedelta(seconds=n * n)} for n in range(40)])
    wb.step()
    for name in SAME:
        rows = wb.rows(name)
        assert len(rows) > 4
        assert sorted(map(repr, rows)) == sorted(map(repr, wb.rows(f"{name}From"))), name
    wb.close()
