"""Read the new files of one table: JSON lines, CSV and Parquet, plain or compressed.

In: files in order of arrival, the table's columns, the source's options. Out: the accepted rows as Arrow, in the order of their files
and lines, and the rejected ones. Small amounts, and files with bounds among their rows, are read in the driver, large ones by Spark's
tasks: by the same code (`pieces`). Which files are new is not decided here.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from belvedere.catalog import Input
from belvedere.connectors.reading.formats import CHUNK_BYTES, MOST_REJECTED, Reading, by_format, first_line
from belvedere.connectors.reading.frames import frames_of
from belvedere.connectors.reading.marks import MarkScratch, has_marks
from belvedere.connectors.reading.reasons import explain_json
from belvedere.connectors.reading.records import FILE, LINE, TEXT
from belvedere.connectors.reading.rows import NOT_JSON, REASON, collectable
from belvedere.connectors.records import RejectedRow, SourceFile, path_text
from belvedere.engine.rows import Rows, fits_parquet
from belvedere.engine.scratch import PREFIX, Scratch, write_frame
from belvedere.errors import BelvedereError, fail
from belvedere.functions.types import quote
from belvedere.schema import Column
from belvedere.temporary import scratch_folder
from belvedere.time.entries import BoundMark

UNREADABLE = "B6022"
PASSING = re.compile(r"memory|space|cancel|abort|shut|lost|timed? ?out|connect", re.I)
"""What says that a machine failed, and not a file."""
FORMAT_NAMES = ("json", "csv", "parquet")
MOST_LINES = 1 << 40
SMALL_BYTES = CHUNK_BYTES
PLACES = pa.schema([(FILE, pa.string()), (LINE, pa.int64()), (REASON, pa.string()), (TEXT, pa.string())])


@dataclass(frozen=True)
class Taken:
    """What an epoch takes from a table's new files: rows with the table's columns, and what was refused.

    `refused` counts rejected rows and files; `rejected` holds the first of them.
    """

    rows: Rows
    rejected: tuple[RejectedRow, ...] = ()
    refused: int = 0
    marks: Iterable[BoundMark] = ()


def read_files(
    spark: SparkSession,
    table: str,
    files: Sequence[SourceFile],
    columns: Sequence[Column],
    options: Mapping[str, Any],
    small_bytes: int | None = None,
    bounds_of: Input | None = None,
    apart: bool = False,
    chunk: int = CHUNK_BYTES,
    most: int | None = None,
) -> Taken:
    """Read all rows of `files` for `table`; control rows are bounds on the input `bounds_of`.

    Up to `small_bytes` (`SMALL_BYTES`) on disk are read in the driver, and those with control rows; `chunk` bytes of rows are held at once.
    `apart`: more rows than that stay in a scratch file, in the order of their files. `most`: so many rows of each file, its first and last.
    A file on which Spark fails though it looked whole is rejected.
    """

    def read(some: Sequence[SourceFile]) -> Taken:
        return _read_files(spark, table, some, columns, options, small_bytes, bounds_of, apart, chunk, most)

    try:
        return read(files)
    except BelvedereError as error:
        if error.diagnostics[0].code != UNREADABLE:
            raise
    faults = {f.path: fault for f in files if (fault := _fault_of(read, f)) is not None}
    if not faults:
        return read(files)  # it was not a file's fault
    taken = read([f for f in files if f.path not in faults])
    bad = tuple(RejectedRow(table, path, None, None, reason) for path, reason in faults.items())
    return replace(taken, rejected=(*bad, *taken.rejected), refused=taken.refused + len(bad))


def _fault_of(read: Callable[[Sequence[SourceFile]], Taken], file: SourceFile) -> str | None:
    """Why Spark cannot read a file by itself; None where it can."""
    try:
        read([file])
    except BelvedereError as error:
        detail = error.diagnostics[0].detail or ""
        if error.diagnostics[0].code != UNREADABLE or PASSING.search(detail):
            raise
        return f"cannot be read by Spark: {detail}"
    return None


def _read_files(
    spark: SparkSession,
    table: str,
    files: Sequence[SourceFile],
    columns: Sequence[Column],
    options: Mapping[str, Any],
    small_bytes: int | None,
    bounds_of: Input | None,
    apart: bool,
    chunk: int,
    most: int | None,
) -> Taken:
    """The same of files on which Spark does not fail. Raises B6022 where it does."""
    wanted = pa.schema([pa.field(c.name, c.type) for c in columns])
    apart = apart and fits_parquet(wanted)
    rows, marks = Scratch(wanted, chunk if apart else sys.maxsize), MarkScratch(table)
    reading = Reading(spark, table, columns, options, chunk, bounds_of=bounds_of, most=most)
    # bounds count for the rows behind them, so their files are read in order
    is_small = sum(f.length for f in files) <= min(SMALL_BYTES if small_bytes is None else small_bytes, chunk)
    in_driver = most is not None or has_marks(reading, files) or is_small
    for format_, group in by_format(files, options):
        if format_ not in FORMAT_NAMES:
            for file in group:
                reading.reject(file.path, "is of no known format: json, csv or parquet")
            continue
        reading.order[:] = [str(path_text(f.path)) for f in group]
        for frame in frames_of(reading, group, in_driver):
            if frame is not None:
                _take(frame, reading, rows, marks, by_executors=apart and not in_driver)
            _place_behind(reading, marks, rows.count)
        _place_behind(reading, marks, rows.count)  # of files without any row
    found = rows.rows()
    rejected = (*reading.rejected_files, *reading.rejected)
    taken = Rows(found) if isinstance(found, pa.Table) else found
    return Taken(taken, rejected, reading.refused, marks.marks())


def _take(frame: DataFrame, reading: Reading, rows: Scratch, marks: MarkScratch, by_executors: bool) -> None:
    """Run the data frame once and part its rows; the control rows found with them are placed."""
    with _ran(frame, reading, rows.schema, by_executors) as found:
        faults = _reject_faults(reading, found.batches([FILE, LINE, REASON]))
        for table in found.tables():
            whole = table.filter(pc.invert(pc.is_in(table[FILE], value_set=faults))) if len(faults) else table
            fits = pc.is_null(whole[REASON])
            _refuse(whole.filter(pc.invert(fits)).select(PLACES.names), reading)
            good = whole.filter(fits)
            _place(good, reading, marks, rows.count)
            rows.add(good.select(rows.schema.names).cast(rows.schema))


@contextmanager
def _ran(frame: DataFrame, reading: Reading, wanted: pa.Schema, by_executors: bool) -> Iterator[Rows]:
    """The rows of a data frame, with places and reasons: in the driver, or written to files by the executors."""
    folder = scratch_folder(PREFIX)
    try:
        frame = collectable(frame)
        if by_executors:
            schema = pa.schema([*(f.with_nullable(True) for f in wanted), *PLACES])
            numbered = frame.select(*[F.col(quote(n)).alias(f"c{k}") for k, n in enumerate(schema.names)])
            yield write_frame(numbered, folder / "read", schema)
        else:
            yield Rows(frame.toArrow())
    except PySparkException as error:
        raise fail(
            UNREADABLE,
            f'the files of table "{reading.table}" could not be read',
            detail=first_line(error),
            hint="move damaged files out of the source's directory",
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _reject_faults(reading: Reading, batches: Iterable[pa.RecordBatch]) -> pa.Array:
    """The files that tasks could not read to their end, each rejected once: of those no row counts. A fault has no line."""
    faults: dict[str, str] = {}
    for batch in batches:
        for row in batch.filter(pc.is_null(batch.column(LINE))).to_pylist():
            faults.setdefault(row[FILE], row[REASON])
    for file, reason in faults.items():
        reading.reject(file, reason)
    return pa.array(list(faults), pa.string())


def _refuse(bad: pa.Table, reading: Reading) -> None:
    first = bad.slice(0, max(0, MOST_REJECTED - len(reading.rejected)))
    reading.refuse(*(_refused(row, reading) for row in first.to_pylist()), more=bad.num_rows - first.num_rows)


def _refused(row: Mapping[str, Any], reading: Reading) -> RejectedRow:
    reason = row[REASON]
    if reason == NOT_JSON:
        reason = explain_json(row[TEXT] or "", reading.columns)
    return RejectedRow(reading.table, row[FILE], row[LINE], row[TEXT], reason)


def _place(good: pa.Table, reading: Reading, marks: MarkScratch, count: int) -> None:
    """Place control rows among rows, which are in the order of their files and lines; `count` rows came before these."""
    if not reading.marks:
        return
    order = {path: n for n, path in enumerate(reading.order)}
    files = pc.index_in(good[FILE], value_set=pa.array(list(order))).to_numpy()
    places = files.astype(np.int64) * MOST_LINES + good[LINE].to_numpy()
    found = np.searchsorted(places, [order[m.path] * MOST_LINES + m.line for m in reading.marks])
    for number, placed in zip(found, reading.marks, strict=True):
        marks.add(BoundMark(count + int(number), placed.act))
    reading.marks.clear()


def _place_behind(reading: Reading, marks: MarkScratch, count: int) -> None:
    """Place control rows behind all rows that came."""
    for placed in reading.marks:
        marks.add(BoundMark(count, placed.act))
    reading.marks.clear()
