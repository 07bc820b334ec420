"""Window functions with bounded frames: a change reads and writes only nearby rows, and views equal batch."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from belvedere import Workbench
from belvedere.compiler import compile_script
from belvedere.pipeline.choose import maintain, without
from belvedere.plan.operators.nodes import Window
from belvedere.rules.frames import affected_rows as frame_reach
from belvedere.rules.frames.frames import frames_of
from belvedere.rules.options import Options
from tests.depth import STORES_AND_SEEDS
from tests.rules.batch_answers import are_batch_answers, epochs

TABLE = "CREATE TABLE T (k INT, g INT, n INT, t TIMESTAMP, d DATE, s STRING, x INT, PRIMARY KEY (k));\n"
MINUTE, DAY = 60_000_000, 86_400_000_000


def frames(*functions: str) -> Any:
    items = ", ".join(f"{f} AS c{n}" for n, f in enumerate(functions))
    compiled = compile_script(f"{TABLE}V := SELECT k, {items} FROM T;")
    assert compiled.ok, compiled.diagnostics
    found = next(n for n in compiled.catalog.views["V"].plan.walk() if isinstance(n, Window))
    reach = frames_of(found, unbounded=False)
    return None if isinstance(reach, str) else reach


@pytest.mark.parametrize(
    ("function", "rows", "values"),
    [
        ("lag(x) OVER (ORDER BY n)", (1, 0), (0, 0)),
        ("lead(x, 3) OVER (PARTITION BY g ORDER BY n)", (0, 3), (0, 0)),
        ("lag(x, -2) OVER (ORDER BY n)", (0, 2), (0, 0)),
        ("lag(x) OVER (ORDER BY n DESC)", (0, 1), (0, 0)),
        ("sum(x) OVER (ORDER BY t ROWS 2 PRECEDING)", (2, 0), (0, 0)),
        ("sum(x) OVER (ORDER BY t ROWS BETWEEN 4 PRECEDING AND 2 PRECEDING)", (4, 0), (0, 0)),
        ("sum(x) OVER (ORDER BY t DESC ROWS BETWEEN 4 PRECEDING AND 1 FOLLOWING)", (1, 4), (0, 0)),
        ("sum(x) OVER (ORDER BY n RANGE BETWEEN 5 PRECEDING AND 1 FOLLOWING)", (0, 0), (5, 1)),
        (
            "sum(x) OVER (ORDER BY t RANGE BETWEEN INTERVAL 5 MINUTES PRECEDING AND CURRENT ROW)",
            (0, 0),
            (5 * MINUTE, 0),
        ),
        ("sum(x) OVER (ORDER BY d RANGE BETWEEN INTERVAL 2 DAYS PRECEDING AND CURRENT ROW)", (0, 0), (2, 0)),
        ("max(x) OVER (ORDER BY n RANGE BETWEEN CURRENT ROW AND CURRENT ROW)", (0, 0), (0, 0)),
    ],
)
def test_how_far_a_frame_reaches(function: str, rows: tuple[int, int], values: tuple[int, int]) -> None:
    found = frames(function)
    assert ((found.rows_below, found.rows_above), (found.least_below, found.least_above)) == (rows, values)


@pytest.mark.parametrize(
    "function",
    [
        "row_number() OVER (ORDER BY n)",
        "rank() OVER (ORDER BY n)",
        "sum(x) OVER (ORDER BY n)",
        "sum(x) OVER (PARTITION BY g)",
        "lag(x) IGNORE NULLS OVER (ORDER BY n)",
        "lag(x) OVER (ORDER BY s)",
        "lag(x) OVER (ORDER BY n NULLS LAST)",
        "lag(x) OVER (ORDER BY n + 1)",
        "sum(x) OVER (ORDER BY t RANGE BETWEEN INTERVAL 1 MONTH PRECEDING AND CURRENT ROW)",
        "sum(x) OVER (ORDER BY n ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
    ],
)
def test_what_sees_more_is_found_by_all_rows_of_its_partition(function: str) -> None:
    assert frames(function) is None


def test_functions_share_the_widest_reach_of_one_order() -> None:
    both = frames(
        "lag(x, 2) OVER (PARTITION BY g ORDER BY n)", "sum(x) OVER (PARTITION BY g ORDER BY n ROWS 5 PRECEDING)"
    )
    assert (both.partition, both.rows_below, both.rows_above) == (("T.g",), 5, 0)
    assert frames("lag(x) OVER (ORDER BY n)", "lag(x) OVER (ORDER BY t)") is None
    assert frames("lag(x) OVER (ORDER BY n)", "lag(x) OVER (PARTITION BY g ORDER BY n)") is None


SCRIPT = """
CREATE TABLE T (k INT, g INT, n INT, t TIMESTAMP, d DATE, x INT, PRIMARY KEY (k));
CREATE STREAM _S (g INT, n BIGINT, x INT);
CREATE TABLE Names (g INT, name STRING, PRIMARY KEY (g));
Rows := SELECT k, g, n, lag(x) OVER w AS a, lead(x, 2) OVER w AS b,
               sum(x) OVER (PARTITION BY g ORDER BY n ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS s
        FROM T WINDOW w AS (PARTITION BY g ORDER BY n);
Alone := SELECT k, lag(x) OVER (ORDER BY t) AS a FROM T;
Back := SELECT k, lag(k) OVER (PARTITION BY g ORDER BY n DESC) AS a,
               min(x) OVER (PARTITION BY g ORDER BY n DESC ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING) AS m FROM T;
Near := SELECT k, sum(x) OVER (PARTITION BY g ORDER BY n RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS s FROM T
    WHERE x > 1;
Times := SELECT k, count(x) OVER (ORDER BY t RANGE BETWEEN INTERVAL 3 MINUTES PRECEDING AND CURRENT ROW) AS c FROM T;
Days := SELECT k, collect_list(x) OVER (PARTITION BY g ORDER BY d ROWS 1 PRECEDING) AS c FROM T;
Kept := SELECT k, g, n, lag(x) OVER (PARTITION BY g ORDER BY n) AS a FROM T QUALIFY a IS NULL OR a > 2;
Some := SELECT k, n, lag(x) OVER w AS a, sum(x) OVER (PARTITION BY g ORDER BY n ROWS 2 PRECEDING) AS s FROM T
    WHERE x > 2
        WINDOW w AS (PARTITION BY g ORDER BY n);
Stream := SELECT g, n, x, x - lag(x) OVER (PARTITION BY g ORDER BY n) AS step FROM _S;
Joined := SELECT t.k, m.name, lag(t.x) OVER (PARTITION BY m.name ORDER BY t.n) AS a FROM T t JOIN Names m ON m.g = t.g;
"""
VIEWS = ("Rows", "Alone", "Back", "Near", "Times", "Days", "Kept", "Some", "Stream", "Joined")


def row(random: Random) -> dict[str, Any]:
    minute = random.choice([None, *range(12)])
    return {
        "k": random.randint(1, 50),
        "g": random.choice([None, 1, 2]),
        "n": random.choice([None, *range(15)]),
        "t": None if minute is None else f"2024-02-29 12:{minute:02}:00",
        "d": random.choice([None, "1969-12-31", "2024-02-29", "2024-03-01"]),
        "x": random.choice([None, 1, 2, 3, 4]),
    }


def test_the_views_are_kept_by_their_frames_where_that_is_asked_for() -> None:
    catalog = compile_script(SCRIPT).catalog
    assert {s.owner for s in maintain(catalog).stages if s.rule in ("frames", "running")} == set(VIEWS)
    assert not [
        s for s in maintain(catalog, without("windows", "frames", "running")).stages if s.rule in ("frames", "running")
    ]


@pytest.mark.parametrize(("each_store", "seed"), STORES_AND_SEEDS, indirect=["each_store"])
def test_views_equal_their_batch_answer(
    executor: Any, each_store: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame_reach, "MIN_ROWS", 0)
    random = Random(seed)
    wb = Workbench(SCRIPT, options=Options(cost=False))
    for epoch in range(epochs(seed)):
        wb.insert("T", [row(random) for _ in range(30 if epoch == 0 else random.randint(0, 3))])
        wb.insert("_S", [{n: random.randint(1, 9) for n in ("g", "n", "x")} for _ in range(random.randint(0, 4))])
        wb.insert(
            "Names", [{"g": random.randint(1, 2), "name": random.choice(["a", "b", "日本"])} for _ in range(epoch % 2)]
        )
        if epoch:
            wb.delete("T", [{"k": random.randint(1, 50)} for _ in range(random.randint(0, 2))])
        wb.step()
        are_batch_answers(wb, VIEWS, epoch)
        if epoch == 1 or random.random() < 0.3:
            wb.restart()
    wb.close()


def test_few_rows_of_a_long_sequence_are_read(executor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    around = frame_reach.partition_neighbourhood

    def counted(*given: Any) -> tuple[pa.Table, pa.Array]:
        found = around(*given)
        read.append(found[0].num_rows)
        return found

    monkeypatch.setattr(frame_reach, "partition_neighbourhood", counted)
    wb = Workbench(
        "CREATE TABLE T (k INT, x INT, PRIMARY KEY (k));\n"
        "V := SELECT k, sum(x) OVER (ORDER BY k ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS s FROM T;"
    )
    wb.insert("T", [{"k": k, "x": 1} for k in range(2_000)])
    wb.step()
    assert read == []  # the first epoch is a batch
    wb.insert("T", [{"k": 1_000, "x": 11}])
    wb.step()
    assert read == [7]  # the results of 999 to 1002, and what they depend on: 997 to 1003
    assert sorted((r["k"], r["s"], w) for r, w in wb.changes("V") if w > 0) == [
        (999, 14, 1),
        (1000, 14, 1),
        (1001, 14, 1),
        (1002, 14, 1),
    ]
    assert sorted(map(str, wb.rows("V"))) == sorted(map(str, wb.batch("V")))
    wb.close()
