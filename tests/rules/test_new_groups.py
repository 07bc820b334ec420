"""Groups of an aggregate that are new, known, removed and new again; changed scripts over rows that are not stored."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from belvedere.workbench.workbench import Workbench
from tests.depth import STORES_AND_SEEDS
from tests.rules.batch_answers import are_batch_answers, epochs

INPUT = "CREATE TABLE T (id INT PRIMARY KEY, g STRING, h INT, a BIGINT, v DOUBLE, d DECIMAL(9, 2), s DECIMAL(2, 1));"
AT_ONCE = {
    "Plain": "SELECT g, count(*) AS n, count(a) FILTER (WHERE h > 1) AS some FROM T GROUP BY g",
    "Sums": "SELECT h % 2 AS odd, v, sum(d) AS total, sum(s) AS small, 'x' AS mark FROM T GROUP BY ALL",
    "Once": "SELECT DISTINCT h, g FROM T",
    "Values": "SELECT g, count(DISTINCT a) AS n, count(DISTINCT v) FILTER (WHERE h > 1) AS vs FROM T GROUP BY g",
}
"""Views whose rows of new groups are computed with the changes of all groups."""
AFTER = {
    "Whole": "SELECT g, sum(a) AS total FROM T GROUP BY g",
    "Means": "SELECT g, h, avg(d) AS mean FROM T GROUP BY g, h",
    "Made": "SELECT upper(g) AS big, 100 / (count(*) + 1) AS part FROM T GROUP BY g",
    "Some": "SELECT g, count(*) AS n FROM T GROUP BY g HAVING count(*) > 1",
}
"""Others: they may fail for changes of which there is no group, or drop rows."""


@pytest.mark.parametrize(("each_store", "seed"), STORES_AND_SEEDS, indirect=["each_store"])
def test_views_are_their_batch_answers(each_store: str, seed: int, executor: Any) -> None:
    chance = random.Random(seed)
    views = AT_ONCE | AFTER
    wb = Workbench(INPUT + "".join(f"{n} := {q};\n" for n, q in views.items()), spark=executor)
    assert {p.output.name for _, p in wb.engine.stages if "first" in p.sql and p.output.view} - {"T"} == set(AT_ONCE)
    known: dict[int, dict[str, Any]] = {}
    for epoch in range(epochs(seed)):
        # few groups at first, others later: some epochs have new ones alone, some none
        rows = {
            id_: {
                "id": id_,
                "g": chance.choice([None, "", "ß", f"e{epoch}", f"e{epoch}", f"e{max(0, epoch - 1)}"]),
                "h": chance.choice([None, 1, 2, 3]),
                "a": chance.choice([None, -7, 2**59, epoch]),
                "v": chance.choice([None, float("nan"), 0.0, -0.0, float(epoch)]),
                "d": chance.choice([None, "1.25", "-9999999.99", "3"]),
                "s": chance.choice([None, "9.9", "-9.9", "0.1"]),
            }
            for id_ in (chance.randrange(12) for _ in range(chance.randrange(1, 6)))
        }
        gone = [known.pop(id_) for id_ in list(known) if id_ not in rows and chance.random() < 0.5]
        if gone:
            wb.delete("T", gone)
        wb.insert("T", list(rows.values()))
        known |= rows
        wb.step()
        are_batch_answers(wb, views, epoch)
        if chance.random() < 0.3:
            wb.restart()
    wb.close()


@pytest.mark.thorough
def test_what_would_fail_for_the_changes_alone_does_not(executor: Any) -> None:
    views = {
        "Parts": "SELECT g, 100 / (count(*) - 5) AS part FROM T GROUP BY g",
        "Whole": "SELECT g, sum(a) AS total FROM T GROUP BY g",
    }
    wb = Workbench(INPUT + "".join(f"{n} := {q};\n" for n, q in views.items()), spark=executor)
    wb.insert("T", [{"id": 0, "g": "x", "a": -(2**62)}])
    wb.step()
    wb.insert("T", [{"id": id_, "g": "x", "a": 2**62 if id_ < 3 else 0} for id_ in range(1, 6)])
    wb.step()
    wb.insert("T", [{"id": id_, "g": "x", "a": 2**61} for id_ in range(1, 3)])
    wb.step()
    are_batch_answers(wb, views, 3)
    wb.close()


DISTINCT = """
CREATE STREAM _Visits (page STRING, visitor INT, at INT);
V := SELECT page, count(DISTINCT visitor) AS n FROM _Visits GROUP BY page;
"""


def test_a_changed_script_finds_rows_that_are_not_stored(executor: Any, tmp_path: Path) -> None:
    """The values that are counted lie in the state of the stage that finds them: a changed view over them is made of
    that."""
    url, changed = f"sqlite:///{tmp_path}/store.db", DISTINCT.replace("AS n FROM", "* 10 AS n FROM")
    visits = [
        [("a", 1), ("a", 1), ("a", 2), ("b", 1)],
        [("a", 2), ("a", 3), ("c", 1)],
        [("b", 1), ("b", 4)],
        [("a", 3), ("d", 1)],
    ]
    scripts = [DISTINCT, changed, changed, changed + "W := SELECT count(*) AS pages FROM V;"]
    for part, (script, rows) in enumerate(zip(scripts, visits, strict=True)):
        wb = Workbench(script, url, spark=executor)
        assert not wb.engine.pipeline.relations["_Visits"].stored
        wb.insert("_Visits", [{"page": p, "visitor": v} for p, v in rows])
        wb.step()
        so_far = {r for earlier in visits[: part + 1] for r in earlier}
        counts = {p: sum(q == p for q, _ in so_far) * (10 if part else 1) for p, _ in so_far}
        assert {r["page"]: r["n"] for r in wb.rows("V")} == counts
        if part < len(scripts) - 1:
            wb.close()
    assert wb.rows("W") == [{"pages": 4}]
    wb.close()
