"""A FULL join whose sides' keys may be NULL: a row without its other side is told from one of the other side."""

from __future__ import annotations

from random import Random
from typing import Any

from belvedere.workbench.workbench import Workbench

from .test_recomputation import same_rows

SCRIPT = """
CREATE TABLE Sales (id INT PRIMARY KEY, b STRING, x INT);
Alike := SELECT l.b AS left_b, r.b AS right_b, l.n, r.m FROM (SELECT b, count(*) AS n FROM Sales GROUP BY b) AS l
         FULL JOIN (SELECT b, sum(x) AS m FROM Sales GROUP BY b) AS r ON l.b = r.b;
Unshown := SELECT l.n, r.m FROM (SELECT b, count(*) AS n FROM Sales GROUP BY b) AS l
           FULL JOIN (SELECT b, sum(x) AS m FROM Sales GROUP BY b) AS r ON l.b = r.b AND l.n > 1;
"""


def test_rows_without_another_side_are_apart(executor: Any) -> None:
    random = Random(3)
    wb = Workbench(SCRIPT, spark=executor)
    try:
        for _ in range(4):
            for _ in range(4):
                row = {
                    "id": random.randrange(8),
                    "b": random.choice([None, "x", "y"]),
                    "x": random.choice([None, 1, 2]),
                }
                wb.insert("Sales", [row])
            wb.delete("Sales", [{"id": random.randrange(8)}])
            wb.step()
            for name, batch in wb.batches(wb.catalog.views).items():
                assert same_rows(wb.rows(name), batch), name
            nulls = [r for r in wb.rows("Alike") if r["left_b"] is None and r["right_b"] is None]
            assert len(nulls) in (0, 2)  # the group of NULL is on both sides, and meets nobody
    finally:
        wb.close()
