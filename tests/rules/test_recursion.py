"""WITH RECURSIVE: every view equals batch, closures equal Python's, and endless recursions are reported."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from belvedere import Workbench
from belvedere.compiler import compile_script
from belvedere.errors import BelvedereError
from belvedere.pipeline.choose import maintain
from belvedere.plan.operators import recursion
from belvedere.plan.plan_text import plan_text
from tests.depth import STORES_AND_SEEDS
from tests.rules.batch_answers import are_batch_answers, epochs

OPEN = """Open := WITH RECURSIVE t AS (
    SELECT n FROM Start
    UNION (SELECT e.b FROM t JOIN Edge e ON e.a = t.n WHERE NOT EXISTS (SELECT 1 FROM Shut s WHERE s.n = e.b)
           UNION ALL SELECT s.n || '!' FROM t JOIN Shut s ON s.n = t.n)
), back(m) AS (
    SELECT n FROM t UNION SELECT e.a FROM back LEFT JOIN (SELECT b, max(a) AS a FROM Edge GROUP BY b) e ON e.b = back.m
) SELECT m, count(*) AS c FROM back GROUP BY m;
"""
"""Two recursions, the second over the first: with a chain of steps, NOT EXISTS and a LEFT JOIN."""
SCRIPT = f"""
CREATE TABLE Start (n STRING, d DECIMAL(6, 2));
CREATE TABLE Edge (a STRING, b STRING, k INT, PRIMARY KEY (k));
CREATE TABLE Shut (n STRING, PRIMARY KEY (n));
Reach := WITH RECURSIVE t AS (SELECT n FROM Start UNION SELECT e.b FROM t JOIN Edge e ON e.a <=> t.n) SELECT n FROM t;
Named := SELECT r.n, length(r.n) AS l FROM Reach r WHERE r.n IS NOT NULL;
Walks := WITH RECURSIVE t(n, len, d) AS (
    SELECT n, 0, d FROM Start
    UNION ALL SELECT e.b, t.len + 1, CAST(t.d / 2 AS DECIMAL(6, 2)) FROM t JOIN Edge e ON e.a = t.n WHERE t.len < 2
) SELECT n, len, d FROM t;
{OPEN}"""
VIEWS = ("Reach", "Named", "Walks", "Open")


def test_a_recursion_is_recomputed_whole_and_its_sides_are_kept_by_changes() -> None:
    catalog = compile_script(SCRIPT).catalog
    rules = [(s.owner, s.rule) for s in maintain(catalog).stages if s.owner in VIEWS]
    assert Counter(r for o, r in rules if o in ("Reach", "Walks")) == {"whole": 2}
    assert ("Open", "merge") in rules
    said = plan_text(catalog.views["Reach"].plan)
    assert said.splitlines()[1].strip() == "recursion t by union, at most 100 levels"
    assert "scan last" in said


def test_levels_may_be_given() -> None:
    script = (
        "A := WITH RECURSIVE t(n) MAX RECURSION LEVEL 7 AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) "
        "SELECT n FROM t;"
    )
    assert "at most 7 levels" in plan_text(compile_script(script).catalog.views["A"].plan)


def reached(starts: list[str | None], edges: dict[int, tuple[str | None, str | None]]) -> set[str | None]:
    """The nodes of a graph that can be reached, those of a start among them."""
    found: set[str | None] = set()
    waiting = set(starts)
    while waiting:
        found |= waiting
        waiting = {b for a, b in edges.values() if a in waiting} - found
    return found


@pytest.mark.parametrize(("each_store", "seed"), STORES_AND_SEEDS, indirect=["each_store"])
def test_views_equal_their_batch_answer(executor: Any, each_store: str, seed: int) -> None:
    random = Random(seed)
    names = [None, "a", "b", "ü", "c d"]
    wb = Workbench(SCRIPT)
    starts: list[dict[str, Any]] = []
    edges: dict[int, tuple[str | None, str | None]] = {}
    for epoch in range(epochs(seed)):
        if epoch:  # the first one has no row
            new: dict[str, Any] = {"n": random.choice(names), "d": random.choice([None, Decimal("3.50")])}
            starts.append(new)
            wb.insert("Start", [new])
            for k in random.sample(range(8), 4):
                edges[k] = random.choice(names), random.choice(names)
                wb.insert("Edge", [{"a": edges[k][0], "b": edges[k][1], "k": k}])
            wb.insert("Shut", [{"n": random.choice(names[1:])}])
        if epoch > 1:
            wb.delete("Start", [starts.pop(random.randrange(len(starts) - 1))])
            gone = random.choice(list(edges))
            del edges[gone]
            wb.delete("Edge", [{"k": gone}])
        wb.step()
        are_batch_answers(wb, VIEWS, epoch)
        assert {r["n"] for r in wb.rows("Reach")} == reached([s["n"] for s in starts], edges)
        if epoch == 1:
            wb.restart()
    wb.close()


ENDLESS = """
CREATE TABLE Given (n INT, stop INT, PRIMARY KEY (n));
Count := WITH RECURSIVE t MAX RECURSION LEVEL 5 AS (SELECT n, stop FROM Given UNION ALL SELECT n + 1, stop FROM t
    WHERE n < stop)
    SELECT n FROM t;
"""


@pytest.mark.spark
def test_what_does_not_end_is_told_and_leaves_the_store(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wb = Workbench(ENDLESS)
    wb.insert("Given", [{"n": 1, "stop": 5}])
    wb.step()
    assert sorted(r["n"] for r in wb.rows("Count")) == [1, 2, 3, 4, 5]
    wb.insert("Given", [{"n": 10, "stop": 15}])
    with pytest.raises(BelvedereError) as failure:
        wb.step()
    (found,) = failure.value.diagnostics
    assert (found.code, found.message) == (
        "B7042",
        'view "Count" failed: the recursion `t` has not ended after 5 levels',
    )
    assert "UNION instead of UNION ALL" in (found.hint or "")
    assert found.span is not None
    assert ENDLESS[found.span.start :].startswith("Count :=")
    assert sorted(r["n"] for r in wb.rows("Count")) == [1, 2, 3, 4, 5]
    wb.close()
    monkeypatch.setattr(recursion, "ROWS", 4)
    wb = Workbench(ENDLESS)
    wb.insert("Given", [{"n": 1, "stop": 5}])
    with pytest.raises(BelvedereError, match=r"B7042.* at 4 rows"):
        wb.step()
    wb.close()
