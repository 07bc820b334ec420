"""Distinct counts maintained by the values of each group: the same rows and changes as with recomputed groups."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.pipeline.choose import maintain, without
from belvedere.workbench.workbench import Workbench
from tests.depth import stores_by_turns
from tests.rules.batch_answers import step_alike

INPUTS = """
CREATE TABLE T (id INT PRIMARY KEY, g INT, u STRING, v DOUBLE, d DECIMAL(9, 2));
CREATE STREAM _S (ts TIMESTAMP, g INT, u STRING, WATERMARK FOR ts);
CREATE STREAM _M (g INT, m MAP<STRING, INT>);
"""
COUNTED = {
    "One": "SELECT g, count(DISTINCT u) AS n FROM T GROUP BY g",
    "Filtered": "SELECT g, count(DISTINCT u) AS n, count(DISTINCT u) FILTER (WHERE v > 0) AS above FROM T GROUP BY g",
    "Two": "SELECT g, count(DISTINCT v) AS vs, count(DISTINCT u) FILTER (WHERE d < 2) AS us, count(DISTINCT d) AS ds "
    "FROM T GROUP BY g",
    "Beside": "SELECT g, sum(d) AS s, count(DISTINCT u) + count(*) AS n FROM T GROUP BY g HAVING count(DISTINCT v) < 3",
    "Total": "SELECT count(DISTINCT u) AS us, count(DISTINCT v) AS vs, count(v) AS n FROM T",
    "Keys": "SELECT g % 2 AS odd, u, count(DISTINCT g) AS gs, sum(g) AS s FROM T GROUP BY ALL",
    "Windows": """SELECT wend, g, count(DISTINCT u) AS us, max(u) AS last
    FROM Tumble(data => TABLE(_S), timecol => DESCRIPTOR(ts),
        dur => INTERVAL '1' MINUTE) GROUP BY wend, g EMIT AFTER WATERMARK""",
}
OTHERS = {
    "Greatest": "SELECT g, max(u) AS last, count(DISTINCT u) AS n FROM T GROUP BY g",
    "Pairs": "SELECT g, count(DISTINCT u, v) AS n FROM T GROUP BY g",
    "Sums": "SELECT g, sum(DISTINCT d) AS s FROM T GROUP BY g",
    "Maps": "SELECT m, count(DISTINCT g) AS n FROM _M GROUP BY m",
}


def test_where_the_rule_applies() -> None:
    for name, query in (COUNTED | OTHERS).items():
        catalog = compile_script(f"{INPUTS}{name} := {query};").catalog
        chosen, plainly = ([s.rule for s in maintain(catalog, o).stages] for o in (None, without("distinct counts")))
        assert (chosen != plainly) is (name in COUNTED), name


def test_values_are_stored_once() -> None:
    """As accumulators: nobody looks up the rows that the counts are made of."""
    pipeline = maintain(compile_script(f"{INPUTS}One := {COUNTED['One']};").catalog)
    assert [(s.rule, pipeline.relations[s.output].stored) for s in pipeline.stages if s.owner == "One"] == [
        ("merge", False),
        ("merge", True),
    ]


@pytest.mark.parametrize(("each_store", "seed"), stores_by_turns([3]), indirect=["each_store"])
def test_views_are_their_batch_answers(each_store: str, seed: int, executor: Any) -> None:
    check(executor, seed, 3, ())


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.parametrize(("each_store", "seed"), stores_by_turns(range(10, 16)), indirect=["each_store"])
def test_many_views_are_their_batch_answers(each_store: str, seed: int, spark: Any) -> None:
    check(spark, seed, 10, ("distinct counts",))


def check(spark: Any, seed: int, epochs: int, others: tuple[str, ...]) -> None:
    """The rows after each epoch, and the changes beside those without `others`."""
    chance = random.Random(seed)
    script = INPUTS + "".join(f"{name} := {query};\n" for name, query in COUNTED.items())
    benches = [Workbench(script, spark=spark, options=o) for o in (None, *map(without, others))]

    def push(epoch: int) -> Callable[[Workbench], None]:
        rows = {n: random_row(chance, n) for n in chance.choices(range(20), k=chance.randrange(12))}
        arrived = [
            {
                "ts": f"2024-01-01 00:{epoch + chance.randrange(2):02}:{chance.randrange(60):02}",
                "g": 1,
                "u": chance.choice("pq"),
            }
            for _ in range(4)
        ]
        gone = [{"id": n} for n in chance.sample(range(20), chance.randrange(5)) if n not in rows]

        def fill(wb: Workbench) -> None:
            wb.insert("T", list(rows.values()))
            wb.delete("T", gone)
            wb.insert("_S", arrived)

        return fill

    step_alike(benches, COUNTED, epochs, push)


def random_row(chance: random.Random, key: int) -> dict[str, Any]:
    return {
        "id": key,
        "g": chance.choice([1, 2, 3, None]),
        "u": chance.choice(["x", "ß", "", None]),
        "v": chance.choice([0.0, -0.0, 1.5, float("nan"), None]),
        "d": chance.choice([1, 2.5, None]),
    }
