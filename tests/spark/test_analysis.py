"""Spark's analyzer is asked about the queries of every stage; what it refuses is told at the expression."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from belvedere.cli import run
from belvedere.compiler import compile_script
from belvedere.pipeline.choose import maintain
from belvedere.spark.analysis import analyze

pytestmark = pytest.mark.spark

TABLE = "CREATE TABLE T (k INT PRIMARY KEY, x INT, s STRING, m MAP<STRING, INT>, t TIMESTAMP);\n"
BAD = "schema_of_json(s)"
"""Spark alone knows that the text must be a constant."""
KEPT = f"CAST({BAD} AS STRING)"
REFUSED = (
    f"SELECT k, upper(s) AS u, concat(s, lower({KEPT})) AS n FROM T",
    f"SELECT x, max(substring({KEPT}, 2)) AS n FROM T GROUP BY x",
    f"SELECT a.k FROM T a JOIN (SELECT x FROM T) b ON a.x = b.x AND a.s = {KEPT}",
    f"SELECT k FROM T WHERE x > 1 AND {KEPT} IS NULL",
    f"SELECT k, lag(s) OVER (PARTITION BY x ORDER BY {KEPT}, k) AS p FROM T",
    f"SELECT k FROM T ORDER BY {KEPT} LIMIT 3",
    f"SELECT k, transform(array(s), e -> concat(e, {KEPT})) AS es FROM T",
)
FINE = """
Sums := SELECT x, sum(k) AS s, max(t) AS t FROM T GROUP BY x;
Recent := SELECT k, now() - INTERVAL 1 DAY AS since FROM T WHERE t > now() - INTERVAL 1 HOUR;
First := SELECT x, k, s FROM T QUALIFY row_number() OVER (PARTITION BY x ORDER BY t DESC) <= 2;
Entries := SELECT k, e.key AS name, e.value AS n FROM T, UNNEST(map_entries(m)) e;
Windows := SELECT window_start, count(*) AS n FROM Tumble(T, t, INTERVAL 1 HOUR) GROUP BY window_start;
Outer := SELECT a.k, b.s FROM T a LEFT JOIN Sums b ON a.x = b.x;
"""


def refusals(spark: Any, script: str) -> list[tuple[str, str]]:
    compiled = compile_script(script)
    assert compiled.ok, compiled.diagnostics
    found = analyze(spark, compiled.catalog, maintain(compiled.catalog))
    return [(d.message, script[d.span.start : d.span.end]) for d in found if d.span is not None]


def test_what_spark_refuses_is_told_at_its_place(spark: Any) -> None:
    script = TABLE + "".join(f"V{n} := {q};\n" for n, q in enumerate(REFUSED)) + FINE
    found = refusals(spark, script)
    assert [message.split()[-1] for message, _ in found] == [f'"V{n}"' for n in range(len(REFUSED))]
    for (_, place), query in zip(found, REFUSED, strict=True):
        assert place == BAD, query


def test_fine_views_are_not_refused(spark: Any) -> None:
    assert refusals(spark, TABLE + FINE) == []


def test_check_asks_spark_where_told_to(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "s.sqrl"
    script.write_text(f"{TABLE}V := {REFUSED[0]};\n")
    assert run(["check", str(script)]) == 0
    capsys.readouterr()
    assert run(["check", str(script), "--spark", "--json"]) == 1
    (error,) = json.loads(capsys.readouterr().out)["diagnostics"]
    assert (error["code"], error["span"]["line"]) == ("B3070", 2)
    script.write_text(TABLE + FINE)
    assert run(["check", str(script), "--spark"]) == 0
