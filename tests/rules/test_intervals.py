"""Columns of day-time intervals: each view equals batch after each epoch, on both stores; the API shows ISO 8601."""

from __future__ import annotations

import random
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from belvedere import Workbench
from belvedere.values.intervals import interval_of, iso_text
from tests import depth

SCRIPT = """
CREATE TABLE T (id INT, k INT, a TIMESTAMP, b TIMESTAMP, i INTERVAL DAY TO SECOND, PRIMARY KEY (id));
CREATE STREAM E (k INT, t TIMESTAMP, i INTERVAL DAY TO SECOND);
Difference := SELECT id, a - b AS d, i + (a - b) AS s, i * 2 AS t, a + i AS u, -i AS n FROM T;
Groups := SELECT i, count(*) AS n FROM T GROUP BY i;
Totals := SELECT k, sum(i) AS s, min(i) AS lo, max(i) AS hi, avg(i) AS m, count(DISTINCT i) AS n FROM T GROUP BY k;
Streamed := SELECT k, sum(i) AS s, avg(i) AS m, median(i) AS middle, max(i) AS hi FROM E GROUP BY k;
Pairs := SELECT l.id, r.id AS other, l.i FROM T l JOIN T r ON l.i = r.i;
Longest := SELECT id, i FROM T ORDER BY i DESC, id LIMIT 3;
Running := SELECT id, lag(i) OVER (PARTITION BY k ORDER BY id) AS p, sum(i) OVER (PARTITION BY k ORDER BY id) AS q
    FROM T;
Nested := SELECT id, array(i) AS xs, struct(i) AS st FROM T;
Past := SELECT id, i FROM T WITH HISTORY;
Parts := SELECT id, extract(DAY FROM i) AS d, extract(HOUR FROM i) AS h, extract(SECOND
    FROM i) AS s, CAST(i AS STRING) AS t,
  CAST(CAST(i AS INTERVAL SECOND) AS BIGINT) AS whole FROM T;
Made := SELECT id, make_dt_interval(1, 2, 3, 4.5) AS m, CAST('1 02:00:00' AS INTERVAL DAY TO SECOND) AS c,
  CASE WHEN i > INTERVAL '1' HOUR THEN i ELSE INTERVAL '0' SECOND END AS w FROM T;
At(x INTERVAL DAY TO SECOND = 'PT1H') := SELECT id, i FROM T WHERE i >= :x AND i < INTERVAL '3' DAY ORDER BY i;
"""
VIEWS = "Difference Groups Totals Streamed Pairs Longest Running Nested Past Parts Made".split()
START = datetime(2026, 1, 1, tzinfo=UTC)
LENGTHS = [timedelta(0), timedelta(days=1, seconds=3), timedelta(hours=2), timedelta(days=-2, microseconds=5), None]


def _row(choice: random.Random, id_: int) -> dict[str, Any]:
    times = [START + timedelta(seconds=choice.randrange(-(10**6), 10**6)) for _ in "ab"]
    return {"id": id_, "k": choice.randrange(2), "a": times[0], "b": times[1], "i": choice.choice(LENGTHS)}


def _in_any_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(str, rows))


@pytest.mark.spark
@pytest.mark.parametrize(
    "store", ["sqlite", pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.nightly])]
)
def test_views_of_intervals_are_what_batch_says(store: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("postgres_url") if store == "postgres" else "sqlite://"
    choice = random.Random(7)
    with closing(Workbench(SCRIPT, store=url)) as bench:
        for epoch in range(2 if depth.quick else 3):
            bench.insert("T", [_row(choice, id_) for id_ in choice.sample(range(8), 4)])
            bench.insert("E", [{"k": choice.randrange(2), "i": choice.choice(LENGTHS)}])
            bench.step()
            for view, batch in bench.batches(VIEWS).items():
                assert _in_any_order(bench.rows(view)) == _in_any_order(batch), (epoch, view)
            if epoch == 0:
                bench.restart()
        bench.insert(
            "T", [{"id": 0, "k": 5, "a": START, "b": START, "i": "P1DT2H0.5S"}, {"id": 9, "k": 5, "i": "-1 00:00:01"}]
        )
        bench.step()
        _asked(bench)


def _asked(bench: Workbench) -> None:
    made = bench.graphql("{ made(filter: {id: {eq: 0}}) { m c w } }")["data"]["made"]
    assert made == [{"m": "P1DT2H3M4.500000S", "c": "P1DT2H0M0S", "w": "P1DT2H0M0.500000S"}]
    totals = bench.graphql("{ totals(filter: {k: {eq: 5}}) { s lo hi n } }")["data"]["totals"]
    assert totals == [{"s": "P0DT1H59M59.500000S", "lo": "-P1DT0H0M1S", "hi": "P1DT2H0M0.500000S", "n": 2}]
    assert bench.graphql("{ nested(filter: {id: {eq: 9}}) { xs } }")["data"]["nested"] == [{"xs": ["-P1DT0H0M1S"]}]
    long = bench.graphql('{ t(filter: {i: {gt: "P1DT1H"}}, order: {i: DESC}) { id i } }')["data"]["t"]
    assert long[0] == {"id": 0, "i": "P1DT2H0M0.500000S"}
    page = bench.graphql("{ tPage(order: [{i: ASC_NULLS_LAST}], first: 1) { nodes { i } endCursor } }")["data"]["tPage"]
    rest = bench.graphql(
        f'{{ tPage(order: [{{i: ASC_NULLS_LAST}}], after: "{page["endCursor"]}") {{ nodes {{ i }} }} }}'
    )
    reported = [n["i"] for n in (*page["nodes"], *rest["data"]["tPage"]["nodes"])]
    lengths = [interval_of(i) for i in reported if i is not None]
    assert lengths == sorted(lengths)
    assert len(reported) == len(bench.rows("T"))
    assert bench.graphql('{ at(x: "P1DT1H") { id } }')["data"]["at"][-1] == {"id": 0}
    assert "expected an interval" in bench.graphql('{ t(filter: {i: {eq: "1 month"}}) { id } }')["errors"][0]["message"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [("P1W", "P7DT0H0M0S"), ("-PT1H", "-P0DT1H0M0S"), ("PT-0.5S", "-P0DT0H0M0.500000S"), ("1 02:03:04", "P1DT2H3M4S")],
)
def test_texts_of_intervals(text: str, shown: str) -> None:
    assert iso_text(interval_of(text)) == shown
    assert interval_of(shown) == interval_of(text)


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "P1M", "P1Y", "1", "P999999999999D"])
def test_texts_that_are_no_intervals(text: str) -> None:
    with pytest.raises(ValueError, match="interval"):
        interval_of(text)
