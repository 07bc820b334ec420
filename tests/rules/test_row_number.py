"""Filtered row numbers are maintained as top-k: the same rows and changes as with the window function."""

from __future__ import annotations

import random
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.pipeline.choose import maintain, without
from belvedere.workbench.workbench import Workbench

STREAMS = """
CREATE STREAM _A (id INT, g INT, v DOUBLE);
CREATE STREAM _B (id INT, w INT);
CREATE TABLE T (id INT PRIMARY KEY, g INT, v DOUBLE);
"""
NUMBER = "row_number() OVER (PARTITION BY g ORDER BY v DESC)"
FIRST = {
    "One": f"SELECT id, g, place FROM (SELECT *, {NUMBER} AS place FROM _A) WHERE place = 1",
    "Doubled": f"SELECT id, place * 2 AS twice FROM (SELECT *, {NUMBER} AS place FROM _A) WHERE 1 >= place AND id > 2",
    "Two": f"SELECT id, v FROM _A QUALIFY {NUMBER} <= 2",
    "Three": f"SELECT id AS n FROM (SELECT id, {NUMBER} AS place FROM _A) WHERE place < 4 AND id <> 3",
    "Joined": "SELECT a.id, b.w FROM _A a JOIN _B b ON a.id = b.id QUALIFY row_number() OVER (PARTITION BY a.id ORDER "
    "BY b.w, a.v) = 1",
    "Shown": f"SELECT id, {NUMBER} AS place FROM _A QUALIFY place <= 2",
    "Second": f"SELECT id FROM _A QUALIFY {NUMBER} = 2",
    "Odd": f"SELECT id FROM (SELECT *, {NUMBER} AS place FROM _A) WHERE place <= 3 AND place <> 2",
}
OTHERS = {
    "Either": f"SELECT id, place FROM (SELECT *, {NUMBER} AS place FROM _A) WHERE place = 1 OR place = 3",
    "Alone": "SELECT id FROM _A QUALIFY row_number() OVER (ORDER BY v) = 1",
    "Changing": f"SELECT id FROM T QUALIFY {NUMBER} = 1",
    "Ranked": "SELECT id FROM _A QUALIFY rank() OVER (PARTITION BY g ORDER BY v) = 1",
}
SCRIPT = STREAMS + "".join(f"{name} := {query};\n" for name, query in (FIRST | OTHERS).items())


def test_first_rows_are_maintained_by_top() -> None:
    for name, query in (FIRST | OTHERS).items():
        pipeline = maintain(compile_script(f"{STREAMS}{name} := {query};").catalog)
        assert ("top" in {s.rule for s in pipeline.stages}) is (name in FIRST), name


@pytest.mark.thorough
def test_rows_and_changes_are_those_of_the_window_function(executor: Any) -> None:
    chance = random.Random(3)
    benches = [Workbench(SCRIPT, spark=executor, options=o) for o in (None, without("row number"), None)]
    for epoch in range(4):
        benches[2].engine.compute.small = 0  # as with many rows
        a = [
            {
                "id": chance.randrange(9),
                "g": chance.choice([1, 2, None]),
                "v": chance.choice([1.0, 2.0, None, float("nan")]),
            }
        ]
        a += [{**a[0], "id": chance.randrange(9)} for _ in range(3 if epoch else 0)]
        b = [{"id": chance.randrange(9), "w": chance.randrange(3)} for _ in range(4)]
        changed = []
        for wb in benches:
            wb.insert("_A", a)
            wb.insert("_B", b)
            wb.insert("T", [{"id": r["id"], "g": 1, "v": r["v"]} for r in a])
            wb.step()
            if epoch == 1:
                wb.restart()
            changed.append({n: sorted(map(repr, wb.changes(n))) for n in FIRST})
            for name, batch in wb.batches(FIRST).items():
                assert sorted(map(repr, wb.rows(name))) == sorted(map(repr, batch)), (name, epoch)
        if epoch != 1:
            assert changed[0] == changed[1] == changed[2]
    for wb in benches:
        wb.close()
