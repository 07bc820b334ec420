"""Stored rows that tasks look up and change.

Views equal their batch answers after every epoch, whoever does it in which epoch.
"""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.pipeline.choose import maintain
from belvedere.pipeline.explain import explain, explanation_text
from belvedere.spark import buckets
from belvedere.spark.buckets import Spreading
from belvedere.state.state import Size
from belvedere.workbench.workbench import Workbench
from tests.engine.duckdb_compute import use_duckdb
from tests.engine.task_compute import MixedCompute, TaskCompute
from tests.rules.test_memory import SCRIPT, START, fill
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
TIMED = """
CREATE STREAM Bid (at TIMESTAMP, price INT, item STRING, WATERMARK FOR at AS at - INTERVAL 2 MINUTES) LATE KEEP;
CREATE STREAM Ask (at TIMESTAMP, price INT, item STRING, WATERMARK FOR at AS at - INTERVAL 2 MINUTES) LATE KEEP;
CREATE TABLE Word (word STRING);
Lefts := SELECT b.item, b.at, b.price, a.price AS ask FROM Bid b
         LEFT JOIN Ask a ON a.item = b.item AND a.at BETWEEN b.at AND b.at + INTERVAL 2 MINUTES;
Early := SELECT window_end, item, count(DISTINCT price) AS n
         FROM TABLE(TUMBLE(TABLE Bid, DESCRIPTOR(at), INTERVAL '2' MINUTES))
         GROUP BY window_end, item EMIT AFTER WATERMARK;
Recent := SELECT item, at, price FROM Bid WHERE at <= now() AND at > now() - INTERVAL 4 MINUTES;
Words := SELECT word, count(*) AS n FROM Word GROUP BY word;
Pieces := FROM Bid AS b WINDOW BY w PARTITION BY b.item ORDER BY b.at, b.price TYPE TUMBLING
          START AS s END AS e WHEN e.price > 7
          SELECT s.item AS item, s.at AS since, LEN(w) AS n, w[*].price AS prices;
"""
"""Rows that become final, enter and leave by the clock, are emitted later, and are deleted by value."""


def fill_timed(wb: Workbench, random: Random, epoch: int) -> None:
    """Rows with times around the epoch's clock; each word but the first is deleted at some time."""
    clock = START + timedelta(minutes=3 * epoch)
    wb.clock(clock)
    for name in ("Bid", "Ask"):
        times = sorted(clock + timedelta(minutes=random.randint(0, 4)) for _ in range(8))
        wb.insert(name, [{"at": t, "price": random.randint(1, 9), "item": random.choice("AB")} for t in times])
    if epoch:
        wb.delete("Word", [{"word": f"w{epoch - 1}"}] * 2)
    wb.insert("Word", [{"word": f"w{epoch}"}] * 3)


def follow(wb: Workbench, seed: int, epochs: int, spread: Any, fill: Any = fill) -> None:
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


def test_times_and_deletions(monkeypatch: pytest.MonkeyPatch) -> None:
    use_duckdb(monkeypatch, MixedCompute)
    wb = Workbench(TIMED)
    try:
        follow(wb, 5, 2, lambda _: None, fill_timed)
        fill_timed(wb, Random(6), 2)
        wb.step()
        assert wb._report is not None
        assert wb._report.task_jobs > 0
    finally:
        wb.close()


def test_explain_names_the_rows_that_pass_through_the_driver() -> None:
    """It does beside the sizes of state, and for relations that have such rows alone."""
    compiled = compile_script(TIMED).catalog
    pipeline = maintain(compiled)
    sizes = {n: Size(1, 1) for n in pipeline.relations}
    found = {e.name: explanation_text(e, sizes) for e in explain(compiled, pipeline)}
    assert "  driver Early: a row of state for each changed group" in found["Early"]
    assert {n for n, text in found.items() if "  driver " in text} == {"Early"}
    assert not any("  driver " in explanation_text(e) for e in explain(compiled, pipeline))


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
@pytest.mark.parametrize(("script", "rows"), [(SMALL, fill), (SCRIPT, fill), (TIMED, fill_timed)])
def test_tasks_of_spark(spark: Any, script: str, rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "always", Spreading(0, 4, small=0))
    wb = Workbench(script, spark=spark)
    try:
        follow(wb, 3, 3 if rows is fill_timed else 2, lambda _: None, rows)
    finally:
        wb.close()
