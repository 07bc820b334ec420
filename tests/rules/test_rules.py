"""Grouping sets, first rows and the choice by cost: the cheaper rules are chosen, and change nothing."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.pipeline.choose import maintain, plain
from belvedere.rules.options import Options
from belvedere.workbench.workbench import Workbench
from tests import depth
from tests.rules.test_recomputation import same_rows

SCRIPT = """
CREATE TABLE Sales (id INT PRIMARY KEY, a INT, b STRING, x INT, d DOUBLE);
CREATE STREAM Visits (a INT, x INT);
CREATE TABLE Shops (a INT PRIMARY KEY, name STRING);
Rolled := SELECT a, b, sum(x) AS s, count(*) AS n, grouping_id(a, b) AS g FROM Sales GROUP BY ROLLUP(a, b);
Cubed := SELECT a, upper(b) AS u, median(x) AS m, grouping(a) AS no_a FROM Sales GROUP BY CUBE(a, upper(b))
    HAVING count(*) > 1;
Some := SELECT a, x % 2 AS odd, max(d) AS d, count(DISTINCT b) AS n FROM Sales
    GROUP BY GROUPING SETS ((a, x % 2), (a), (x % 2));
Parted := SELECT b, a, avg(x) AS x FROM Sales GROUP BY b, ROLLUP(a);
Nested := SELECT g, count(*) AS n, sum(s) AS s FROM Rolled GROUP BY g;
Most := SELECT a, x FROM Visits ORDER BY x DESC, a LIMIT 3;
Next := SELECT a, x FROM Visits WHERE a > 0 ORDER BY x DESC, a LIMIT 2 OFFSET 2;
Cheapest := SELECT id, x FROM Sales ORDER BY x, id LIMIT 2 OFFSET 1;
Named := SELECT s.id, h.name, s.x FROM Sales s JOIN Shops h ON s.a = h.a;
Outer := SELECT s.id, h.name FROM Sales s LEFT JOIN Shops h ON s.a = h.a;
Pairs := SELECT s.id, t.id AS other FROM Sales s JOIN Sales t ON s.a = t.a AND s.x < t.x;
Near := SELECT s.id, v.id AS other, s.x FROM Sales s LEFT JOIN Sales v ON s.x < v.x AND v.a = 1;
Both := SELECT s.id, h.name FROM Sales s FULL JOIN Shops h ON s.a > h.a AND s.x > 1;
Above := SELECT id, x FROM Sales WHERE x >= (SELECT avg(x) FROM Sales);
Fit := SELECT h.name, s.id FROM Shops h RIGHT JOIN Sales s ON h.a <= s.x;
Alone := SELECT s.id, s.x FROM Sales s WHERE NOT EXISTS (SELECT 1 FROM Sales v WHERE v.x > s.x AND v.a <> 1);
Under := SELECT h.name FROM Shops h LEFT SEMI JOIN Sales s ON h.a < s.x OR s.b = 'y';
Idle := SELECT s.id + 1 AS next, s.b FROM Sales s LEFT ANTI JOIN Visits v ON s.x < v.x AND v.a > s.a
    WHERE s.d IS NOT NULL;
Alike := SELECT l.n, r.m FROM (SELECT b, count(*) AS n FROM Sales GROUP BY b) AS l
         FULL JOIN (SELECT b, sum(x) AS m FROM Sales GROUP BY b) AS r ON l.b = r.b;
"""
PLAIN = plain(cost=False, share=False)
LAST = 2 if depth.quick else 3
"""The epoch in which most rows change."""


def rules(options: Options | None = None) -> dict[str, list[str]]:
    """The rules of each view's stages."""
    found: dict[str, list[str]] = {}
    for stage in maintain(compile_script(SCRIPT).catalog, options).stages:
        found.setdefault(stage.owner, []).append(stage.rule)
    return found


def test_grouping_sets_and_first_rows_are_not_recomputed_whole() -> None:
    found = rules()
    assert found["Rolled"] == found["Parted"] == ["merge"]
    assert found["Cubed"] == ["keyed"] * 4 + ["linear"]
    assert found["Some"] == ["keyed"] * 3 + ["linear"]
    assert found["Most"] == ["top", "linear"]
    assert found["Next"] == ["top", "whole"]  # of the four first rows
    assert found["Cheapest"] == ["first", "whole"]
    assert found["Near"] == found["Fit"] == ["join", "keyed", "linear"]
    assert found["Both"] == ["join", "keyed", "keyed", "linear"]
    assert found["Alone"] == found["Under"] == found["Idle"] == ["existence"]
    assert found["Above"] == ["merge", "join"]
    plain = rules(PLAIN)
    assert all(
        plain[v] == ["whole"]
        for v in ("Rolled", "Cubed", "Some", "Parted", "Most", "Next", "Near", "Both", "Fit", "Alone", "Under", "Idle")
    )


def change(wb: Workbench, random: Random) -> None:
    """A few rows of each input change."""
    for _ in range(5):
        row = {"id": random.randrange(12), "a": random.choice([None, 0, 1, 2]), "b": random.choice([None, "x", "y"])}
        wb.insert("Sales", [row | {"x": random.choice([None, 1, 2, 3]), "d": random.choice([None, 0.5, 1.5])}])
        wb.insert("Visits", [{"a": random.randrange(3), "x": random.choice([None, *range(9)])}])
    wb.delete("Sales", [{"id": random.randrange(12)}])
    wb.insert("Shops", [{"a": random.randrange(3), "name": random.choice("pq")}])


@pytest.mark.deep
@pytest.mark.spark
@pytest.mark.parametrize(
    "options", [Options(), pytest.param(PLAIN, marks=pytest.mark.nightly)], ids=["cheaper", "plain"]
)
def test_views_equal_their_batch_run(spark: Any, options: Options) -> None:
    random = Random(11)
    wb = Workbench(SCRIPT, spark=spark, options=options)
    whole: list[set[str]] = []
    try:
        for epoch in range(LAST + 1):
            wb.engine.costs.least = 1
            if epoch:
                change(wb, random)
            if epoch == LAST:  # most rows at once
                wb.insert("Sales", [{"id": n, "a": n % 3, "b": "z", "x": n, "d": 0.25} for n in range(12)])
            wb.step()
            assert wb._report is not None
            whole.append(set(wb._report.whole))
            for name, batch in wb.batches(wb.catalog.views).items():
                assert same_rows(wb.rows(name), batch), (epoch, name, wb.rows(name), batch)
    finally:
        wb.close()
    if options.cost:
        assert {"Named", "Outer", "Pairs", "Cubed$1"} <= whole[0] & whole[LAST]
    else:
        assert not any(whole)


def test_few_changes_of_many_rows_are_not_recomputed_whole(executor: Any) -> None:
    script = "CREATE TABLE T (id INT PRIMARY KEY, a INT); M := SELECT a, median(id) AS m FROM T GROUP BY a;"
    wb = Workbench(script, spark=executor)
    try:
        chosen = []
        for first, count in ((0, 6_000), (0, 300), (0, 1_100), (0, 4_000)):
            wb.insert("T", [{"id": n, "a": (n + count) % 50} for n in range(first, count)])
            wb.step()
            assert wb._report is not None
            chosen.append(wb._report.whole)
            assert same_rows(wb.rows("M"), wb.batch("M"))
        assert chosen == [("M",), (), ("M",), ("M",)]  # new, few, a third (an update is two), most
    finally:
        wb.close()
