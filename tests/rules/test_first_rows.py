"""First rows of what comes and goes: kept from a stored few, and read anew only when too few of these are left."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.pipeline.choose import maintain, without
from belvedere.pipeline.explain import explain
from belvedere.rules.options import Options
from belvedere.rules.top_k import first as first_rows
from belvedere.rules.top_k.first import FirstStage
from belvedere.workbench.workbench import Workbench
from tests.depth import STORES_AND_SEEDS
from tests.rules.test_recomputation import same_rows

SCRIPT = """
CREATE TABLE Sales (id INT PRIMARY KEY, a INT, b STRING, d DOUBLE);
CREATE TABLE Names (b STRING PRIMARY KEY, n INT);
Least := SELECT id, a FROM Sales ORDER BY a, id LIMIT 3;
Middle := SELECT id, b FROM Sales WHERE a > 1 ORDER BY b DESC NULLS FIRST LIMIT 2 OFFSET 2;
One := SELECT id, d FROM Sales ORDER BY d DESC, a LIMIT 1;
Joined := SELECT s.id, n.n, s.d * 2 AS twice FROM Sales s JOIN Names n ON n.b = s.b ORDER BY abs(n.n), s.d LIMIT 3;
Ranked := SELECT b, sum(a) AS total FROM Sales GROUP BY b ORDER BY total DESC, b LIMIT 2;
Beyond := SELECT id FROM Sales WHERE b = 'x' ORDER BY id LIMIT 50;
Counted := SELECT count(*) AS n, sum(a) AS a FROM (SELECT a FROM Sales ORDER BY id DESC LIMIT 4) AS l;
Rest := SELECT id FROM Sales ORDER BY id OFFSET 3;
Many := SELECT id FROM Sales ORDER BY id LIMIT 9999 OFFSET 2;
After := SELECT d, b FROM Sales WHERE a > 0 ORDER BY d DESC, b OFFSET 1;
"""
OFF = without("first", "top", "offset")


def test_first_rows_are_chosen_and_explained() -> None:
    catalog = compile_script(SCRIPT).catalog
    for options, expected in ((Options(), True), (OFF, False)):
        pipeline = maintain(catalog, options)
        chosen = {s.owner for s in pipeline.stages if s.rule == "first"}
        assert chosen == (
            {"Least", "Middle", "One", "Joined", "Ranked", "Beyond", "Counted", "Rest", "Many", "After"}
            if expected
            else set()
        )
    reported = next(e for e in explain(catalog, maintain(catalog)) if e.name == "Middle")
    (stage,) = (s for s in reported.stages if s.rule == "first")
    assert stage.reason == "the first 4 and up to 1000 more: all rows are read when fewer than 4 are left"
    (state,) = (s for s in reported.state if s.relation == stage.output)
    assert state.bound == "at most 1,004 rows"


def change(wb: Workbench, random: Random, rows: int, deletions: int) -> None:
    pick = random.choice
    for _ in range(rows):
        row = {"id": random.randrange(40), "a": pick([None, 0, 1, 2, 3]), "b": pick([None, "x", "y", "é", "~"])}
        wb.insert("Sales", [row | {"d": pick([None, 0.0, -0.0, float("nan"), 1.5, float("inf")])}])
    wb.insert("Names", [{"b": pick(["x", "y", "é"]), "n": random.randrange(-3, 4)}])
    wb.delete("Sales", [{"id": random.randrange(40)} for _ in range(deletions)])


@pytest.mark.parametrize(("each_store", "seed"), STORES_AND_SEEDS, indirect=["each_store"])
def test_first_rows_equal_the_batch_answer(
    executor: Any, each_store: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With so few rows to follow that they are used up often, and not always."""
    monkeypatch.setattr(first_rows, "MORE", 2)
    read: list[str] = []
    read_all = FirstStage._read_all
    monkeypatch.setattr(
        FirstStage, "_read_all", lambda stage, work: (read.append(stage.owner), read_all(stage, work))[1]
    )
    random, wb = Random(seed), Workbench(SCRIPT, spark=executor)
    stages = sum(s.rule == "first" for s in wb.pipeline.stages)
    epochs = 6 if seed == 1 else 20
    try:
        for epoch in range(epochs):
            change(wb, random, rows=[0, 30, 3, 6][min(epoch, 3)], deletions=random.choice([0, 2, 8]))
            wb.step()
            for name, batch in wb.batches(wb.catalog.views).items():
                assert same_rows(wb.rows(name), batch), (epoch, name, wb.rows(name), batch)
            if epoch % 3 == 1:
                wb.restart()
        assert stages < len(read) < stages * epochs
    finally:
        wb.close()


def test_all_rows_are_read_only_when_too_few_are_left(executor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_rows, "MORE", 3)
    read: list[str] = []
    read_all = FirstStage._read_all
    monkeypatch.setattr(
        FirstStage, "_read_all", lambda stage, work: (read.append(stage.owner), read_all(stage, work))[1]
    )
    script = "CREATE TABLE T (id INT PRIMARY KEY, x INT); Least := SELECT id, x FROM T ORDER BY x LIMIT 2;"
    wb = Workbench(script, spark=executor)

    def step(rows: dict[int, int], gone: list[int], shown: list[int], reads: int) -> None:
        wb.insert("T", [{"id": n, "x": x} for n, x in rows.items()])
        wb.delete("T", [{"id": n} for n in gone])
        wb.step()
        assert [r["id"] for r in sorted(wb.rows("Least"), key=lambda r: r["x"])] == shown
        assert len(read) == reads

    try:
        step({1: 10}, [], [1], 1)
        step({2: 20, 3: 30}, [], [1, 2], 1)  # all there are, so all that come are known
        step({4: 40, 5: 50, 6: 60, 7: 70}, [], [1, 2], 1)  # 6 and 7 are over the limit
        step({8: 80}, [1, 2], [3, 4], 1)  # 3, 4 and 5 are left
        step({7: 5}, [], [7, 3], 1)
        step({7: 90}, [], [3, 4], 1)
        step({}, [3], [4, 5], 1)
        step({}, [4], [5, 6], 2)  # 5 alone is left: all are read, and 5, 6, 8 and 7 kept
        wb.restart()
        step({9: 1}, [5, 6], [9, 8], 2)
        step({}, [9, 8, 7], [], 2)
        step({10: 1}, [], [10], 2)
    finally:
        wb.close()
