"""The central property on random plans: after every epoch each view equals batch, for all rules and restarts."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from belvedere.engine.cardinalities import MIN_CHANGED_ROWS
from belvedere.pipeline.choose import plain, without
from belvedere.rules.options import Options
from belvedere.workbench.workbench import Workbench
from tests import depth
from tests.depth import at_night, stores_by_turns
from tests.rules.random_plans import catalog_of

START = datetime(2024, 2, 29, 12, 0, tzinfo=UTC)
WORDS = [None, "", "a", "b", "é", "~", "a|b", "\\", "日本"]
NUMBERS = [None, 0.0, -0.0, 1.5, 2.25, float("nan"), float("inf"), -7.0]
OPTIONS = 6
"""So many seeds in a row have all of the options that `check` takes."""


def random_row(random: Random, key: int) -> dict[str, Any]:
    return {
        "k": key,
        "a": random.choice([None, 0, 1, 2, 3, 4, 5]),
        "b": random.choice([None, 1, 2, 3]),
        "s": random.choice(WORDS),
        "d": random.choice(NUMBERS),
        "m": random.choice([None, Decimal("0.10"), Decimal("-3.25"), Decimal("12345678.99")]),
        "t": random.choice([None, START + timedelta(seconds=random.randint(-900, 900))]),
    }


def same_rows(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> bool:
    """Equal as bags; doubles may differ by 1e-9 relative, nothing else may differ."""
    return len(left) == len(right) and (
        Counter(map(exact, left)) == Counter(map(exact, right))
        or all(close(a, b) for a, b in zip(sorted(left, key=rough), sorted(right, key=rough), strict=True))
    )


def exact(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(repr(0.0 if v == 0.0 and isinstance(v, float) else v) for v in row.values())


def rough(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(f"{v:.6g}" if isinstance(v, float) else repr(v) for v in row.values())


def close(left: dict[str, Any], right: dict[str, Any]) -> bool:
    for a, b in zip(left.values(), right.values(), strict=True):
        if isinstance(a, float) and isinstance(b, float):
            if not (math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(a) and math.isnan(b))):
                return False
        elif a != b:
            return False
    return True


def drive(wb: Workbench, random: Random, epochs: int, least: int = MIN_CHANGED_ROWS) -> None:
    """Random inserts, updates, deletes and restarts; after every epoch each view is compared with its batch run."""
    live: list[dict[str, Any]] = []
    clock = START
    for _ in range(epochs):
        clock += timedelta(seconds=random.choice([0, 30, 200]))
        wb.clock(clock)
        for _ in range(random.randint(0, 4)):
            wb.insert("Keyed", [random_row(random, random.randint(0, 6))])
        wb.insert("Stream", [random_row(random, random.randint(0, 6)) for _ in range(random.randint(0, 4))])
        added = [random_row(random, random.randint(0, 6)) for _ in range(random.randint(0, 3))]
        wb.insert("Bag", added)
        if live and random.random() < 0.6:
            wb.delete("Bag", [live.pop(random.randrange(len(live)))])
        if random.random() < 0.5:
            wb.delete("Keyed", [{"k": random.randint(0, 6)}])
        live += added
        wb.engine.costs.least = least
        wb.step()
        for name, batch in wb.batches(wb.catalog.views).items():
            now = wb.rows(name)
            assert same_rows(now, batch), f"{name}: {now} is not {batch}\n{wb.catalog.views[name].plan}"
        if random.random() < 0.3:
            wb.restart()


def check(spark: Any, seed: int) -> None:
    options = [
        Options(),
        plain(cost=False, share=False),
        without("merge", "distinct", "grouping sets"),
    ][seed % 3]
    catalog = catalog_of(seed, views=8, public_stream=seed % 2 == 0)
    wb = Workbench.of_catalog(catalog, spark=spark, options=options)
    try:
        drive(wb, Random(seed), epochs=3 if depth.quick else 4, least=1 if seed % 2 else MIN_CHANGED_ROWS)
    finally:
        wb.close()


@pytest.mark.thorough
@pytest.mark.deep
@pytest.mark.parametrize("seed", [1, 2, *at_night([3])])  # with that in Postgres each of the options
def test_every_view_equals_its_batch_run_after_every_epoch(executor: Any, seed: int) -> None:
    check(executor, seed)


@pytest.mark.deep
@pytest.mark.spark
@pytest.mark.postgres
@pytest.mark.usefixtures("on_postgres")
def test_views_in_postgres(spark: Any) -> None:
    check(spark, 6)


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.usefixtures("each_store")
@pytest.mark.parametrize(("each_store", "seed"), stores_by_turns(range(100, 120), OPTIONS), indirect=["each_store"])
def test_many_random_catalogs(spark: Any, seed: int) -> None:
    check(spark, seed)


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.usefixtures("each_store", "tiny_memory")
@pytest.mark.parametrize(("each_store", "seed"), stores_by_turns(range(304, 308), OPTIONS), indirect=["each_store"])
def test_many_random_catalogs_without_memory(spark: Any, seed: int) -> None:
    check(spark, seed)
