"""Aggregates of sessions maintained with a row per session: the same rows and changes as with recomputed sessions."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.pipeline.choose import maintain, without
from belvedere.workbench.workbench import Workbench
from tests.depth import stores_by_turns
from tests.rules.batch_answers import step_alike

INPUTS = """
CREATE STREAM _S (at TIMESTAMP, k INT, u STRING, v DOUBLE, n BIGINT);
CREATE STREAM _W (at TIMESTAMP, k INT, n BIGINT, WATERMARK FOR at);
CREATE TABLE T (id INT PRIMARY KEY, at TIMESTAMP, k INT);
"""
SESSION = "FROM Session(data => TABLE({}), timecol => DESCRIPTOR(at), {}gap => INTERVAL '{}' SECONDS)"


def sessions(table: str, keys: str = "k", gap: int = 10) -> str:
    return SESSION.format(table, f"key => DESCRIPTOR({keys}), " if keys else "", gap)


GROUPED = {
    "Counts": f"SELECT k, wstart, wend, count(*) AS n {sessions('_S')} GROUP BY k, wstart, wend",
    "Ends": f"SELECT wend AS ended, k, sum(n) AS s, avg(v) AS mean, max(u) AS last {sessions('_S')} GROUP BY wend, k "
    "HAVING count(*) > 1",
    "Spread": "SELECT k, u, wstart, stddev(n) AS s, median(v), count(v) FILTER (WHERE n > 2) "
    f"{sessions('_S', 'k, u', 7)} GROUP BY ALL",
    "Alone": f"SELECT wstart, wend, min(v) AS least {sessions('_S', '', 2)} GROUP BY wstart, wend",
    "Bounded": f"SELECT k, wend, sum(n) AS s {sessions('_W')} GROUP BY k, wend EMIT AFTER WATERMARK",
    "Left": f"SELECT k, wstart, wend, max(n) AS most {sessions('_W')} GROUP BY k, wstart, wend",
}
OTHERS = {
    "Changing": f"SELECT k, wend, count(*) AS n {sessions('T')} GROUP BY k, wend",
    "Coarser": f"SELECT k, count(*) AS n {sessions('_S')} GROUP BY k",
    "Across": f"SELECT wstart, wend, count(*) AS n {sessions('_S')} GROUP BY wstart, wend",
    "Finer": f"SELECT k, u, wend, count(*) AS n {sessions('_S')} GROUP BY k, u, wend",
    "Some": f"SELECT k, wend, count(*) AS n {sessions('_S')} WHERE n > 1 GROUP BY k, wend",
    "Long": f"SELECT k, wend, count(*) FILTER (WHERE wend > at + INTERVAL 20 SECONDS) AS n {sessions('_S')} GROUP BY "
    "k, wend",
    "Listed": f"SELECT k, wend, mode(u) AS us {sessions('_S')} GROUP BY k, wend",
}


def test_where_the_rule_applies() -> None:
    for name, query in (GROUPED | OTHERS).items():
        rules = {s.rule for s in maintain(compile_script(f"{INPUTS}{name} := {query};").catalog).stages}
        assert ("session groups" in rules) is (name in GROUPED), name


@pytest.mark.thorough
@pytest.mark.parametrize(("each_store", "seed"), stores_by_turns([5]), indirect=["each_store"])
def test_views_are_their_batch_answers(each_store: str, seed: int, executor: Any) -> None:
    check(executor, seed, 3, ())


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.parametrize(("each_store", "seed"), stores_by_turns(range(20, 26)), indirect=["each_store"])
def test_many_views_are_their_batch_answers(each_store: str, seed: int, spark: Any) -> None:
    check(spark, seed, 8, ("session groups",))


def check(spark: Any, seed: int, epochs: int, others: tuple[str, ...]) -> None:
    """The rows after each epoch, of few changes and of many, and the changes beside those without `others`."""
    chance = random.Random(seed)
    script = INPUTS + "".join(f"{name} := {query};\n" for name, query in GROUPED.items())
    benches = [Workbench(script, spark=spark, options=o) for o in (None, None, *map(without, others))]

    def push(epoch: int) -> Callable[[Workbench], None]:
        benches[1].engine.compute.small = 0
        bound = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=15 * epoch)
        rows = [random_row(chance, bound) for _ in range(chance.randrange(4, 14))]
        in_time = [{n: r[n] for n in ("at", "k", "n")} for r in rows if r["at"] is not None and r["at"] >= bound]

        def fill(wb: Workbench) -> None:
            wb.insert("_S", rows)
            wb.insert("_W", in_time)
            wb.bound("_W", bound)

        return fill

    step_alike(benches, GROUPED, epochs, push, rounded)


def random_row(chance: random.Random, bound: datetime) -> dict[str, Any]:
    at = bound + timedelta(seconds=chance.randrange(-20, 30))
    return {
        "at": chance.choice([at] * 9 + [None]),
        "k": chance.choice([1, 2, None]),
        "u": chance.choice(["x", "ß", None]),
        "v": chance.choice([0.1, -2.5, float("nan"), None]),
        "n": chance.choice([1, 2, 3, None]),
    }


def rounded(row: Any) -> str:
    """A row, or a change, with doubles to nine digits: their sums depend on the order."""
    if isinstance(row, tuple):
        return repr((rounded(row[0]), row[1]))
    return repr({n: round(v, 9) if isinstance(v, float) else v for n, v in row.items()})
