"""Read the new files of one table: JSON lines, CSV and Parquet, plain or compressed.

In: files in order of arrival, the table's columns, the source's options. Out: the accepted rows as Arrow, in the order
of their files and lines, and the rejected ones. The driver reads small amounts, and files with bounds among their rows.
Spark's tasks read large amounts with the same code (`file_pieces`). Another module finds the new files.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from belvedere.catalog.inputs import Input
from belvedere.connectors.executor_tasks import has_executors
from belvedere.connectors.reading.control_rows import MarkScratch, has_marks
from belvedere.connectors.reading.file_pieces import PIECE_BYTES
from belvedere.connectors.reading.formats import CHUNK_BYTES, FileReading, by_format
from belvedere.connectors.reading.row_frames import frames_of
from belvedere.connectors.reading.row_intake import UNREADABLE, place_after, take
from belvedere.connectors.reading.text_records import compression_of
from belvedere.connectors.run_records import RejectedRow, SourceFile, path_text
from belvedere.engine.rows.epoch_rows import Memory, Rows, fits_parquet
from belvedere.engine.rows.gathered_rows import GatheredRows
from belvedere.errors import BelvedereError
from belvedere.schema import Column
from belvedere.time.intake_entries import BoundMark
from belvedere.values.rejections import Reason, RejectionKind

PASSING = re.compile(r"memory|space|cancel|abort|shut|lost|timed? ?out|connect", re.I)
"""Pattern of errors that report a failure of a machine, not of a file."""
FORMAT_NAMES = ("json", "csv", "parquet")
SMALL_BYTES = CHUNK_BYTES
TYPED_BYTES = 256 << 20
"""Maximum bytes of unpacked files that the driver reads if their types fit; tasks on all cores read more."""
SPREAD_BYTES = 4 << 20
"""The same if tasks run in other processes. Their rows stay in files."""
TASKS_OF_CORE = 2
UNPACKED = 4
"""Approximate ratio of the unpacked size to the size of a compressed or Parquet file."""


@dataclass(frozen=True)
class RowsOfFiles:
    """Rows of a table's new files for an epoch: accepted rows with the table's columns, and rejected ones.

    `refused` is the number of rejected rows and files; `rejected` has the first of them.
    """

    rows: Rows
    rejected: tuple[RejectedRow, ...] = ()
    refused: int = 0
    marks: Iterable[BoundMark] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    """Number of rows of each file, by the text of its path."""


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
    memory: Memory | None = None,
    most: int | None = None,
    left: Mapping[str, frozenset[int]] | None = None,
) -> RowsOfFiles:
    """Read all rows of `files` for `table`; control rows are bounds on the input `bounds_of`.

    The driver reads files of up to `small_bytes` (`SMALL_BYTES`) on disk, and those with control rows, with `chunk`
    bytes of rows in memory. `apart`: rows beyond that, and beyond `memory`, stay in a scratch file, in the order of
    their files. `most`: the number of rows to read of each file, from its start and end. `left` are lines, by the text
    of a file's path, that are rejected even if they fit: they were rejected at the first read. A file on which Spark
    fails although it looked complete is rejected.
    """

    def read(some: Sequence[SourceFile]) -> RowsOfFiles:
        return _read_files(
            spark, table, some, columns, options, small_bytes, bounds_of, apart, chunk, memory, most, left or {}
        )

    try:
        return read(files)
    except BelvedereError as error:
        if error.diagnostics[0].code != UNREADABLE:
            raise
    faults = {f.path: fault for f in files if (fault := _fault_of(read, f)) is not None}
    if not faults:
        return read(files)  # the failure was not caused by a file
    taken = read([f for f in files if f.path not in faults])
    bad = tuple(RejectedRow(table, path, None, None, reason) for path, reason in faults.items())
    return replace(taken, rejected=(*bad, *taken.rejected), refused=taken.refused + len(bad))


def _fault_of(read: Callable[[Sequence[SourceFile]], RowsOfFiles], file: SourceFile) -> Reason | None:
    """Return the reason that Spark cannot read a single file; None if it can."""
    try:
        read([file])
    except BelvedereError as error:
        detail = error.diagnostics[0].detail or ""
        if error.diagnostics[0].code != UNREADABLE or PASSING.search(detail):
            raise
        how = "cannot be read by Spark"
        return Reason(f"{how}: {detail}", RejectionKind.FILE, how)
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
    memory: Memory | None,
    most: int | None,
    left: Mapping[str, frozenset[int]],
) -> RowsOfFiles:
    """Read files as `read_files` does. Raises B6022 if Spark fails."""
    requested = pa.schema([pa.field(c.name, c.type) for c in columns])
    apart = apart and fits_parquet(requested)
    rows, marks = GatheredRows(requested, chunk if apart else sys.maxsize, memory), MarkScratch(table)
    reading = FileReading(spark, table, columns, options, chunk, bounds_of=bounds_of, most=most, left=left)
    # bounds apply to the rows after them, so their files are read in order
    must = most is not None or bool(left) or has_marks(reading, files)
    few, size = SMALL_BYTES if small_bytes is None else small_bytes, sum(f.length for f in files)
    reading.in_driver = must or size <= min(few, chunk)
    unpacked = _unpacked_bytes(files)
    reading.stays_in_files = apart and not must and unpacked > SPREAD_BYTES and has_executors(spark)
    typed = SPREAD_BYTES if reading.stays_in_files else TYPED_BYTES
    reading.typed_in_driver = must or (unpacked <= typed if apart and small_bytes is None else reading.in_driver)
    if reading.stays_in_files:
        cores = spark.sparkContext.defaultParallelism
        reading.piece_bytes = min(PIECE_BYTES, max(SPREAD_BYTES, size // (TASKS_OF_CORE * cores)))
    for format_, group in by_format(files, options):
        if format_ not in FORMAT_NAMES:
            for file in group:
                how = "has an unknown format"
                reading.reject(file.path, Reason(f"{how}: json, csv or parquet", RejectionKind.FILE, how))
            continue
        reading.order[:] = [str(path_text(f.path)) for f in group]
        for found in frames_of(reading, group):
            take(found, reading, rows, marks, by_executors=apart and not reading.in_driver)
        place_after(reading, marks, rows.count)  # for files without rows
    rejected = (*reading.rejected_files, *reading.rejected)
    return RowsOfFiles(rows.rows(), rejected, reading.refused, marks.marks(), reading.counts)


def _unpacked_bytes(files: Sequence[SourceFile]) -> int:
    return sum(f.length * (UNPACKED if _is_packed(f.path) else 1) for f in files)


def _is_packed(path: str) -> bool:
    return compression_of(path) is not None or path.lower().endswith((".parquet", ".pq"))
