"""Window functions with unbounded preceding frames: a change continues from the row before, with batch's digits."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from belvedere import Workbench
from belvedere.compiler import compile_script
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.engine.stage import Stage
from belvedere.engine.work import Work
from belvedere.pipeline.choose import maintain, without
from belvedere.rules.frames import affected_rows as frame_reach
from belvedere.rules.key_ranges import Spans
from belvedere.rules.keyed import KeyedStage
from belvedere.rules.options import Options
from tests.depth import STORES_AND_SEEDS
from tests.rules.batch_answers import are_batch_answers, epochs

TABLE = """CREATE TABLE T (k INT, g INT, n INT, t TIMESTAMP, s STRING, x INT, b BIGINT, d DOUBLE, c DECIMAL(12, 2),
    y DECIMAL(38, 10),
  PRIMARY KEY (k));
"""


def kept(query: str, options: Options | None = None) -> Stage:
    """The stage of the window functions."""
    compiled = compile_script(f"{TABLE}V := {query};")
    assert compiled.ok, compiled.diagnostics
    return next(s for s in maintain(compiled.catalog, options).stages if s.owner == "V")


@pytest.mark.parametrize(
    "function",
    [
        "sum(x) OVER (ORDER BY n)",
        "sum(b) OVER (PARTITION BY g ORDER BY t, n DESC)",
        "sum(c) OVER (ORDER BY n DESC)",
        "sum(d) OVER (ORDER BY n ROWS UNBOUNDED PRECEDING)",
        "sum(d) OVER (ORDER BY n, k)",
        "sum(x) FILTER (WHERE x > 2) OVER (ORDER BY n)",
        "sum(x) OVER (ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)",
        "avg(x) OVER (ORDER BY n)",
        "avg(d) OVER (ORDER BY n ROWS UNBOUNDED PRECEDING)",
        "count(*) OVER (ORDER BY n)",
        "min(s) OVER (ORDER BY n)",
        "row_number() OVER (ORDER BY n)",
        "rank() OVER (ORDER BY n)",
        "dense_rank() OVER (PARTITION BY g ORDER BY n)",
        "first_value(s) OVER (ORDER BY n)",
        "first(s) OVER (ORDER BY n ROWS UNBOUNDED PRECEDING)",
        "last_value(s) IGNORE NULLS OVER (ORDER BY n ROWS UNBOUNDED PRECEDING)",
    ],
)
def test_what_is_continued(function: str) -> None:
    stage = kept(f"SELECT k, {function} AS r FROM T")
    assert stage.rule == "running"
    assert "continue the results of the row before" in stage.reason
    assert kept(f"SELECT k, {function} AS r FROM T", without("running")).rule != "running"
    assert kept(f"SELECT k, {function} AS r FROM T", without("windows", "frames", "running")).rule != "running"


@pytest.mark.parametrize(
    ("functions", "why"),
    [
        ("ntile(4) OVER (ORDER BY n) AS a", "ntile is computed from all rows of its frame"),
        ("percent_rank() OVER (ORDER BY n) AS a", "percent_rank is computed from all rows of its frame"),
        ("stddev(x) OVER (ORDER BY n) AS a", "stddev is computed from all rows of its frame"),
        ("sum(x) OVER (PARTITION BY g) AS a", "sum has no ORDER BY"),
        ("sum(x) OVER (ORDER BY s) AS a", "the order is not by a whole number, a date or a time"),
        ("sum(x) OVER (ORDER BY n NULLS LAST) AS a", "NULLs are sorted beside the greatest values"),
        (
            "sum(x) OVER (ORDER BY n ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS a",
            "sum is computed from all rows of its frame",
        ),
        (
            "sum(x) OVER (ORDER BY n) AS a, count(x) OVER (ORDER BY t) AS b",
            "its functions differ in PARTITION BY or ORDER BY",
        ),
        ("sum(x) OVER (ORDER BY n) AS a, rank() OVER (ORDER BY n DESC NULLS LAST) AS b", "its functions differ"),
        ("rank() OVER (ORDER BY n, x) AS a, rank() OVER (ORDER BY n, t) AS b", "its functions differ in ORDER BY"),
        ("sum(d) OVER (ORDER BY n) AS a", "rows of equal ORDER BY are added to a DOUBLE in no fixed order"),
        ("avg(b) OVER (ORDER BY n) AS a", "rows of equal ORDER BY are added to a DOUBLE in no fixed order"),
        ("avg(c) OVER (ORDER BY n) AS a", "an average of decimals is computed from all rows of its frame"),
        ("sum(y) OVER (ORDER BY n) AS a", "is computed from all rows of its frame"),
    ],
)
def test_what_is_not_continued_says_why(functions: str, why: str) -> None:
    stage = kept(f"SELECT k, {functions} FROM T")
    assert stage.rule != "running"
    assert why in stage.reason


SCRIPT = (
    TABLE
    + """
CREATE STREAM _S (g INT, n BIGINT, x INT);
CREATE TABLE Names (g INT, name STRING, PRIMARY KEY (g));
Running := SELECT k, sum(x) OVER w AS a, count(x) OVER w AS b, min(x) OVER w AS m, max(s) OVER w AS o,
    avg(x) OVER w AS e,
                  sum(c) OVER w AS c, sum(x) FILTER (WHERE x > 2) OVER w AS f FROM T WINDOW w AS (PARTITION BY g
                      ORDER BY n);
Alone := SELECT *, sum(b) OVER (ORDER BY t) AS a FROM T;
Places := SELECT k, row_number() OVER w AS a, rank() OVER w AS b, dense_rank() OVER w AS c FROM T
    WINDOW w AS (ORDER BY n);
Keys := SELECT k, rank() OVER w AS a, dense_rank() OVER w AS b, sum(x) OVER w AS c, row_number() OVER w AS d
        FROM T WINDOW w AS (PARTITION BY g ORDER BY n, x DESC);
Ordered := SELECT k, n, sum(d) OVER w AS a, avg(d) OVER w AS b, avg(b) OVER w AS c, min(d) OVER w AS m,
    max(d) OVER w AS o,
                first_value(s) OVER w AS f, first_value(s) IGNORE NULLS OVER w AS h, last_value(s) OVER w AS l,
                last_value(s) IGNORE NULLS OVER w AS i, avg(d) FILTER (WHERE x > 1) OVER w AS j
        FROM T WINDOW w AS (PARTITION BY g ORDER BY n ROWS UNBOUNDED PRECEDING);
Down := SELECT k, sum(d) OVER w AS a, row_number() OVER w AS r, count(*) OVER (ORDER BY n DESC) AS c
        FROM T WINDOW w AS (ORDER BY n DESC ROWS UNBOUNDED PRECEDING);
Before := SELECT k, sum(d) OVER (ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING) AS a,
                 avg(x) OVER (ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING) AS b,
                 first_value(s) OVER (ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS f,
                 max(x) OVER (ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS m FROM T;
Mixed := SELECT k, sum(x) OVER w AS a, lag(x) OVER w AS b, lead(x, 2) OVER w AS c, first_value(x) OVER w AS f,
                count(x) OVER (PARTITION BY g ORDER BY n RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS d
         FROM T WINDOW w AS (PARTITION BY g ORDER BY n);
Kept := SELECT k, count(*) OVER (ORDER BY n) AS c FROM T QUALIFY c > 3;
Least := SELECT k, count(*) OVER (PARTITION BY g ORDER BY n, x) AS c FROM T QUALIFY row_number() OVER (PARTITION BY g
    ORDER BY n, x) < 3;
Some := SELECT k, sum(x) OVER (ORDER BY n) AS a, sum(d) OVER (ORDER BY n ROWS UNBOUNDED PRECEDING) AS b FROM T
    WHERE x > 2;
Stream := SELECT g, n, x, sum(x) OVER (PARTITION BY g ORDER BY n) AS a FROM _S;
Joined := SELECT t.k, m.name, sum(t.x) OVER (PARTITION BY m.name ORDER BY t.n) AS a FROM T t JOIN Names m ON m.g = t.g;
"""
)
VIEWS = ("Running", "Alone", "Places", "Keys", "Ordered", "Down", "Before", "Mixed", "Kept", "Some", "Stream", "Joined")


def row(random: Random, keys: int = 50, least: int = 0) -> dict[str, Any]:
    minute = random.choice([None, *range(12)])
    return {
        "k": random.randint(1, keys),
        "g": random.choice([None, 1, 1, 2]),
        "n": random.choice([None, *range(15)]) if not least else random.randint(least, least + 2),
        "t": None if minute is None else f"2024-02-29 12:{minute:02}:00",
        "s": random.choice([None, "", "a", "é", "日本"]),
        "x": random.choice([None, 1, 2, 3, 4]),
        "b": random.choice([None, 1, -(2**53), 2**53 + 1]),
        "d": random.choice(
            [None, 0.1, 0.2, 0.7, 1e16, -1e16, 1e-3, *([float("nan")] if random.random() < 0.03 else [])]
        ),
        "c": random.choice([None, "0.10", "9999999999.99"]),
        "y": None,
    }


def test_the_views_are_continued_where_that_is_asked_for() -> None:
    catalog = compile_script(SCRIPT).catalog
    assert {s.owner for s in maintain(catalog).stages if s.rule == "running"} == set(VIEWS)
    (least,) = (
        s for s in maintain(catalog).stages if s.output == "Least"
    )  # of few rows a partition the others are not stored
    assert least.reason == "key by key: `T.g`; a condition on its results leaves rows out"
    assert not [s for s in maintain(catalog, without("running")).stages if s.rule == "running"]


@pytest.mark.spark
@pytest.mark.parametrize(("each_store", "seed"), STORES_AND_SEEDS, indirect=["each_store"])
def test_views_equal_their_batch_answer(
    spark: Any, each_store: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame_reach, "MIN_ROWS", 0)
    random = Random(seed)
    wb = Workbench(SCRIPT, options=Options(cost=False))
    for epoch in range(epochs(seed)):
        late = 8 + epoch if epoch and random.random() < 0.6 else 0  # rows at the end, or anywhere
        wb.insert("T", [row(random, least=late) for _ in range(30 if epoch == 0 else random.randint(0, 3))])
        wb.insert("_S", [{n: random.randint(1, 9) for n in ("g", "n", "x")} for _ in range(random.randint(0, 4))])
        wb.insert(
            "Names", [{"g": random.randint(1, 2), "name": random.choice(["a", "b", "日本"])} for _ in range(epoch % 2)]
        )
        if epoch:
            wb.delete("T", [{"k": random.randint(1, 50)} for _ in range(random.randint(0, 2))])
        wb.step()
        are_batch_answers(wb, (*VIEWS, "Least"), epoch)
        if epoch == 1 or random.random() < 0.3:
            wb.restart()
    wb.close()


def test_rows_at_the_end_read_few_rows(executor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    rows = Spans.rows

    def counted(*given: Any) -> pa.Table:
        found = rows(*given)
        read.append(found.num_rows)
        return found

    monkeypatch.setattr(Spans, "rows", counted)
    wb = Workbench(
        "CREATE TABLE T (k INT, x INT, PRIMARY KEY (k));\n"
        "V := SELECT k, sum(x) OVER (ORDER BY k) AS s, rank() OVER (ORDER BY k) AS r FROM T;"
    )
    wb.insert("T", [{"k": k, "x": 1} for k in range(2_000)])
    wb.step()
    assert read == []  # the first epoch is a batch
    wb.insert("T", [{"k": 2_000, "x": 5}, {"k": 2_001, "x": 5}])
    wb.step()
    assert read == [1, 2]  # the row before, and the new ones
    assert sorted((r["k"], r["s"], r["r"], w) for r, w in wb.changes("V")) == [
        (2000, 2005, 2001, 1),
        (2001, 2010, 2002, 1),
    ]
    read.clear()
    wb.delete("T", [{"k": 1_990}])
    wb.step()
    assert read == [1, 11]
    assert sum(w for _, w in wb.changes("V")) == -1
    are_batch_answers(wb, ["V"], 2)
    keyed: list[str] = []

    run_keys = KeyedStage.run_keys

    def key_by_key(stage: KeyedStage, work: Work) -> Rows | None:
        keyed.append(stage.owner)
        return run_keys(stage, work)

    monkeypatch.setattr(KeyedStage, "run_keys", key_by_key)
    wb.insert("T", [{"k": 1_900, "x": 7}])
    wb.step()
    assert keyed == []
    wb.insert("T", [{"k": 5, "x": 7}])  # nearly all rows follow it
    wb.step()
    assert keyed == ["V"]
    are_batch_answers(wb, ["V"], 4)
    wb.close()


def test_what_nobody_sees_makes_no_event(executor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_reach, "MIN_ROWS", 0)
    wb = Workbench(
        "CREATE TABLE T (k INT, x INT, PRIMARY KEY (k));\n"
        "V := SELECT k, max(x) OVER (ORDER BY k) AS m FROM T;\n"
        "CREATE SUBSCRIPTION Changed ON CHANGE AS SELECT * FROM V;",
        options=Options(cost=False),
    )
    wb.insert("T", [{"k": k, "x": 10 - k} for k in range(1, 6)])
    wb.step()
    wb.delete("T", [{"k": 2}])  # the numbers of the rows behind it change, and nothing that is shown
    wb.step()
    assert [(r["k"], w) for r, w in wb.changes("V")] == [(2, -1)]
    wb.insert("T", [{"k": 2, "x": 20}])
    wb.step()
    are_batch_answers(wb, ["V"], 3)
    assert sorted(r["k"] for r, w in wb.changes("V") if w > 0) == [2, 3, 4, 5]
    wb.close()


@pytest.mark.spark
def test_a_sum_overflows_where_it_does_in_batch(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_reach, "MIN_ROWS", 0)
    wb = Workbench(
        "CREATE TABLE T (k INT, b BIGINT, PRIMARY KEY (k));\nV := SELECT k, sum(b) OVER (ORDER BY k) AS s FROM T;",
        options=Options(cost=False),
    )
    wb.insert("T", [{"k": 1, "b": -(2**62)}, {"k": 2, "b": -(2**62)}])
    wb.step()
    wb.insert("T", [{"k": 3, "b": 2**63 - 1}, {"k": 4, "b": 2**62}])  # more than a BIGINT by themselves
    wb.step()
    are_batch_answers(wb, ["V"], 2)
    wb.close()


def test_a_store_goes_on_under_other_rules_and_another_script(
    executor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hidden columns come and go with the rule, and with the functions."""
    monkeypatch.setattr(frame_reach, "MIN_ROWS", 0)
    url = f"sqlite:///{tmp_path}/store.db"
    table = "CREATE TABLE T (k INT PRIMARY KEY, n INT, x INT);"
    total = "V := SELECT k, avg(x) OVER (ORDER BY n) AS a FROM T; Top := SELECT k FROM V WHERE a > 2;"
    given: list[int] = []
    for number, (script, options) in enumerate(
        [
            (total, without("running")),
            (total, Options()),
            (total.replace("avg", "max"), Options()),
            (total, Options()),
            (total, without("running")),
        ]
    ):
        wb = Workbench(table + script, url, spark=executor, options=options)
        for epoch in range(2):
            given.append(2 * number + epoch + 1)
            wb.insert("T", [{"k": given[-1], "n": given[-1], "x": given[-1]}])
            wb.step()
        found = {r["k"]: r["a"] for r in wb.rows("V")}
        requested = {k: max(given[:k]) if "max" in script else sum(given[:k]) / k for k in given}
        assert found == requested, number
        assert {r["k"] for r in wb.rows("Top")} == {k for k, a in requested.items() if a > 2}
        wb.close()
