"""The 23 NEXMark queries, kept epoch by epoch, are what DuckDB and Spark in batch compute from all events so far."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from tests import depth
from tests.examples.example_answers import EXAMPLES, answers, differences, duckdb_over, duckdb_queries, load_prepare

QUERIES = [f"Q{n}" for n in range(23)]
STREAMS = ("Person", "Auction", "Bid")
CLOCK = datetime(2024, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def nexmark() -> ModuleType:
    return load_prepare("nexmark")


def open_nexmark(nexmark: ModuleType, folder: Path, spark: Any = None) -> Any:
    """A Workbench on the example; a few events as files give the inputs their columns."""
    from belvedere import Workbench
    from belvedere.connectors.project_file import load_project

    nexmark.write(folder / "data" / "auctions", count=50, each=50)
    (folder / "belvedere.toml").write_text((EXAMPLES / "nexmark" / "belvedere.toml").read_text())
    return Workbench((EXAMPLES / "nexmark" / "nexmark.sqrl").read_text(), project=load_project(folder), spark=spark)


class Auctions:
    """The example in a Workbench beside DuckDB, which gets the same events."""

    def __init__(self, nexmark: ModuleType, folder: Path, options: Any, spark: Any):
        self.nexmark, self.options = nexmark, options
        self.wb = open_nexmark(nexmark, folder, spark)
        self.database = duckdb_over({})
        self.clock = CLOCK
        self.feed("SideInput", nexmark.side_input())

    def epoch(self, first: int, until: int, minutes: float = 0.1) -> None:
        self.clock += timedelta(minutes=minutes)
        self.wb.clock(self.clock)
        for name, rows in self.nexmark.events(first, until, self.options).items():
            self.feed(name, rows)
        self.wb.step()

    def feed(self, name: str, rows: pa.Table) -> None:
        self.wb.insert(name, rows.to_pylist())
        arrived = rows.append_column("_ingest_time", pa.array([self.clock] * len(rows), pa.timestamp("us", tz="UTC")))
        self.database.register("arrived", arrived)
        self.database.execute(f"CREATE TABLE IF NOT EXISTS {name} AS FROM arrived LIMIT 0")
        self.database.execute(f"INSERT INTO {name} FROM arrived")

    def differences(self, batch: bool) -> dict[str, list[str]]:
        """What differs, by query; empty where the store, DuckDB and (if asked) Spark in batch agree."""
        found, queries = {}, duckdb_queries("nexmark")
        batches = self.wb.batches(queries) if batch else {}
        for name, query in queries.items():
            kept = self.wb.rows(name)
            found[name] = differences(kept, answers(self.database, query))
            if batch:
                found[f"{name} in batch"] = differences(kept, batches[name])
        return {name: lines[:3] for name, lines in found.items() if lines}


def test_all_queries_have_an_answer_to_compare_with() -> None:
    assert sorted(duckdb_queries("nexmark")) == sorted(QUERIES)


def test_events_depend_on_their_number_and_the_seed_alone(nexmark: ModuleType) -> None:
    whole = nexmark.events(0, 2_000)
    parts = [nexmark.events(n, min(n + 370, 2_000)) for n in range(0, 2_000, 370)]
    assert all(pa.concat_tables([p[name] for p in parts]).equals(whole[name]) for name in STREAMS)
    assert [whole[name].num_rows for name in STREAMS] == [40, 120, 1_840]
    assert not nexmark.events(0, 2_000, nexmark.Options(seed=2))["Bid"].equals(whole["Bid"])


@pytest.mark.thorough
def test_every_query_after_every_epoch(executor: Any, nexmark: ModuleType, tmp_path: Path) -> None:
    auctions = Auctions(nexmark, tmp_path, nexmark.Options(rate=60, disorder=4.0), executor)
    cuts = [0, 3, 2_500] if depth.quick else [0, 3, 900, 900, 2_500]
    for number, (first, until) in enumerate(pairwise(cuts)):
        auctions.epoch(first, until)
        assert auctions.differences(batch=number == len(cuts) - 2) == {}
        if number == len(cuts) - 3:
            auctions.wb.restart()
    assert all(auctions.wb.rows(name) for name in QUERIES)  # none agrees by being empty
    auctions.wb.close()


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.parametrize("seed", [2, 3])
def test_many_events_in_many_epochs(spark: Any, nexmark: ModuleType, tmp_path: Path, seed: int) -> None:
    auctions = Auctions(nexmark, tmp_path, nexmark.Options(rate=500, disorder=20.0, seed=seed), spark)
    cuts = [0, 100, 5_000, 5_001, 20_000, 20_000, 21_000, 40_000, 60_000]
    for first, until in pairwise(cuts):
        auctions.epoch(first, until, minutes=3)
        assert auctions.differences(batch=until in (5_001, 60_000)) == {}
        auctions.wb.restart()
    auctions.wb.close()
