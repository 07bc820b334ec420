"""Columns of year-month intervals: each view equals batch after each epoch, on both stores; the API shows ISO 8601."""

from __future__ import annotations

import random
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from belvedere import Workbench
from belvedere.compiler import compile_script
from belvedere.connectors.reading.reader import read_files
from belvedere.connectors.run_records import SourceFile
from belvedere.schema import MONTHS, Column
from belvedere.values.months import months_of, months_text
from tests import depth

SCRIPT = """
CREATE TABLE T (id INT, k INT, a DATE, i INTERVAL YEAR TO MONTH, d INTERVAL DAY TO SECOND, PRIMARY KEY (id));
CREATE STREAM E (k INT, t TIMESTAMP, i INTERVAL YEAR TO MONTH);
Sums := SELECT id, a + i AS u, i + INTERVAL '1' MONTH AS s, i * 2 AS t, -i AS n, a + i + d AS v, d, i FROM T;
Groups := SELECT i, count(*) AS n FROM T GROUP BY i;
Totals := SELECT k, sum(i) AS s, min(i) AS lo, max(i) AS hi, avg(i) AS m, count(DISTINCT i) AS n FROM T GROUP BY k;
Streamed := SELECT k, sum(i) AS s, avg(i) AS m, median(i) AS middle, max(i) AS hi FROM E GROUP BY k;
Pairs := SELECT l.id, r.id AS other, l.i FROM T l JOIN T r ON l.i = r.i;
Outer := SELECT T.id, E.i FROM T LEFT JOIN E ON T.k = E.k AND T.i <= E.i;
Longest := SELECT id, i FROM T ORDER BY i DESC, id LIMIT 3;
Running := SELECT id, lag(i) OVER (PARTITION BY k ORDER BY id) AS p, sum(i) OVER (PARTITION BY k ORDER BY id) AS q
    FROM T;
Lists := SELECT id, x + i AS x FROM (SELECT id, i, array(i, INTERVAL '1' YEAR) AS xs FROM (SELECT DISTINCT id, i
    FROM T))
  LATERAL VIEW explode(xs) q AS x;
Past := SELECT id, i FROM T WITH HISTORY;
Both := SELECT i FROM T UNION SELECT i FROM E;
Parts := SELECT id, extract(YEAR FROM i) AS y, extract(MONTH FROM i) AS m, CAST(i AS STRING) AS t,
  CAST(CAST(i AS INTERVAL MONTH) AS INT) AS whole FROM T;
Made := SELECT id, make_ym_interval(1, 14) AS m, CAST('1-2' AS INTERVAL YEAR TO MONTH) AS c,
  CASE WHEN i > INTERVAL '1' YEAR THEN i ELSE INTERVAL '0' MONTH END AS w FROM T;
At(x INTERVAL YEAR TO MONTH = 'P1Y') := SELECT id, i FROM T WHERE i >= :x ORDER BY i, id;
"""
VIEWS = "Sums Groups Totals Streamed Pairs Outer Longest Running Lists Past Both Parts Made".split()
LENGTHS = ["P0M", "P1Y2M", "1-2", "-P3M", "P40Y", None]


def _row(choice: random.Random, id_: int) -> dict[str, Any]:
    return {"id": id_, "k": choice.randrange(2), "a": "2024-01-31", "i": choice.choice(LENGTHS), "d": "PT1H"}


def _in_any_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(str, rows))


@pytest.mark.spark
@pytest.mark.parametrize(
    "store", ["sqlite", pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.nightly])]
)
def test_views_of_months_are_what_batch_says(store: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("postgres_url") if store == "postgres" else "sqlite://"
    choice = random.Random(7)
    with closing(Workbench(SCRIPT, store=url)) as bench:
        for epoch in range(2 if depth.quick else 3):
            bench.insert("T", [_row(choice, id_) for id_ in choice.sample(range(8), 4)])
            bench.insert("E", [{"k": choice.randrange(2), "i": choice.choice(LENGTHS)}])
            bench.step()
            batch = bench.batches(VIEWS)
            for view in VIEWS:
                assert _in_any_order(bench.rows(view)) == _in_any_order(batch[view]), (epoch, view)
            if epoch == 0:
                bench.restart()
        bench.delete("T", [r for r in bench.rows("T") if r["id"] == 0])
        bench.insert(
            "T",
            [{"id": 8, "k": 5, "a": "2024-01-31", "i": "P1Y13M"}, {"id": 9, "k": 5, "a": "2024-01-31", "i": "-0-1"}],
        )
        bench.step()
        _asked(bench)


def _asked(bench: Workbench) -> None:
    assert next(r for r in bench.rows("T") if r["id"] == 8)["i"] == "P2Y1M"
    changed = {r["id"]: (r["u"].isoformat(), r["s"], r["n"]) for r, weight in bench.changes("Sums") if weight > 0}
    assert changed == {8: ("2026-02-28", "P2Y2M", "-P2Y1M"), 9: ("2023-12-31", "P0Y0M", "P0Y1M")}
    made = bench.graphql("{ made(filter: {id: {eq: 8}}) { m c w } }")["data"]["made"]
    assert made == [{"m": "P2Y2M", "c": "P1Y2M", "w": "P2Y1M"}]
    totals = bench.graphql("{ totals(filter: {k: {eq: 5}}) { s lo hi m n } }")["data"]["totals"]
    assert totals == [{"s": "P2Y0M", "lo": "-P0Y1M", "hi": "P2Y1M", "m": "P1Y0M", "n": 2}]
    long = bench.graphql('{ t(filter: {i: {gt: "P2Y"}, k: {eq: 5}}, order: {i: DESC}) { id i } }')["data"]["t"]
    assert long == [{"id": 8, "i": "P2Y1M"}]
    page = bench.graphql("{ tPage(order: [{i: ASC_NULLS_LAST}], first: 1) { nodes { i } endCursor } }")["data"]["tPage"]
    rest = bench.graphql(
        f'{{ tPage(order: [{{i: ASC_NULLS_LAST}}], after: "{page["endCursor"]}") {{ nodes {{ i }} }} }}'
    )
    reported = [n["i"] for n in (*page["nodes"], *rest["data"]["tPage"]["nodes"])]
    lengths = [months_of(i) for i in reported if i is not None]
    assert lengths == sorted(lengths)
    assert len(reported) == len(bench.rows("T"))
    assert {r["id"] for r in bench.graphql('{ at(x: "P2Y1M") { id } }')["data"]["at"]} >= {8}
    assert "expected an interval" in bench.graphql('{ t(filter: {i: {eq: "P1D"}}) { id } }')["errors"][0]["message"]


@pytest.mark.spark
@pytest.mark.parametrize("small_bytes", [1 << 30, -1])
def test_files_have_months_as_spark_writes_them(spark: Any, tmp_path: Path, small_bytes: int) -> None:
    path = tmp_path / "rows.json"
    path.write_text('{"id": 1, "i": "1-2"}\n{"id": 2}\n{"id": 3, "i": "P1Y"}\n')
    stat = path.stat()
    file = SourceFile(str(path), stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC))
    columns = (Column("id", pa.int64()), Column("i", MONTHS))
    taken = read_files(spark, "T", [file], columns, {}, small_bytes=small_bytes)
    assert taken.rows.table.cast(pa.schema([("id", pa.int64()), ("i", pa.int64())])).to_pylist() == [
        {"id": 1, "i": 14},
        {"id": 2, "i": None},
    ]
    assert [r.reason for r in taken.rejected] == ['column "i": "P1Y" is not of type INTERVAL YEAR TO MONTH']


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("P1Y", "P1Y0M"),
        ("-P13M", "-P1Y1M"),
        ("P-1Y", "-P1Y0M"),
        ("1-2", "P1Y2M"),
        ("INTERVAL '-0-3' YEAR TO MONTH", "-P0Y3M"),
    ],
)
def test_texts_of_months(text: str, shown: str) -> None:
    assert months_text(months_of(text)) == shown
    assert months_of(shown) == months_of(text)


@pytest.mark.parametrize("text", ["", "P", "P1D", "PT1M", "P1.5Y", "1", "1-12", "P999999999Y"])
def test_texts_that_are_no_months(text: str) -> None:
    with pytest.raises(ValueError, match="interval"):
        months_of(text)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT id, make_interval(1, 2, 0, 3) AS c FROM T", "B3044"),
        ("SELECT id, array(i) AS c FROM T", "B3044"),
        ("SELECT collect_list(i) AS c FROM T", "B3044"),
        (
            "FROM T AS g WINDOW BY w PARTITION BY g.k ORDER BY g.id TYPE SLIDING START AS s WHEN s.id < 5 END SELECT "
            "s.i",
            "B3044",
        ),
        ("SELECT id, i + d AS c FROM T", "B3002"),
        ("SELECT id FROM T WHERE i > d", "B3002"),
        ("SELECT id, CAST(i AS INT) AS c FROM T", "B3002"),
        ("SELECT id, extract(DAY FROM i) AS c FROM T", "B3048"),
        ("SELECT id, extract(MONTH FROM d) AS c FROM T", "B3048"),
    ],
)
def test_what_months_are_not(query: str, code: str) -> None:
    found = [d.code for d in compile_script(f"{SCRIPT}V := {query};").diagnostics if d.severity == "error"]
    assert found == [code]
