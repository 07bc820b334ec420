"""Rows that arrive in scratch files: a task for each file, in another process; the driver gets places and counts.

In: rows in files, their producers and times of arrival. Out: for each file its rows, cut where one of these changes,
as a task reads them. A task that is run again writes other files, which no answer names.
"""

from __future__ import annotations

import shutil
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from belvedere.engine.rows.epoch_rows import Rows
from belvedere.engine.rows.scratch_rows import PREFIX, NumberedFile, not_shared
from belvedere.process.temporary_folders import scratch_folder
from belvedere.time.arrival_columns import ArrivalTimes

FileTask: TypeAlias = Callable[[], Any]
"""The work on a file: gives JSON data."""


class FileTasks(Protocol):
    """Runs tasks in other processes."""

    def spreads(self, rows: int) -> bool:
        """Return whether tasks in other processes should work on this number of rows."""

    def run_tasks(self, tasks: Sequence[FileTask]) -> list[Any]:
        """Run tasks, each once or several times; one answer of each."""


class TaskJobs:
    """Jobs of this process since its start whose tasks have read, judged or stamped rows that arrive."""

    def __init__(self) -> None:
        self.count = 0


INTAKE_JOBS = TaskJobs()


def run_file_tasks(tasks: FileTasks, work: Sequence[FileTask]) -> list[Any]:
    """Return the answers of tasks, in order; no job for no task."""
    if not work:
        return []
    INTAKE_JOBS.count += 1
    return tasks.run_tasks(work)


@dataclass(frozen=True)
class Segment:
    """Consecutive rows: their number, their producer, and the clock at their arrival if it is known."""

    count: int
    sender: str | None = None
    clock: int | None = None


@dataclass(frozen=True)
class RowFile:
    """The rows of one file, in order."""

    path: Path
    schema: pa.Schema
    segments: tuple[Segment, ...]

    @property
    def count(self) -> int:
        """Return the number of rows."""
        return sum(s.count for s in self.segments)

    @property
    def times(self) -> ArrivalTimes:
        """When the rows arrived, where that is known."""
        return ArrivalTimes.of((s.count, s.clock) for s in self.segments if s.clock is not None)

    def parts(self, columns: Sequence[str] | None = None) -> Iterator[tuple[int, pa.Table]]:
        """Return the rows of these columns, as far as they exist, each part with the number of its segment."""
        names = [n for n in self.schema.names if columns is None or n in columns]
        number, left = 0, self.segments[0].count
        for batch in Rows(schema=self.schema, files=(self.path,)).batches(names):
            rest = pa.Table.from_batches([batch])
            while rest.num_rows:
                while not left:
                    number, left = number + 1, self.segments[number + 1].count
                size = min(left, rest.num_rows)
                yield number, rest.slice(0, size)
                rest, left = rest.slice(size), left - size


def row_files(rows: Rows, senders: Sequence[tuple[int, str]], times: ArrivalTimes) -> list[RowFile]:
    """Return the files of rows, each with its segments; files without rows are left out."""
    assert rows.files is not None
    counted = [(f, pq.read_metadata(f).num_rows) for f in rows.files]
    segments = _segments(rows.num_rows, senders, times)
    found, waiting = [], Segment(0)
    for path, count in counted:
        own, left = [], count
        while left:
            waiting = waiting if waiting.count else next(segments)
            size = min(left, waiting.count)
            own.append(Segment(size, waiting.sender, waiting.clock))
            waiting, left = Segment(waiting.count - size, waiting.sender, waiting.clock), left - size
        if own:
            found.append(RowFile(path, rows.schema, tuple(own)))
    return found


def _segments(count: int, senders: Sequence[tuple[int, str]], times: ArrivalTimes) -> Iterator[Segment]:
    """Yield pairs of a producer and a clock, with the number of their rows."""
    by_sender = _ends(senders) if senders else [(count, None)]
    by_clock = _ends(times) if times else [(count, None)]
    place, sender, clock = 0, 0, 0
    while place < count:
        end = min(by_sender[sender][0], by_clock[clock][0])
        if end > place:
            yield Segment(end - place, by_sender[sender][1], by_clock[clock][1])
        place = end
        sender, clock = sender + (by_sender[sender][0] == end), clock + (by_clock[clock][0] == end)


def _ends(runs: Iterable[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """Return runs by where they end instead of how long they are."""
    found, end = [], 0
    for count, value in runs:
        end += count
        found.append((end, value))
    return found


def new_file(folder: Path, schema: pa.Schema) -> NumberedFile:
    """Return a file of a task."""
    return NumberedFile(folder / f"{uuid.uuid4().hex}.parquet", schema)


def written(file: NumberedFile) -> str | None:
    """Write the end of a file; its path, None where it has no row."""
    file.close()
    return str(file.path) if file.count else None


def rows_of(paths: Iterable[str | Path | None], schema: pa.Schema, count: int) -> Rows:
    """Return rows that tasks wrote. Raises B7036 where their files are not to be seen here."""
    files = tuple(Path(p) for p in paths if p is not None)
    for path in files:
        if not path.exists():
            raise not_shared(path.parent, f"a task wrote {path}, which is not there")
    return Rows(schema=schema, files=files, count=count) if files else Rows(schema.empty_table())


class ScratchFolder:
    """A folder of scratch files that is deleted when no rows hold it."""

    def __init__(self) -> None:
        self.path = scratch_folder(PREFIX)
        weakref.finalize(self, shutil.rmtree, self.path, True)


def let_go(*held: object) -> None:
    """Release objects that a finalizer of rows has held as long as the rows live."""
