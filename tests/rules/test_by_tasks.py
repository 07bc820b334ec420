"""Stored rows that tasks look up and change.

Views equal their batch answers after every epoch, whoever does it in which epoch.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from belvedere.spark import buckets
from belvedere.spark.buckets import Spreading
from belvedere.workbench.workbench import Workbench
from tests.engine.duckdb_compute import use_duckdb
from tests.engine.task_compute import MixedCompute, TaskCompute
from tests.rules.test_memory import SCRIPT, fill
from tests.rules.test_recomputation import check, same_rows

IN_DUCKDB = SCRIPT.replace(", collect_set(what) AS things", "")
"""Without what DuckDB answers otherwise."""
SMALL = """
CREATE TABLE Orders (id INT PRIMARY KEY, who INT, what STRING, amount DECIMAL(10, 2), at TIMESTAMP);
CREATE STREAM Clicks (who INT, page STRING, at TIMESTAMP);
CREATE TABLE Words (word STRING);
Sums := SELECT o.who, count(*) AS n, sum(o.amount) AS total FROM Orders o GROUP BY o.who;
Middle := SELECT who, median(amount) AS middle FROM Orders GROUP BY who;
Pairs := SELECT o.id, c.page FROM Orders o JOIN Clicks c ON o.who = c.who;
Latest := SELECT who, page, at FROM (SELECT *, row_number() OVER (PARTITION BY who ORDER BY at DESC, page) AS rank
    FROM Clicks) AS r
          WHERE rank <= 2;
"""


def follow(wb: Workbench, seed: int, epochs: int, spread: Any) -> None:
    """Run epochs of random changes; `spread` says before each whether tasks do its work.

    There is a restart after each but the first.
    """
    random = Random(seed)
    for epoch in range(epochs):
        spread(epoch)
        fill(wb, random, epoch)
        wb.step()
        for name, batch in wb.batches(wb.catalog.views).items():
            assert same_rows(wb.rows(name), batch), (seed, epoch, name)
        if epoch:
            wb.restart()


@pytest.mark.parametrize(
    ("script", "seed", "epochs"),
    [(SMALL, 1, 2), *(pytest.param(IN_DUCKDB, seed, 6, marks=pytest.mark.nightly) for seed in range(2, 12))],
)
def test_tasks_and_the_driver_by_turns(script: str, seed: int, epochs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each task is run twice, as one that is given up and run again."""
    use_duckdb(monkeypatch, TaskCompute)
    chosen = Random(seed)

    def spread(epoch: int) -> None:
        monkeypatch.setattr(TaskCompute, "spreading", epoch == 1 or chosen.random() < 0.6)

    wb = Workbench(script)
    try:
        follow(wb, seed, epochs, spread)
        spread(1)
        fill(wb, chosen, epochs)
        wb.step()
        assert wb._report is not None
        assert wb._report.task_jobs > 0
    finally:
        wb.close()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [401, 402, 403])  # not all catalogs have only calls that DuckDB knows
def test_random_catalogs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    use_duckdb(monkeypatch, MixedCompute if seed % 2 else TaskCompute)
    check(None, seed)


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(500, 506))
def test_random_catalogs_on_spark(spark: Any, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "always", Spreading(0, 4, small=0))
    check(spark, seed)


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.parametrize("script", [SMALL, SCRIPT])
def test_tasks_of_spark(spark: Any, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "always", Spreading(0, 4, small=0))
    wb = Workbench(script, spark=spark)
    try:
        follow(wb, 3, 2, lambda _: None)
    finally:
        wb.close()
