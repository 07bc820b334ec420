"""Tasks judge and stamp rows in files as the driver does: with the same clocks and numbers."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from belvedere.catalog.inputs import LatePolicy
from belvedere.compiler import compile_script
from belvedere.engine import ingest
from belvedere.engine.ingest import receive
from belvedere.engine.late_rows import judge
from belvedere.engine.rows.epoch_rows import Rows, as_rows
from belvedere.engine.rows.scratch_rows import NumberedFile
from belvedere.schema import TIMESTAMP, WEIGHT
from belvedere.time.arrival_columns import NO_TIMES, ArrivalTimes
from belvedere.time.event_time import Clocks, send_bound
from tests.depth import at_night
from tests.engine.file_runner import FileRunner
from tests.engine.task_compute import TaskCompute

START = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = "id BIGINT, at TIMESTAMP, also TIMESTAMP, text STRING"
POLICIES = ("", "LATE DROP", "LATE REJECT", "LATE KEEP")


def inputs_of(rest: str, more: str = "") -> Any:
    """The catalog of a script with the input S, whose late rows are read."""
    late = "Late := SELECT * FROM LATE(S);" if "KEEP" not in rest and "WATERMARK" in rest else ""
    compiled = compile_script(f"CREATE TABLE S ({COLUMNS}{more}{rest};\n{late}V := SELECT * FROM S;")
    assert compiled.ok, compiled.diagnostics
    catalog = compiled.catalog
    return catalog, next(t for t in catalog.inputs.values() if t.name == "S")


def random_rows(chosen: random.Random, count: int, start: int, often: float = 0.1, untimed: float = 0.05) -> pa.Table:
    def time(n: int) -> datetime | None:
        late = chosen.randrange(-40, 2) if chosen.random() < often else chosen.randrange(-2, 2)
        return None if chosen.random() < untimed else START + timedelta(seconds=start + n + late)

    return pa.table(
        {
            "id": pa.array(range(start, start + count), pa.int64()),
            "at": pa.array([time(n) for n in range(count)], TIMESTAMP),
            "also": pa.array([time(n) for n in range(count)], TIMESTAMP),
            "text": pa.array([chosen.choice(["a", None, "b"]) for _ in range(count)], pa.string()),
        }
    )


def in_files(table: pa.Table, folder: Path, chosen: random.Random, sizes: Sequence[int] = (1, 3, 10, 40)) -> Rows:
    folder.mkdir()
    files: list[Path] = []
    place = 0
    while place < table.num_rows:
        size = chosen.choice(sizes)
        file = NumberedFile(folder / f"{len(files):04d}.parquet", table.schema)
        for batch in table.slice(place, size).combine_chunks().to_batches(max_chunksize=7):
            file.add(batch)
        file.close()
        files.append(file.path)
        place += size
    return Rows(schema=table.schema, files=tuple(files), count=table.num_rows)


def runs(chosen: random.Random, count: int, values: list[Any], longest: int = 29) -> list[tuple[int, Any]]:
    found = []
    while count:
        size = min(count, chosen.randint(1, longest))
        found.append((size, chosen.choice(values)))
        count -= size
    return found


class Pair:
    """The same epochs judged in the driver and by tasks."""

    def __init__(self, catalog: Any, folder: Path, chosen: random.Random, clocks: Clocks, caplog: Any):
        self.catalog, self.folder, self.chosen, self.clocks, self.caplog = catalog, folder, chosen, clocks, caplog
        self.runner, self.late = FileRunner(), 0
        self.sizes: Sequence[int] = (1, 3, 10, 40)

    def judge(self, table: Any, rows: pa.Table, now: datetime, senders: Any, times: Any) -> None:
        """Compare rows, late rows, clocks, times, and what is logged."""
        files = in_files(rows, self.folder, self.chosen, self.sizes)
        self.caplog.clear()
        with self.caplog.at_level(logging.WARNING):
            theirs = judge(self.catalog, self.clocks, {table.id: rows}, now, None, senders, times)
            said = [r.getMessage() for r in self.caplog.records]
            self.caplog.clear()
            ours = judge(self.catalog, self.clocks, {table.id: files}, now, None, senders, times, self.runner)
        assert [r.getMessage() for r in self.caplog.records] == said
        assert ours.clocks == theirs.clocks
        assert ours.used.keys() == theirs.used.keys()
        for id_, found in ours.used.items():
            assert as_rows(found).num_rows == as_rows(theirs.used[id_]).num_rows
            assert as_rows(found).table.equals(as_rows(theirs.used[id_]).table), id_
        assert known(ours.times) == known(theirs.times)
        self.clocks, self.late = theirs.clocks, theirs.clocks.counts[table.id].late


def known(times: dict[str, ArrivalTimes]) -> dict[str, list[int]]:
    return {i: [c for count, c in t for _ in range(count)] for i, t in times.items() if len(t)}


@pytest.mark.parametrize("seed", [*range(12), *at_night(range(12, 80))])
def test_equal_to_the_driver(seed: int, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With several producers, times of arrival and epochs."""
    chosen = random.Random(seed)
    policy = chosen.choice(POLICIES)
    mark = chosen.choice(["INTERVAL '5' SECOND", "INTERVAL '0' SECOND"])
    two = chosen.random() < 0.2
    second = ", WATERMARK FOR also AS also - INTERVAL '9' SECOND" if two else ""
    more = ", got TIMESTAMP METADATA FROM 'timestamp'" if chosen.random() < 0.3 else ""
    catalog, table = inputs_of(f", WATERMARK FOR at AS at - {mark}{second}) {policy}", more)
    pair, place = Pair(catalog, tmp_path, chosen, Clocks(), caplog), 0
    for epoch in range(3):
        pair.folder = tmp_path / str(epoch)
        rows = random_rows(chosen, chosen.randrange(1, 200), place)
        place += rows.num_rows
        now = START + timedelta(seconds=place)
        senders = {table.id: runs(chosen, rows.num_rows, ["p", "q"])} if chosen.random() < 0.5 else {}
        clock = int(now.timestamp() * 1e6)
        times = {}
        if chosen.random() < 0.5:
            times[table.id] = ArrivalTimes.of(runs(chosen, rows.num_rows, [clock - 9, clock])).within(0, clock)
        pair.judge(table, rows, now, senders, times)
    assert (pair.runner.jobs > 0) == (not two or table.late is LatePolicy.KEEP), "several times: in the driver"


@pytest.mark.parametrize("policy", ["LATE DROP", "LATE REJECT", "LATE KEEP"])
@pytest.mark.parametrize("mark", ["at - INTERVAL '0' SECOND", "at - INTERVAL '5' SECOND", None])
def test_new_producers_with_late_rows(
    policy: str, mark: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Short runs of many producers: a producer whose rows are all late holds back no bound, unless one has no time.

    Without a delay, all bounds are sent ones. Some rows have a weight below zero.
    """
    catalog, table = inputs_of(f", WATERMARK FOR at{f' AS {mark}' if mark else ''}) {policy}")
    late = 0
    for seed in range(12):
        chosen = random.Random(f"{seed} {policy} {mark}")
        clocks = Clocks()
        for sender in chosen.sample("pqrs", 4 if mark is None else chosen.randrange(2)):
            clocks = send_bound(clocks, table, "at", int(START.timestamp() * 1e6) + 10**7, 0, sender, strict=False)
        pair, place = Pair(catalog, tmp_path, chosen, clocks, caplog), 0
        for epoch in range(2):
            pair.folder, pair.sizes = tmp_path / f"{seed} {epoch}", (1, 3, 6)
            rows = random_rows(chosen, chosen.randrange(1, 30), place, 0.5, chosen.choice([0, 0.3]))
            if chosen.random() < 0.3:
                weights = chosen.choices([1, -1], [4, 1], k=rows.num_rows)
                rows = rows.append_column(WEIGHT, pa.array(weights, pa.int64()))
            place += rows.num_rows
            now = START + timedelta(seconds=place)
            pair.judge(table, rows, now, {table.id: runs(chosen, rows.num_rows, [*"pqrstu"], 3)}, {})
        late += pair.late
    assert (late > 0) == (policy != "LATE KEEP")


@pytest.mark.parametrize("size", [1, 2, 9])
@pytest.mark.parametrize(
    ("rows", "late"),
    [
        ([("p", 50), ("q", 10), ("p", 60), ("r", 52), ("s", 55)], 3),
        ([("p", 10), ("r", None), ("p", 60), ("q", 20)], 0),
        ([("p", 10), ("r", 5), ("r", None), ("p", 60), ("q", 20)], 1),
    ],
    ids=["late", "without a time", "late and without a time"],
)
def test_first_row_of_a_producer(
    rows: list[tuple[str, int | None]], late: int, size: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A late row registers no producer. A row without a time does, and holds back the bound of the following files."""
    catalog, table = inputs_of(", WATERMARK FOR at AS at) LATE DROP")
    times = [None if n is None else START + timedelta(seconds=n) for _, n in rows]
    given = pa.table({"id": range(len(rows)), "at": pa.array(times, TIMESTAMP)})
    pair = Pair(catalog, tmp_path / "rows", random.Random(1), Clocks(), caplog)
    pair.sizes = (size,)
    pair.judge(table, given, START, {table.id: [(1, sender) for sender, _ in rows]}, {})
    assert pair.late == late


def test_files_without_late_rows_stay(tmp_path: Path) -> None:
    catalog, table = inputs_of(", WATERMARK FOR at AS at - INTERVAL '5' SECOND) LATE DROP")
    rows = pa.table({"id": range(40), "at": pa.array([START + timedelta(seconds=n) for n in range(40)], TIMESTAMP)})
    files, runner = in_files(rows, tmp_path / "rows", random.Random(3)), FileRunner()
    assert judge(catalog, Clocks(), {table.id: files}, START, tasks=runner).used[table.id] is files
    assert runner.jobs == 1
    late = in_files(rows.slice(0, 4), tmp_path / "late", random.Random(3))
    both = Rows(schema=rows.schema, files=(*(files.files or ()), *(late.files or ())), count=44)
    used = judge(catalog, Clocks(), {table.id: both}, START, tasks=runner).used
    kept = used[table.id]
    assert isinstance(kept, Rows)
    assert kept.files == files.files
    assert sum(as_rows(r).num_rows for r in used.values()) == 44


class Epoch:
    """An epoch's work, as far as rows are stamped."""

    def __init__(self) -> None:
        self.compute, self.clock = TaskCompute(), START


@pytest.mark.parametrize("with_times", [False, True])
def test_stamped_by_tasks(with_times: bool, tmp_path: Path) -> None:
    _, table = inputs_of(")")
    chosen, work = random.Random(5), Epoch()
    rows = random_rows(chosen, 300, 0)
    files = in_files(rows, tmp_path / "rows", chosen)
    times = ArrivalTimes.of(runs(chosen, 300, [1, 2, 3])) if with_times else NO_TIMES
    try:
        theirs, ours = (receive(given, table, 77, work, times) for given in (rows, files))  # type: ignore[arg-type]
        assert theirs is not None
        assert ours is not None
        assert ours.stamped.files is not None
        assert ours.stamped.table.equals(theirs.stamped.table)
        assert (ours.rows, ours.next_uid) == (theirs.rows, theirs.next_uid) == (300, 377)
    finally:
        work.compute.close()


def test_rows_with_numbers_are_stamped_in_the_driver(tmp_path: Path) -> None:
    rows = random_rows(random.Random(1), 5, 0).append_column("_uid", pa.array(range(5), pa.int64()))
    files = in_files(rows, tmp_path / "rows", random.Random(1))
    assert not ingest.may_stamp(files, rows.schema, FileRunner())
