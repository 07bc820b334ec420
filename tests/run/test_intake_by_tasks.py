"""Files that tasks read, judge and stamp: after each epoch the store is the one that the driver alone makes."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from belvedere.connectors import executor_tasks
from belvedere.connectors.exporting.exports import Exports
from belvedere.connectors.run_records import FILES, REJECTED
from belvedere.engine.by_tasks import file_tasks
from belvedere.engine.epoch import Engine
from belvedere.engine.store_folders import open_state
from belvedere.spark import script_engine
from belvedere.state.state import State
from belvedere.time.machine_clock import MachineClock
from tests.depth import at_night
from tests.engine.duckdb_compute import DuckDBCompute
from tests.engine.file_runner import FileRunner
from tests.engine.task_compute import TaskCompute
from tests.run.loops import Loop

PROJECT = """
[sources.in]
connector = "files"
path = "data"
[sources.in.tables.Readings]
columns = { id = "BIGINT NOT NULL", at = "TIMESTAMP", name = "STRING", price = "DECIMAL(6, 2)" }
[sources.in.tables.Prices]
columns = { id = "BIGINT NOT NULL", name = "STRING", price = "DECIMAL(6, 2)" }
primary_key = ["id"]
"""
SCRIPT = """
IMPORT in.Readings WATERMARK FOR at AS at - INTERVAL '5' SECOND {policy};
IMPORT in.Prices;
Late := SELECT id, name, price FROM {late};
Copy := SELECT id, at, name, price FROM Readings;
Newest := SELECT name, count(*) AS many, max(id) AS top, sum(price) AS total FROM Readings GROUP BY name;
Priced := SELECT r.id, r.name, p.price FROM Readings r JOIN Prices p ON r.name = p.name;
"""
START = datetime(2026, 1, 1, tzinfo=UTC)


@contextmanager
def by_tasks() -> Iterator[Callable[[], int]]:
    """Everything is large, and tasks of this process count as those of others; gives the number of jobs.

    Each task is run twice: only its second answer counts.
    """
    from belvedere.connectors.executor_tasks import SparkTasks
    from belvedere.connectors.reading import reader
    from belvedere.spark import buckets

    before, run_tasks = file_tasks.INTAKE_JOBS.count, SparkTasks.run_tasks

    def twice(task: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: (task(), task())[1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "SPREAD_BYTES", 300)
        patch.setattr(reader, "PIECE_BYTES", 600)
        patch.setattr(reader, "SMALL_BYTES", -1)
        patch.setattr(reader, "has_executors", lambda spark: True)
        patch.setattr(SparkTasks, "run_tasks", lambda self, tasks: run_tasks(self, list(map(twice, tasks))))
        patch.setattr(buckets, "always", buckets.Spreading(1, 2))
        yield lambda: file_tasks.INTAKE_JOBS.count - before


def rows_of(chosen: random.Random, count: int, start: int) -> list[dict[str, Any]]:
    """Readings, of which some are late."""

    def time(n: int) -> str:
        late = chosen.randrange(-60, 0) if chosen.random() < 0.08 else 0
        return (START + timedelta(seconds=start + n + late)).isoformat()

    return [
        {"id": start + n, "at": time(n), "name": chosen.choice("abc"), "price": chosen.randrange(999) / 100}
        for n in range(count)
    ]


def spoiled(chosen: random.Random, row: dict[str, Any]) -> dict[str, Any]:
    """Some rows are malformed, and some have values at which Spark has to look."""
    if chosen.random() > 0.06:
        return row
    return {**row, chosen.choice(["id", "price"]): chosen.choice(["x", "", " 7", "1e1", "99999.5"])}


def write(chosen: random.Random, path: Path, rows: list[dict[str, Any]], spoils: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    names = list(rows[0])
    if path.suffix == ".parquet":
        typed = [{**r, "at": datetime.fromisoformat(r["at"])} if "at" in r else r for r in rows]
        if spoils and chosen.random() < 0.5:
            typed[0] = {**typed[0], "id": None}
        table = pa.Table.from_pylist(typed)
        number = table.schema.get_field_index("price")
        table = table.set_column(number, "price", table["price"].cast(pa.decimal128(6, 2)))
        pq.write_table(table, path, row_group_size=9)
        if chosen.random() < 0.2:
            path.write_bytes(path.read_bytes()[:-7])
        return
    rows = [spoiled(chosen, r) for r in rows] if spoils else rows
    if path.suffix == ".csv":
        text = io.StringIO()
        csv.writer(text).writerows([names, *([r[n] for n in names] for r in rows)])
        path.write_text(text.getvalue())
    else:
        path.write_text("\n".join(json.dumps(r) for r in rows) + ("\nno json\n" if spoils else "\n"))


def arrive(chosen: random.Random, folder: Path, epoch: int, place: int, spoils: bool) -> int:
    """New files; the number of readings so far."""
    for n in range(chosen.randrange(1, 6)):
        rows = rows_of(chosen, chosen.randrange(1, 60), place)
        place += len(rows)
        kind = chosen.choice(["csv", "jsonl", "csv", "parquet"])
        write(chosen, folder / "data" / "Readings" / f"{epoch}-{n}.{kind}", rows, spoils)
    prices = [
        {"id": chosen.randrange(20), "name": chosen.choice("abc"), "price": chosen.randrange(99) / 10}
        for _ in range(30)
    ]
    write(chosen, folder / "data" / "Prices" / f"{epoch}.csv", prices, spoils)
    return place


def stored(loop: Loop) -> dict[str, Any]:
    """All that a store says, but for clocks of the machine."""
    from belvedere.store import open_reader, open_store

    names = ("Late", "Copy", "Newest", "Priced", REJECTED.name, FILES.name)
    store = open_store(loop.url)
    there = {t.name for t in store.tables()}
    store.close()
    assert set(names[:4]) < there, there
    found: dict[str, Any] = {}
    for name in sorted(there & set(names)):
        rows = loop.rows(name)
        hidden = {"_ingest_time"} if name != REJECTED.name else {"rejected_at", "_key"}
        shown = [{k: v for k, v in r.items() if k not in hidden} for r in rows]
        found[name] = sorted(shown, key=repr)
    reader = open_reader(loop.url)
    last = reader.last_epoch()
    reader.close()
    assert last is not None
    streams = {
        i: {c: (k["bound"], k["reached"]) for c, k in columns.items()} for i, columns in last.bounds["streams"].items()
    }
    return {**found, "bounds": streams, "counts": last.bounds["counts"], "next": last.extra["next_uid"]}


def end_before_the_commit(loop: Loop) -> None:
    """A run that ends when its rows are taken in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(State, "prepare", lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            loop.once()


def check_equal(spark: Any, folder: Path, policy: str, chosen: random.Random, before: Callable[[int], None]) -> Any:
    """Each epoch is a run of its own; the one before may have been the driver's. Returns what is stored at the end.

    `before` is called before each run with the number of its store; without Spark no row needs it.
    """
    script = SCRIPT.format(policy=policy, late="Readings WHERE false" if "KEEP" in policy else "LATE(Readings)")
    place = jobs = 0
    loops = [Loop(spark, folder, script, PROJECT, f"sqlite:///{folder}/{n}.db") for n in ("driver", "tasks")]
    for epoch in range(3):
        place = arrive(chosen, folder, epoch, place, not isinstance(spark, SimpleNamespace))
        clock = START + timedelta(days=365 + epoch)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(MachineClock, "now", lambda self, clock=clock: clock)
            before(0)
            loops[0].once()
            before(1)
            if epoch and chosen.random() < 0.3:
                loops[1].once()
            else:
                with by_tasks() as counted:
                    end_before_the_commit(loops[1])
                    loops[1].once()
                    jobs += counted()
        expected, found = map(stored, loops)
        for name, value in expected.items():
            assert found[name] == value, name
        given, late, malformed = expected["counts"][next(iter(expected["bounds"]))]
        assert len(expected["Copy"]) == given - late - malformed
    assert jobs > 6
    assert bool(expected["Late"]) == ("DROP" in policy)
    return expected


@pytest.mark.spark
@pytest.mark.parametrize("policy", ["LATE DROP", "LATE KEEP"])
@pytest.mark.parametrize("seed", [1, *at_night(range(2, 8))])
def test_the_stores_are_equal(spark: Any, tmp_path: Path, seed: int, policy: str) -> None:
    assert check_equal(spark, tmp_path, policy, random.Random(f"{seed} {policy}"), lambda number: None)[REJECTED.name]


@pytest.mark.parametrize("policy", ["LATE DROP", "LATE KEEP"])
@pytest.mark.parametrize("seed", [1, *at_night(range(2, 20))])
def test_equal_without_spark(tmp_path: Path, seed: int, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks and queries run in this process: all rows fit, whole files may not."""
    kinds: list[type[DuckDBCompute]] = [DuckDBCompute]

    def opened(_: Any, catalog: Any, pipeline: Any, store: Any, sinks: Any, state: Any, again: Any) -> Engine:
        compute = kinds[-1]()
        at = open_state(store, state, compute.memory.chunk)
        return Engine(compute, catalog, pipeline, store, at, Exports(catalog, sinks or {}, store), again)  # type: ignore[arg-type]

    monkeypatch.setattr(script_engine, "open_engine", opened)
    monkeypatch.setattr(executor_tasks.SparkTasks, "run_tasks", lambda self, tasks: FileRunner().run_tasks(tasks))
    session = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))
    check_equal(
        session,
        tmp_path,
        policy,
        random.Random(f"{seed} {policy}"),
        lambda number: kinds.append((DuckDBCompute, TaskCompute)[number]),
    )
