"""Collect the rows of files: typed rows as they are, other rows with Spark's result.

In: the result of `row_frames` for some files. Out: rows in a scratch, in the order of files and lines; rejected rows in
`FileReading`; control rows among the rows in `MarkScratch`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from belvedere.connectors.executor_tasks import SparkTasks
from belvedere.connectors.into_spark import FEW_BYTES, into_spark
from belvedere.connectors.reading.control_rows import MarkScratch
from belvedere.connectors.reading.file_rows import NOT_JSON, REASON, collectable
from belvedere.connectors.reading.formats import MAX_REJECTED, FileReading, first_line
from belvedere.connectors.reading.json_reasons import explain_json
from belvedere.connectors.reading.read_tasks import (
    PLACES,
    TASK_BITS,
    ReadTask,
    Verdicts,
    VerdictTask,
    left_schema,
    rejected_rows,
    with_decided,
)
from belvedere.connectors.reading.row_frames import DriverParts, Found, TaskFiles
from belvedere.connectors.reading.text_records import FILE, LINE, TEXT
from belvedere.connectors.reading.typed_records import Places
from belvedere.connectors.run_records import RejectedRow
from belvedere.engine.by_tasks.file_tasks import ScratchFolder, rows_of, run_file_tasks
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.engine.rows.gathered_rows import GatheredRows
from belvedere.engine.rows.scratch_rows import PREFIX, uri, write_frame
from belvedere.errors import fail
from belvedere.functions.spark_types import quote
from belvedere.process.temporary_folders import scratch_folder
from belvedere.time.intake_entries import BoundMark
from belvedere.values.rejections import reason_of

UNREADABLE = "B6022"
MAX_LINES = 1 << 40


def take(found: Found, reading: FileReading, rows: GatheredRows, marks: MarkScratch, by_executors: bool) -> None:
    """Add the found rows. If `by_executors`, executors write the rows of a data frame to files."""
    if isinstance(found, DriverParts):
        _take_driver_parts(found, reading, rows, marks)
    elif isinstance(found, TaskFiles):
        _take_task_files(found, reading, rows)
    elif found is not None:
        _take_frame(found, reading, rows, marks, by_executors)


def _take_driver_parts(held: DriverParts, reading: FileReading, rows: GatheredRows, marks: MarkScratch) -> None:
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
        _refuse(decided.filter(pc.is_valid(decided[REASON])).select(PLACES.names), reading)
        found, keep = with_decided(found, places, decided)
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


def _take_task_files(of_tasks: TaskFiles, reading: FileReading, rows: GatheredRows) -> None:
    """Add rows in files that tasks wrote. Spark reads the raw records beside them once more."""
    folder = ScratchFolder()
    tasks = [
        ReadTask(pieces, of_tasks.form, of_tasks.numbers, n << TASK_BITS, folder.path)
        for n, pieces in enumerate(of_tasks.tasks)
    ]
    with _ran(reading):
        answers = run_file_tasks(SparkTasks(reading.spark), tasks)
        names = list(of_tasks.numbers)
        faults = {number: reason for answer in reversed(answers) for number, reason in answer["faults"]}
        for number in sorted(faults):
            reading.reject(names[number], reason_of(faults[number]))
        answers = _with_verdicts(of_tasks, answers, frozenset(faults), folder.path, reading)
    for answer in answers:
        for number, count in answer["runs"]:
            reading.counts[names[number]] += count
    count = sum(n for answer in answers for _, n in answer["runs"])
    found = rows_of([answer["rows"] for answer in answers], rows.schema, count)
    if reading.stays_in_files and count:
        rows.add_files(found, folder)
    else:
        for table in found.tables():
            rows.add(table)


def _with_verdicts(
    of_tasks: TaskFiles, answers: Sequence[Any], bad: frozenset[int], folder: Path, reading: FileReading
) -> list[Any]:
    """Return the answers, after a second task for files with raw records or faults. Add rejected rows to `reading`."""
    left = [sum(n for number, n in answer["lefts"] if number not in bad) for answer in answers]
    decided = _decided(of_tasks, answers, bad, folder, reading) if any(left) else None
    slices = _slices(decided.files or (), left) if decided is not None else [()] * len(answers)
    schema = pa.schema([*of_tasks.form.schema, *PLACES])
    again = [n for n, a in enumerate(answers) if left[n] or any(number in bad for number, _ in a["runs"])]
    tasks = [
        VerdictTask(
            answers[n]["rows"],
            answers[n]["left"],
            answers[n]["runs"],
            of_tasks.raw,
            of_tasks.form,
            bad,
            Verdicts(slices[n], schema),
            folder,
        )
        for n in again
    ]
    changed = run_file_tasks(SparkTasks(reading.spark), tasks)
    refused = sum(answer["refused"] for answer in changed)
    if refused:
        most = max(0, MAX_REJECTED - len(reading.rejected))
        first = list(islice(rejected_rows([answer["rejected"] for answer in changed]), most))
        reading.refuse(*(_refused(row, reading) for row in first), more=refused - len(first))
    by_task = dict(zip(again, changed, strict=True))
    return [by_task.get(n, answer) for n, answer in enumerate(answers)]


def _decided(
    of_tasks: TaskFiles, answers: Sequence[Any], bad: frozenset[int], folder: Path, reading: FileReading
) -> Rows:
    """Return Spark's results for the raw records of tasks, in order, in files."""
    form, given = of_tasks.form, left_schema(of_tasks.raw)
    numbered = pa.schema([f.with_name(f"c{n}").with_nullable(True) for n, f in enumerate(given)])
    files = [uri(Path(answer["left"])) for answer in answers if answer["left"] is not None]
    written = reading.spark.read.schema(from_arrow_schema(numbered)).parquet(*files)
    ordered = written.where(~F.col("c0").isin(list(bad))).orderBy("c1")
    raw = ordered.select([F.col(f"c{n + 2}").alias(name) for n, name in enumerate(of_tasks.raw.names)])
    frame = collectable(of_tasks.read(raw))
    schema = pa.schema([*form.schema, *PLACES])
    columns = frame.select(*[F.col(quote(n)).alias(f"c{k}") for k, n in enumerate(schema.names)])
    return write_frame(columns, folder / "decided", schema)


def _slices(files: Sequence[Path], counts: Sequence[int]) -> list[tuple[tuple[Path, int, int], ...]]:
    """Divide the rows of files among tasks by their numbers of rows: a file, its first row, a number of rows."""
    sizes = iter([(f, pq.read_metadata(f).num_rows) for f in files])
    found, path, place, size = [], Path(), 0, 0
    for count in counts:
        own, left = [], count
        while left:
            while place == size:
                (path, size), place = next(sizes), 0
            some = min(left, size - place)
            own.append((path, place, some))
            place, left = place + some, left - some
        found.append(tuple(own))
    return found


def _take_frame(
    frame: DataFrame, reading: FileReading, rows: GatheredRows, marks: MarkScratch, by_executors: bool
) -> None:
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
