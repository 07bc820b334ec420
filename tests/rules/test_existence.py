"""EXISTS and NOT EXISTS on conditions without an equality, kept by changes: every view equals its batch answer."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from belvedere import Workbench
from belvedere.compiler import compile_script
from belvedere.pipeline.choose import maintain, without
from belvedere.rules.options import Options
from tests.depth import STORES_AND_SEEDS
from tests.rules.batch_answers import are_batch_answers, epochs

SCRIPT = """
CREATE TABLE T (k INT, a INT, b INT, s STRING, PRIMARY KEY (k));
CREATE TABLE Bag (a INT, s STRING);
CREATE STREAM _Log (k INT, a INT);
Above := SELECT k, a FROM T WHERE NOT EXISTS (SELECT 1 FROM T o WHERE o.a > T.a AND o.b < T.b);
Below := SELECT k, upper(s) AS s FROM T WHERE EXISTS (SELECT 1 FROM Bag g WHERE g.a < T.a) AND b IS NOT NULL;
Either := SELECT g.a, g.s FROM Bag g LEFT SEMI JOIN T ON T.a = g.a OR T.s = g.s;
Never := SELECT g.a, count(*) AS n FROM Bag g LEFT ANTI JOIN T ON T.a + T.b > g.a GROUP BY g.a;
Seen := SELECT l.k, l.a FROM _Log l WHERE EXISTS (SELECT 1 FROM T WHERE T.a BETWEEN l.a - 1 AND l.a + 1);
Joined := SELECT x.k, x.t FROM (SELECT T.k, g.s AS t, g.a FROM T JOIN Bag g ON g.a = T.a) x
    LEFT ANTI JOIN Bag o ON o.a > x.a + 1;
Shown := SELECT a FROM (SELECT a, b FROM T) x LEFT SEMI JOIN Bag o ON o.a <> x.b;
"""
VIEWS = ("Above", "Below", "Either", "Never", "Seen", "Joined", "Shown")


def test_they_are_kept_by_changes_where_that_is_asked_for() -> None:
    catalog = compile_script(SCRIPT).catalog
    kept = {s.owner for s in maintain(catalog).stages if s.rule == "existence"}
    assert kept == set(VIEWS)
    assert not [
        s
        for s in maintain(catalog, without("join", "existence", "outer join", "offset")).stages
        if s.rule == "existence"
    ]


def small(random: Random) -> int | None:
    return random.choice([None, 0, 1, 2, 3, 4])


@pytest.mark.parametrize(
    ("each_store", "seed"),
    STORES_AND_SEEDS,
    indirect=["each_store"],
)
def test_views_equal_their_batch_answer(executor: Any, each_store: str, seed: int) -> None:
    random = Random(seed)
    wb = Workbench(SCRIPT, options=Options(cost=False))
    bag: list[dict[str, Any]] = []
    for epoch in range(epochs(seed)):
        for _ in range(8 if epoch == 0 else random.randint(0, 3)):
            wb.insert(
                "T", [{"k": random.randint(1, 12), "a": small(random), "b": small(random), "s": random.choice("xyz")}]
            )
        wb.insert("_Log", [{"k": random.randint(1, 5), "a": small(random)} for _ in range(random.randint(0, 3))])
        added = [{"a": small(random), "s": random.choice([None, *"xy"])} for _ in range(random.randint(0, 3))]
        wb.insert("Bag", added)
        bag += added
        if epoch:
            wb.delete("T", [{"k": random.randint(1, 12)}])
            if bag and random.random() < 0.7:
                wb.delete("Bag", [bag.pop(random.randrange(len(bag)))])
        wb.step()
        are_batch_answers(wb, VIEWS, epoch)
        if random.random() < 0.3 or epoch == 1:
            wb.restart()
    wb.close()
