"""Late rows of large inputs: tasks judge the rows of a file each, against the bounds with which the file begins.

In: rows in files, the clocks before them. Out: what `late_rows.judge` gives of the same rows in the driver. A first job
reads the event times alone: the greatest of each file move the clocks, with which the next file begins; where no row is
late and no column is filled on arrival, the files stay as they are. Else a second job writes the rows that are used and
the late ones.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from belvedere.catalog.inputs import Input, LatePolicy
from belvedere.engine.by_tasks.file_tasks import (
    FileTasks,
    RowFile,
    ScratchFolder,
    let_go,
    new_file,
    row_files,
    rows_of,
    run_file_tasks,
    written,
)
from belvedere.engine.rows.epoch_rows import Rows, fits_parquet
from belvedere.engine.rows.scratch_rows import NumberedFile
from belvedere.schema import WEIGHT
from belvedere.time.arrival_columns import ArrivalTimes, is_filled_on_arrival, with_arrival, with_times
from belvedere.time.event_time import (
    Clocks,
    Counts,
    EventTimes,
    LateRow,
    TimeSpan,
    admit,
    late_rows,
    log_points,
    moved_by,
    taken_times,
    time_span,
)
from belvedere.time.pending_arrivals import log_late_row

LATE = pa.schema([("column", pa.string()), ("time", pa.int64()), ("bound", pa.int64())])
"""Columns that tasks write for the log of late rows."""


class JudgedRows(NamedTuple):
    """The used rows, the late ones, the clocks after them, and the times of arrival of both."""

    used: Rows
    late: Rows | None
    clocks: Clocks
    times: ArrivalTimes
    late_times: ArrivalTimes


@dataclass
class SegmentVerdict:
    """Verdict of a task on a segment."""

    taken: int = 0
    late: int = 0
    arrived: bool = False
    greatest: dict[str, int] = field(default_factory=dict)
    span: TimeSpan = field(default_factory=TimeSpan)

    def add(self, times: EventTimes, taken: int, late: int, span: TimeSpan | None = None) -> None:
        """Count more rows of the segment."""
        both = self.times.plus(times)
        self.arrived, self.greatest = both.arrived, dict(both.greatest)
        self.taken, self.late = self.taken + taken, self.late + late
        self.span = self.span if span is None else self.span.plus(span)

    @property
    def times(self) -> EventTimes:
        """Return the event times of the rows."""
        return EventTimes(self.arrived, self.greatest)

    def times_from(self, bound: int | None) -> EventTimes:
        """Return the event times of the used rows of a segment that begins with a bound.

        Unless all its times are late, its greatest time is that of a used row. A row without a time is always used.
        """
        if bound is None or (self.span.greatest is not None and self.span.greatest >= bound):
            return self.times
        return EventTimes(self.span.untimed)

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> SegmentVerdict:
        """Read a verdict from the answer of a task."""
        return cls(**{**document, "span": TimeSpan(**document["span"])})


@dataclass(frozen=True)
class TimesTask:
    """Reads the event times of a file: their span, and how many rows are late by their own segment."""

    rows: RowFile
    table: Input
    now: int

    def __call__(self) -> Any:
        names = [*(w.column for w in self.table.watermarks), WEIGHT]
        verdicts = [SegmentVerdict() for _ in self.rows.segments]
        own = [Clocks() for _ in self.rows.segments]
        for number, given in self.rows.parts(names):
            segment = self.rows.segments[number]
            part = with_times(self.table, given, self.now if segment.clock is None else segment.clock)
            admission = admit(own[number], self.table, part, self.now, segment.sender)
            own[number] = admission.clocks
            times, span = taken_times(self.table, part), time_span(self.table, part)
            verdicts[number].add(times, admission.taken.num_rows, len(admission.late), span)
        return [asdict(v) for v in verdicts]


@dataclass(frozen=True)
class JudgeTask:
    """Judges the rows of a file. Used rows go into one file, late ones as rows of `LATE(T)` into another."""

    rows: RowFile
    table: Input
    late_table: Input | None
    clocks: Clocks
    now: int
    folder: Path

    def __call__(self) -> Any:
        verdicts, clocks = [SegmentVerdict() for _ in self.rows.segments], self.clocks
        used = new_file(self.folder, used_schema(self.table, self.rows.schema, self.now))
        log = new_file(self.folder, LATE)
        late = None
        if self.late_table is not None:
            late = new_file(self.folder, late_schema(self.table, self.late_table, self.rows.schema, self.now))
        for number, given in self.rows.parts():
            segment = self.rows.segments[number]
            part = with_arrival(self.table, given, self.now if segment.clock is None else segment.clock)
            admission = admit(clocks, self.table, part, self.now, segment.sender)
            clocks = admission.clocks
            verdicts[number].add(
                taken_times(self.table, admission.taken), admission.taken.num_rows, len(admission.late)
            )
            _add(used, admission.taken)
            if admission.late:
                found = [(r.column, r.time, r.bound) for r in admission.late]
                columns = zip(zip(*found, strict=True), LATE, strict=True)
                _add(log, pa.table([pa.array(c, f.type) for c, f in columns], schema=LATE))
                if late is not None and self.late_table is not None:
                    _add(late, late_rows(self.table, self.late_table, part, admission.late))
        return {
            "segments": [asdict(v) for v in verdicts],
            "used": written(used),
            "log": written(log),
            "late": None if late is None else written(late),
        }


def _add(file: NumberedFile, rows: pa.Table) -> None:
    for batch in rows.combine_chunks().to_batches():
        file.add(batch)


def used_schema(table: Input, given: pa.Schema, now: int) -> pa.Schema:
    """Return the columns of used rows, of which arrival may have filled some."""
    return with_arrival(table, given.empty_table(), now).schema


def late_schema(table: Input, late_table: Input, given: pa.Schema, now: int) -> pa.Schema:
    """Return the columns of late rows."""
    return late_rows(table, late_table, with_arrival(table, given.empty_table(), now), ()).schema


def may_judge(tasks: FileTasks | None, table: Input, given: Any) -> bool:
    """Return whether tasks judge these rows: many in files. With several event times each row needs those before it."""
    return (
        tasks is not None
        and isinstance(given, Rows)
        and given.files is not None
        and tasks.spreads(given.num_rows)
        and (table.late is LatePolicy.KEEP or len(table.watermarks) == 1)
        and fits_parquet(used_schema(table, given.schema, 0))
    )


def judge_by_tasks(
    tasks: FileTasks,
    table: Input,
    late_table: Input | None,
    clocks: Clocks,
    given: Rows,
    now: int,
    senders: Sequence[tuple[int, str]],
    times: ArrivalTimes,
) -> JudgedRows:
    """Judge rows in files. Raises B7036 where the files of tasks are not to be seen here."""
    files, sent = row_files(given, senders, times), replace(table, source=None, checks=())
    work = _FileJudging(tasks, sent, late_table and replace(late_table, source=None, checks=()), clocks, now, files)
    verdicts, answers = work.judge()
    counts, moved = clocks.counts.get(table.id, Counts()), clocks
    used_times: list[tuple[int, int]] = []
    late_times: list[tuple[int, int]] = []
    for file, segments in zip(files, verdicts, strict=True):
        for segment, verdict in zip(file.segments, segments, strict=True):
            moved = moved_by(moved, table, verdict.times, now, segment.sender)
            moved = moved.counted(table.id, segment.count, verdict.late)
            at = now if segment.clock is None else segment.clock
            used_times.append((verdict.taken, at))
            late_times += [(verdict.late, at)] if verdict.late else []
    _log(table, counts.late, verdicts, answers)
    used = given if not answers else work.used(given, verdicts, answers)
    late = work.late(given, answers, sum(n for n, _ in late_times))
    return JudgedRows(used, late, moved, ArrivalTimes.of(used_times), ArrivalTimes.of(late_times))


class _FileJudging:
    """The jobs over the files of one input."""

    def __init__(
        self,
        tasks: FileTasks,
        table: Input,
        late_table: Input | None,
        clocks: Clocks,
        now: int,
        files: Sequence[RowFile],
    ):
        self._tasks, self._table, self._late_table = tasks, table, late_table
        self._clocks, self._now, self._files = clocks, now, files
        self._folder: ScratchFolder | None = None

    def judge(self) -> tuple[list[list[SegmentVerdict]], dict[int, Any]]:
        """Return the verdicts on all segments; by file the answers on those whose rows were written again."""
        fills = is_filled_on_arrival(self._table)
        keeps = self._table.late is LatePolicy.KEEP
        if keeps and fills:
            starts = [self._clocks for _ in self._files]
            verdicts: list[list[SegmentVerdict]] = [[] for _ in self._files]
            again = list(range(len(self._files)))
        else:
            found = run_file_tasks(self._tasks, [TimesTask(f, self._table, self._now) for f in self._files])
            verdicts = [[SegmentVerdict.of_document(s) for s in answer] for answer in found]
            starts, late = self._starts(verdicts)
            again = [n for n, is_late in enumerate(late) if fills or is_late]
        if not again:
            return verdicts, {}
        folder = self._folder = ScratchFolder()
        work = [
            JudgeTask(self._files[n], self._table, self._late_table, starts[n], self._now, folder.path) for n in again
        ]
        answers = dict(zip(again, run_file_tasks(self._tasks, work), strict=True))
        return [
            [SegmentVerdict.of_document(s) for s in answers[n]["segments"]] if n in answers else kept
            for n, kept in enumerate(verdicts)
        ], answers

    def _starts(self, verdicts: Sequence[Sequence[SegmentVerdict]]) -> tuple[list[Clocks], list[bool]]:
        """Return the clocks at the start of each file, and whether it may have late rows. Late rows move no bound."""
        clocks, starts, late = Clocks(self._clocks.streams), [], []
        for file, segments in zip(self._files, verdicts, strict=True):
            starts.append(clocks)
            is_late = False
            for segment, verdict in zip(file.segments, segments, strict=True):
                bound, least = self._bound(clocks, segment.sender), verdict.span.least
                is_late |= bool(verdict.late) or (bound is not None and least is not None and least < bound)
                clocks = moved_by(clocks, self._table, verdict.times_from(bound), self._now, segment.sender)
            late.append(is_late)
        return starts, late

    def _bound(self, clocks: Clocks, sender: str | None) -> int | None:
        """Return the bound below which rows of a producer are late."""
        if self._table.late is LatePolicy.KEEP:
            return None
        return clocks.clock(self._table.id, self._table.watermarks[0].column).least_for(sender)

    def used(self, given: Rows, verdicts: Iterable[Iterable[SegmentVerdict]], answers: Mapping[int, Any]) -> Rows:
        """Return the used rows: files that stay, and those that tasks wrote."""
        files = [answers[n]["used"] if n in answers else f.path for n, f in enumerate(self._files)]
        count = sum(v.taken for segments in verdicts for v in segments)
        found = rows_of(files, used_schema(self._table, given.schema, self._now), count)
        weakref.finalize(found, let_go, self._folder, given)
        return found

    def late(self, given: Rows, answers: Mapping[int, Any], count: int) -> Rows | None:
        """Return the late rows as rows of `LATE(T)`."""
        if not count or self._late_table is None:
            return None
        schema = late_schema(self._table, self._late_table, given.schema, self._now)
        found = rows_of([a["late"] for a in answers.values()], schema, count)
        weakref.finalize(found, let_go, self._folder)
        return found


def _log(table: Input, before: int, verdicts: Iterable[Iterable[SegmentVerdict]], answers: Mapping[int, Any]) -> None:
    """Log the first, the tenth, the hundredth ... late row of an input, from the files that tasks wrote."""
    counts = [sum(v.late for v in segments) for segments in verdicts]
    ends = np.cumsum(counts)
    for number in log_points(before, before + int(ends[-1]) if len(ends) else before):
        file = int(np.searchsorted(ends, number - before))
        place = number - before - 1 - int(ends[file] - counts[file])
        with pq.ParquetFile(answers[file]["log"]) as opened:
            column, time, bound = (c[place].as_py() for c in opened.read().columns)
        log_late_row(table, number, LateRow(place, column, time, bound))
