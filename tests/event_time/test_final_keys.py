"""Group keys that are dates, local times or numbers made of event time free state as timestamps do; results stay."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.pipeline.choose import maintain
from belvedere.rules.options import Options
from belvedere.workbench.workbench import Workbench
from tests.depth import at_night

START = datetime(2020, 2, 27, tzinfo=UTC)
LAST = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
STREAM = "CREATE STREAM _X (id INT, k STRING, g INT, ts TIMESTAMP NOT NULL, WATERMARK FOR ts);\n"
KEYS = {
    "Day": "CAST(ts AS DATE)",
    "Local": "CAST(date_trunc('HOUR', ts) AS TIMESTAMP_NTZ)",
    "Later": "CAST(ts + INTERVAL '3' HOURS AS DATE)",
    "Year": "year(ts)",
}
NUMBERS = {
    "Hour": "unix_seconds(ts) DIV 3600",
    "Days": "unix_date(CAST(ts AS DATE))",
    "Small": "CAST(floor(unix_seconds(ts) / 60) AS INT)",
    "Since": "timestampdiff(MINUTE, TIMESTAMP '2020-02-28 00:00:00', ts)",
}
"""Functions that Spark alone has."""


def script(keys: dict[str, str]) -> str:
    made = ""
    for name, key in keys.items():
        made += f"{name} := SELECT {key} AS h, count(*) AS n, sum(id) AS t FROM _X GROUP BY {key};\n"
        made += f"{name}Distinct := SELECT k, {key} AS h, count(DISTINCT g) AS n FROM _X GROUP BY k, {key};\n"
    return STREAM + made


@pytest.mark.parametrize("name", [*KEYS, *NUMBERS])
def test_the_state_of_a_group_leaves(name: str) -> None:
    pipeline = maintain(compile_script(script({name: (KEYS | NUMBERS)[name]})).catalog)
    for view in (name, f"{name}Distinct"):
        states = [r for r in pipeline.relations.values() if r.name.startswith(f"{view}$") and r.stored]
        assert states
        assert all(r.final for r in states), view


def bag(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(repr(r) for r in rows)


def held(wb: Workbench) -> int:
    return sum(n for name, n in wb.engine.counts().items() if name.endswith("$state"))


def run_both(keys: dict[str, str], seed: int, spark: Any) -> None:
    """Compare with the same rows without expiry, with batch, and count what is stored."""
    random, views = Random(seed), [n + end for n in keys for end in ("", "Distinct")]
    wb = Workbench(script(keys), spark=spark)
    whole = Workbench(script(keys), spark=spark, options=Options(expire=False))
    low = START
    for epoch in range(5):
        rows = []
        for n in range(12):
            time = low + timedelta(minutes=random.choice([0, 59, 60, 61, random.randrange(4000)]))
            rows.append({"id": 100 * epoch + n, "k": random.choice("ab"), "g": n % 5, "ts": time})
        low = low + timedelta(minutes=random.choice([60, 1440, random.randrange(3000)]))
        for bench in (wb, whole):
            bench.insert("_X", rows)
            bench.bound("_X", LAST if epoch == 4 else low)
            bench.step()
        if random.random() < 0.4:
            wb.restart()
        for name in views:
            assert bag(wb.rows(name)) == bag(whole.rows(name)), name
    for name, batch in wb.batches(views).items():
        assert bag(wb.rows(name)) == bag(batch), name
    assert held(wb) < held(whole) / 2
    wb.close()
    whole.close()


@pytest.mark.parametrize("seed", [1, *at_night(range(2, 8))])
def test_results_are_the_same_without_the_rows_that_left(executor: Any, seed: int) -> None:
    run_both(KEYS, seed, executor)


@pytest.mark.spark
@pytest.mark.nightly
def test_numbers_of_times_free_state(spark: Any) -> None:
    run_both(NUMBERS, 1, spark)
