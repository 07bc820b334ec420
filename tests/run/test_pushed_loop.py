"""Epochs of pushed rows, in this process: soon, in order, once; by time if a producer is silent."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.intake.ingest_service import IngestService, Request, open_ingest_service
from belvedere.intake.request_rows import find_input, read_rows
from belvedere.time.intake_entries import Act, ProducerAct
from belvedere.values.instants import microseconds
from tests.event_time.test_machine_clock import Machine

pytestmark = pytest.mark.spark

SCRIPT = """
CREATE STREAM Bid (at TIMESTAMP, price INT, item STRING, WATERMARK FOR at IDLE AFTER INTERVAL 1 SECOND) KEEP 30 DAYS;
CREATE STREAM Loose (at TIMESTAMP, price INT, WATERMARK FOR at AS at - INTERVAL 5 SECONDS) LATE DROP KEEP 30 DAYS;
CREATE TABLE Items (item STRING, name STRING, PRIMARY KEY (item));
Totals := SELECT b.item, i.name, sum(price) AS price FROM Bid b LEFT JOIN Items i ON i.item = b.item
    GROUP BY b.item, i.name;
"""
DAY = datetime(2020, 1, 1, tzinfo=UTC)


def at(minute: int) -> str:
    return (DAY + timedelta(minutes=minute)).isoformat()


class Run:
    """A run of the script over a folder, without processes."""

    def __init__(self, spark: Any, folder: Path, script: str = SCRIPT):
        self.spark, self.folder = spark, folder
        self.catalog = compile_script(script).catalog
        self.progress: list[Any] = []
        self.open()

    def open(self, **settings: Any) -> None:
        from belvedere.connectors.run_records import RECORDS
        from belvedere.pipeline.choose import maintain
        from belvedere.project.settings import ProjectSettings
        from belvedere.spark.run.epoch_sources import open_sources
        from belvedere.spark.run.run_loop import RunLoop, RunSettings
        from belvedere.spark.script_engine import open_engine
        from belvedere.store import open_store

        self.store = open_store(f"sqlite:///{self.folder / 'bids.db'}")
        self.store.acquire("test", 60)
        self.store.create(RECORDS)
        last = self.store.last_epoch()
        clock = settings.pop("clock", None)
        now = {} if clock is None else {"now": clock.now}  # rows arrive at the run's clock
        self.ingest_service: IngestService = open_ingest_service(self.catalog, self.folder / "intake", last, **now)
        self.engine = open_engine(self.spark, self.catalog, maintain(self.catalog), self.store)
        sources = open_sources(
            self.catalog, ProjectSettings(self.folder), last, {}, self.engine.tables.fresh, self.ingest_service
        )
        chosen = RunSettings(**({"interval": 0.05} | settings))
        self.loop = RunLoop(self.spark, self.engine, self.store, sources, chosen, self.progress.append, clock=clock)

    def start(self) -> None:
        self.thread = threading.Thread(target=self.loop.run)
        self.thread.start()

    def stop(self) -> None:
        self.loop.stop()
        self.thread.join(120)
        assert not self.thread.is_alive()
        self.close()

    def close(self) -> None:
        self.ingest_service.close()
        self.engine.close()
        self.store.close()

    def push(self, name: str, *rows: dict[str, Any], producer: str | None = None) -> dict[str, Any]:
        table = find_input(self.catalog, name)
        (answer,) = self.ingest_service.take([Request(table.id, read_rows(table, rows), producer)])
        return dict(answer.body)

    def act(self, kind: Act, producer: str, minute: int | None = None) -> None:
        time_ = None if minute is None else microseconds(datetime.fromisoformat(at(minute)))
        self.ingest_service.take([Request("Bid", ProducerAct(kind, "Bid", 0, producer, time_))])

    def rows(self, name: str) -> list[dict[str, Any]]:
        reader = self.store.reader()
        try:
            table = self.engine.tables.by_name[name]
            return list(reader.rows(table).select([c.name for c in table.schema.columns if not c.hidden]).to_pylist())
        finally:
            reader.close()


def wait_for(condition: Any, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)


def test_pushes_become_epochs(spark: Any, tmp_path: Path) -> None:
    run = Run(spark, tmp_path)
    # before the run starts, and between two runs, pushes wait in the journal
    run.push("Items", {"item": "A", "name": "Anvil"}, {"item": "B", "name": "Bell"}, {"item": "B", "_delete": True})
    run.push("Bid", {"at": at(7), "price": 2, "item": "A"}, {"price": "two"}, producer="p1")
    run.close()
    run.open()
    run.start()
    wait_for(lambda: run.progress)
    assert run.rows("Totals") == [{"item": "A", "name": "Anvil", "price": 2}]
    first = run.progress[0]
    assert (first.rows_in, first.rejected) == ({"Bid": 1, "Items": 3}, {"Bid": 1})
    assert (first.changes["Totals"], first.changes.keys() & {"Bid", "Items"}) == (1, set())
    assert [(r.table, r.line) for r in first.examples] == [("Bid", 2)]

    # a producer that says nothing holds the stream back until it is passed over, which time alone does
    run.act(Act.BOUND, "p2", 20)
    wait_for(lambda: len(run.progress) > 1)
    wait_for(lambda: run.progress[-1].streams[0].assumed)
    (bid, *_) = run.progress[-1].streams
    assert (bid.stream, bid.bound) == ("Bid", microseconds(datetime.fromisoformat(at(20))))
    refused = run.push(
        "Bid", {"at": at(19), "price": 1, "item": "A"}, {"at": at(20), "price": 5, "item": "A"}, producer="p1"
    )
    assert (refused["taken"], refused["refused"]) == (1, 1)
    run.push(
        "Loose", {"at": at(10), "price": 1}, {"at": at(9), "price": 1}, {"at": at(10), "price": None}, {"prize": 1}
    )
    wait_for(lambda: run.rows("Totals") == [{"item": "A", "name": "Anvil", "price": 7}])
    wait_for(lambda: not run.ingest_service.has_waiting)
    run.stop()

    # rows in are rows used, late or malformed, of each input; a restart takes nothing in again
    epochs = len(run.progress)
    run.open(once=True)
    run.push("Bid", {"at": at(30), "price": 1, "item": "C"})
    run.loop.run()
    assert len(run.progress) == epochs + 1
    for name, malformed in (("Bid", 1), ("Loose", 1)):
        counts = run.engine.last.clocks.counts[name]
        late = run.rows(f"LATE({name})")
        assert (counts.used, counts.late, counts.malformed) == (len(run.rows(name)), len(late), malformed)
        assert counts.given == counts.used + counts.late + counts.malformed
    assert [r["reason"].split(":")[0] for n in ("Bid", "Loose") for r in run.rows(f"LATE({n})")] == [
        "rejected",
        "dropped",
    ]
    from belvedere.connectors.run_records import REJECTED

    reader = run.store.reader()
    assert sorted((r["table"], r["line"]) for r in reader.rows(REJECTED).to_pylist()) == [("Bid", 2), ("Loose", 4)]
    reader.close()
    run.close()


def test_time_alone_passes_over_a_silent_producer(spark: Any, tmp_path: Path) -> None:
    run = Run(spark, tmp_path)
    run.push("Bid", {"at": at(7), "price": 2, "item": "A"}, producer="p1")
    run.start()
    wait_for(lambda: run.progress)
    run.act(Act.BOUND, "p1", 8)
    run.act(
        Act.BOUND, "p2", 20
    )  # both have just spoken: nothing else comes, and the stream waits for p1 until it is idle
    wait_for(lambda: run.progress[-1].streams[0].bound == microseconds(datetime.fromisoformat(at(20))), 60)
    assert run.progress[-1].streams[0].assumed
    run.stop()


def test_an_input_that_changed_is_not_emptied(spark: Any, tmp_path: Path) -> None:
    from belvedere.errors import BelvedereError

    run = Run(spark, tmp_path)
    run.close()
    run.open(once=True)
    run.push("Items", {"item": "A", "name": "Anvil"})
    run.loop.run()
    run.close()
    for old, new in (
        ("name STRING, PRIMARY", "name INT, PRIMARY"),
        ("price INT, item", "price INT, size INT NOT NULL, item"),
    ):
        run.catalog = compile_script(SCRIPT.replace(old, new)).catalog
        with pytest.raises(BelvedereError, match="B7031") as failure:
            run.open()
        run.ingest_service.close()
        run.store.close()
        assert "a new store loses them" in (failure.value.diagnostics[0].hint or "")

    # what has only grown is no obstacle, nor are rows that wait in the journal
    run.catalog = compile_script(SCRIPT).catalog
    run.open(once=True)
    run.push("Items", {"item": "B", "name": "Bolt"})
    run.push("Bid", {"at": at(7), "price": 2, "item": "B"})
    run.push("Loose", {"at": at(7), "price": 2})
    run.close()
    evolved = SCRIPT.replace("name STRING, PRIMARY", "name STRING, size INT, PRIMARY").replace(
        "item STRING, W", "item STRING, z INT, W"
    )
    run.catalog = compile_script(evolved.replace("price INT, W", "price DECIMAL(12, 2), W")).catalog
    run.open(once=True)
    run.push("Loose", {"at": at(8), "price": "0.25"})
    run.loop.run()
    assert sorted((r["item"], r["name"], r["size"]) for r in run.rows("Items")) == [
        ("A", "Anvil", None),
        ("B", "Bolt", None),
    ]
    assert [(r["item"], r["price"]) for r in run.rows("Totals")] == [("B", 2)]
    assert sorted(str(r["price"]) for r in run.rows("Loose")) == ["0.25", "2.00"]
    run.close()


def test_a_clock_that_jumps_ahead_expires_nothing_until_it_is_accepted(spark: Any, tmp_path: Path) -> None:
    from belvedere.time.machine_clock import NAME, MachineClock

    machine, row = Machine(), {"at": at(1), "price": 2, "item": "A"}
    run = Run(spark, tmp_path)

    def once(clock: MachineClock) -> int:
        """How many bids are there after an epoch of one more."""
        run.close()
        run.open(once=True, clock=clock)
        run.push("Bid", row)
        run.loop.run()
        reader = run.store.reader()
        found = reader.rows(run.engine.tables.by_name["Bid"]).num_rows
        reader.close()
        return found

    clock = machine.open()
    assert once(clock) == 1
    machine.clock += 40 * timedelta(days=1)
    machine.run(timedelta(minutes=1))
    assert once(clock) == 2
    assert [t.split(":")[0] for t in machine.reported] == ["the clock of this machine has jumped ahead by 40 days"]
    last = run.store.last_epoch()
    assert last is not None
    assert last.clock == clock.now() == machine.clock - 40 * timedelta(days=1)
    assert once(machine.open(last.offsets[NAME], accept=True)) == 1, "all others are older than 30 days now"
    run.close()
