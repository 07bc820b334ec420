"""Collect the rows of files: typed rows as they are, other rows with Spark's result.

In: the result of `row_frames` for some files. Out: rows in a scratch, in the order of files and lines; rejected rows in
`FileReading`; control rows among the rows in `MarkScratch`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from belvedere.connectors.into_spark import FEW_BYTES, into_spark
from belvedere.connectors.reading.control_rows import MarkScratch
from belvedere.connectors.reading.file_rows import NOT_JSON, REASON, collectable
from belvedere.connectors.reading.formats import MAX_REJECTED, FileReading, first_line
from belvedere.connectors.reading.json_reasons import explain_json
from belvedere.connectors.reading.part_encoding import task_schema
from belvedere.connectors.reading.row_frames import DriverParts, Found, TaskFiles
from belvedere.connectors.reading.text_records import FAULT, FILE, LINE, TEXT
from belvedere.connectors.reading.typed_records import Places
from belvedere.connectors.run_records import RejectedRow
from belvedere.decode.text_values import Flags
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.engine.rows.scratch_rows import PREFIX, Scratch, uri, write_frame
from belvedere.errors import fail
from belvedere.functions.spark_types import quote
from belvedere.process.temporary_folders import scratch_folder
from belvedere.time.intake_entries import BoundMark
from belvedere.values.rejections import reason_of

UNREADABLE = "B6022"
MAX_LINES = 1 << 40
PLACES = pa.schema([(FILE, pa.string()), (LINE, pa.int64()), (REASON, pa.string()), (TEXT, pa.string())])


def take(found: Found, reading: FileReading, rows: Scratch, marks: MarkScratch, by_executors: bool) -> None:
    """Add the found rows. If `by_executors`, executors write the rows of a data frame to files."""
    if isinstance(found, DriverParts):
        _take_driver_parts(found, reading, rows, marks)
    elif isinstance(found, TaskFiles):
        _take_task_files(found, reading, rows)
    elif found is not None:
        _take_frame(found, reading, rows, marks, by_executors)


def _take_driver_parts(held: DriverParts, reading: FileReading, rows: Scratch, marks: MarkScratch) -> None:
    """Add rows that are in the driver."""
    parts = held.parts
    found = pa.concat_tables([p.rows for p in parts])
    keep = np.ones(found.num_rows, np.bool_)
    left = [p.left for p in parts if p.left is not None]
    if left:
        starts = np.cumsum([0, *(p.rows.num_rows for p in parts)])
        places = np.concatenate([start + p.places for start, p in zip(starts, parts, strict=False)])
        with _ran(reading):
            frame = held.read(into_spark(reading.spark, pa.Table.from_batches(left).combine_chunks(), FEW_BYTES))
            decided = collectable(frame).toArrow()
        found, keep = _with_decided(found, places, decided, reading)
    if reading.left:
        out = np.concatenate([np.isin(p.lines, list(reading.left.get(p.name, ()))) for p in parts]) & keep
        found, keep = found.filter(pa.array(~out[keep])), keep & ~out
        reading.refused += int(out.sum())
    ends = np.cumsum([p.rows.num_rows for p in parts])
    for part, kept in zip(parts, np.split(keep, ends[:-1]), strict=True):
        reading.counts[part.name] += int(kept.sum())
    if reading.marks:
        order = {path: n for n, path in enumerate(reading.order)}
        _place(np.concatenate([order[p.name] * MAX_LINES + p.lines for p in parts])[keep], reading, marks, rows.count)
    rows.add(found)


def _with_decided(found: pa.Table, places: Places, decided: pa.Table, reading: FileReading) -> tuple[pa.Table, Flags]:
    """Return the valid rows, including Spark's rows at `places`, and flags of the positions that have a row."""
    fits = np.asarray(pc.is_null(decided[REASON]).combine_chunks())
    _refuse(decided.filter(pa.array(~fits)).select(PLACES.names), reading)
    keep, index = np.ones(found.num_rows, np.bool_), np.arange(found.num_rows)
    keep[places[~fits]] = False
    index[places[fits]] = found.num_rows + np.arange(int(fits.sum()))
    good = decided.filter(pa.array(fits)).select(found.schema.names).cast(found.schema)
    return pa.concat_tables([found, good]).combine_chunks().take(pa.array(index[keep])), keep


def _take_task_files(of_tasks: TaskFiles, reading: FileReading, rows: Scratch) -> None:
    """Add rows in files that tasks wrote. Spark reads the raw records beside them once more."""
    width = len(rows.schema)
    line = f"c{width + 2 + of_tasks.raw.get_field_index(LINE)}"
    schema = task_schema(of_tasks.form, of_tasks.raw)
    with _ran(reading), _folder() as folder:
        found = write_frame(of_tasks.frame, folder / "read", schema)
        bad = _faulty_files(of_tasks, found, width, reading)
        is_left = F.col(line).isNotNull() & ~F.col(f"c{width}").isin(bad)
        decided = _Decided(of_tasks, found, is_left, folder / "decided", reading)
        for table in found.tables():
            whole = table.filter(pc.invert(pc.is_in(table[f"c{width}"], value_set=pa.array(bad, pa.int32()))))
            places = np.flatnonzero(np.asarray(pc.is_valid(whole[line]).combine_chunks()))
            typed = whole.select(range(width)).rename_columns(rows.schema.names).cast(rows.schema)
            numbers = np.asarray(whole[f"c{width}"].combine_chunks())
            if len(places):
                typed, keep = _with_decided(typed, places, decided.next(len(places)), reading)
                numbers = numbers[keep]
            rows.add(typed)
            for number, count in zip(*np.unique(numbers, return_counts=True), strict=True):
                reading.counts[of_tasks.names[number]] += int(count)


def _faulty_files(of_tasks: TaskFiles, found: Rows, width: int, reading: FileReading) -> list[int]:
    """Reject the files that tasks could not read to their end, and return their numbers. None of their rows counts."""
    fault = f"c{width + 2 + of_tasks.raw.get_field_index(FAULT)}"
    faults: dict[int, str] = {}
    for batch in found.batches([f"c{width}", f"c{width + 1}", fault]):
        for number, _, reason in zip(*batch.filter(pc.is_null(batch.column(1))).to_pydict().values(), strict=True):
            faults.setdefault(number, reason)
    for number, reason in faults.items():
        reading.reject(of_tasks.names[number], reason_of(reason))
    return list(faults)


class _Decided:
    """Spark's results for the raw records of tasks, in order; computed when the first one is needed."""

    def __init__(self, of_tasks: TaskFiles, found: Rows, is_left: Column, folder: Path, reading: FileReading):
        self._of_tasks, self._found, self._is_left, self._folder, self._reading = (
            of_tasks,
            found,
            is_left,
            folder,
            reading,
        )
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._held = 0
        self._some: list[pa.RecordBatch] = []

    def next(self, count: int) -> pa.Table:
        """Return the next `count` results."""
        if self._batches is None:
            self._batches = self._decide().batches()
        while self._held < count:
            self._some.append(next(self._batches))
            self._held += self._some[-1].num_rows
        table = pa.Table.from_batches(self._some)
        rest = table.slice(count)
        self._some, self._held = rest.to_batches(), rest.num_rows
        return table.slice(0, count)

    def _decide(self) -> Rows:
        of_tasks = self._of_tasks
        form, behind = of_tasks.form, len(of_tasks.form.schema) + 2
        written = self._reading.spark.read.parquet(*map(uri, self._found.files or ()))
        ordered = written.where(self._is_left).orderBy(f"c{behind - 1}")
        raw = ordered.select([F.col(f"c{behind + n}").alias(name) for n, name in enumerate(of_tasks.raw.names)])
        frame = collectable(of_tasks.read(raw))
        schema = pa.schema([*form.schema, *PLACES])
        numbered = frame.select(*[F.col(quote(n)).alias(f"c{k}") for k, n in enumerate(schema.names)])
        return write_frame(numbered, self._folder, schema)


def _take_frame(frame: DataFrame, reading: FileReading, rows: Scratch, marks: MarkScratch, by_executors: bool) -> None:
    """Run the data frame once, separate accepted and rejected rows, and place the control rows."""
    with _rows_of(frame, reading, rows.schema, by_executors) as found:
        faults = _reject_faults(reading, found.batches([FILE, LINE, REASON]))
        for table in found.tables():
            whole = table.filter(pc.invert(pc.is_in(table[FILE], value_set=faults))) if len(faults) else table
            fits = pc.is_null(whole[REASON])
            _refuse(whole.filter(pc.invert(fits)).select(PLACES.names), reading)
            good = _without_left(whole.filter(fits), reading)
            if reading.marks:
                files = pc.index_in(good[FILE], value_set=pa.array(reading.order)).to_numpy()
                _place(files.astype(np.int64) * MAX_LINES + good[LINE].to_numpy(), reading, marks, rows.count)
            rows.add(good.select(rows.schema.names).cast(rows.schema))
            reading.counts.update(
                {found["values"]: found["counts"] for found in pc.value_counts(good[FILE]).to_pylist()}
            )


def _without_left(rows: pa.Table, reading: FileReading) -> pa.Table:
    """Return the rows without those of excluded lines."""
    if not reading.left or not rows.num_rows:
        return rows
    places = zip(rows[FILE].to_pylist(), rows[LINE].to_pylist(), strict=True)
    stays = [line not in reading.left.get(file, ()) for file, line in places]
    reading.refused += len(stays) - sum(stays)
    return rows.filter(pa.array(stays))


@contextmanager
def _ran(reading: FileReading) -> Iterator[None]:
    """Raise B6022 if Spark fails inside the block."""
    try:
        yield
    except PySparkException as error:
        raise fail(
            UNREADABLE,
            f'the files of table "{reading.table}" could not be read',
            detail=first_line(error),
            hint="move damaged files out of the source's directory",
        ) from error


@contextmanager
def _folder() -> Iterator[Path]:
    folder = scratch_folder(PREFIX)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _rows_of(frame: DataFrame, reading: FileReading, requested: pa.Schema, by_executors: bool) -> Iterator[Rows]:
    """Return the rows of a data frame, with positions and reasons, in the driver or in files that executors wrote."""
    with _ran(reading), _folder() as folder:
        frame = collectable(frame)
        if by_executors:
            schema = pa.schema([*(f.with_nullable(True) for f in requested), *PLACES])
            numbered = frame.select(*[F.col(quote(n)).alias(f"c{k}") for k, n in enumerate(schema.names)])
            yield write_frame(numbered, folder / "read", schema)
        else:
            yield Rows(frame.toArrow())


def _reject_faults(reading: FileReading, batches: Iterable[pa.RecordBatch]) -> pa.Array:
    """Reject the files that tasks could not read to their end, and return them. None of their rows counts.

    A fault has no line.
    """
    faults: dict[str, str] = {}
    for batch in batches:
        for row in batch.filter(pc.is_null(batch.column(LINE))).to_pylist():
            faults.setdefault(row[FILE], row[REASON])
    for file, reason in faults.items():
        reading.reject(file, reason_of(reason))
    return pa.array(list(faults), pa.string())


def _refuse(bad: pa.Table, reading: FileReading) -> None:
    first = bad.slice(0, max(0, MAX_REJECTED - len(reading.rejected)))
    reading.refuse(*(_refused(row, reading) for row in first.to_pylist()), more=bad.num_rows - first.num_rows)


def _refused(row: Mapping[str, Any], reading: FileReading) -> RejectedRow:
    reason = explain_json(row[TEXT] or "", reading.columns) if row[REASON] == NOT_JSON else reason_of(row[REASON])
    return RejectedRow(reading.table, row[FILE], row[LINE], row[TEXT], reason)


def _place(places: Places, reading: FileReading, marks: MarkScratch, count: int) -> None:
    """Place control rows before and among the rows at these positions, after the first `count` rows.

    Control rows after the last position wait.
    """
    order = {path: n for n, path in enumerate(reading.order)}
    keys = [order[m.path] * MAX_LINES + m.line for m in reading.marks]
    waiting = [m for key, m in zip(keys, reading.marks, strict=True) if not len(places) or key > places[-1]]
    for key, placed in zip(keys[: len(keys) - len(waiting)], reading.marks, strict=False):
        marks.add(BoundMark(count + int(np.searchsorted(places, key)), placed.act))
    reading.marks[:] = waiting


def place_after(reading: FileReading, marks: MarkScratch, count: int) -> None:
    """Place the waiting control rows after all rows so far."""
    for placed in reading.marks:
        marks.add(BoundMark(count, placed.act))
    reading.marks.clear()
