"""Read the new files of one table: JSON lines, CSV and Parquet, plain or compressed.

In: files in order of arrival, the table's columns, the source's options. Out: the accepted rows as Arrow, in the order of their files
and lines, and the rejected ones. Small amounts, and files with bounds among their rows, are read in the driver, large ones by Spark's
tasks: by the same code (`pieces`). Which files are new is not decided here.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from belvedere.catalog import Input
from belvedere.connectors.reading.columns import unknown_columns
from belvedere.connectors.reading.formats import CHUNK_BYTES, MOST_REJECTED, PlacedMark, Reading, by_format, first_line
from belvedere.connectors.reading.frames import frames_of
from belvedere.connectors.reading.marks import MarkScratch, has_marks
from belvedere.connectors.reading.reasons import explain_json
from belvedere.connectors.reading.records import FILE, LINE, TEXT
from belvedere.connectors.reading.rows import NOT_JSON, REASON, collectable
from belvedere.connectors.reading.spool import reject_faults, spool, without
from belvedere.connectors.records import RejectedRow, SourceFile, path_text
from belvedere.engine.rows import Rows, fits_parquet
from belvedere.engine.scratch import Scratch, scratch_rows
from belvedere.errors import BelvedereError, fail
from belvedere.schema import Column
from belvedere.temporary import process_folder
from belvedere.time.entries import BoundMark

FORMAT_NAMES = ("json", "csv", "parquet")
MOST_LINES = 1 << 40
SMALL_BYTES = CHUNK_BYTES


@dataclass(frozen=True)
class Taken:
    """What an epoch takes from a table's new files: rows with the table's columns, and what was refused.

    `refused` counts rejected rows and files; `rejected` holds the first of them.
    """

    rows: pa.Table
    rejected: tuple[RejectedRow, ...] = ()
    refused: int = 0
    marks: Iterable[BoundMark] = ()
    apart: Rows | None = None
    """Instead of `rows`: many rows, in scratch files."""
    ignored: Mapping[str, str] = field(default_factory=dict)
    """Columns that the table does not have, each with the first file that has it."""

    @property
    def num_rows(self) -> int:
        """How many rows there are, wherever."""
        return int(self.rows.num_rows) if self.apart is None else self.apart.num_rows


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
) -> Taken:
    """Read all rows of `files` for `table`; control rows are bounds on the input `bounds_of`.

    Up to `small_bytes` (`SMALL_BYTES`) on disk are read in the driver, and those with control rows; `chunk` bytes of rows are held at once.
    `apart`: more rows than that stay in scratch files, in the order of their files.
    Raises a diagnostic B6022 where Spark fails on files that looked whole.
    """
    wanted = pa.schema([pa.field(c.name, c.type) for c in columns])
    rows: list[pa.Table | Rows | Scratch] = []
    count = 0
    marks = MarkScratch(table)
    apart = apart and fits_parquet(wanted)
    with tempfile.TemporaryDirectory(dir=process_folder()) as scratch:
        reading = Reading(spark, table, columns, options, Path(scratch), chunk, bounds_of=bounds_of)
        # bounds count for the rows behind them, so their files are read in order
        is_marked = has_marks(reading, files)
        is_small = sum(f.length for f in files) <= min(SMALL_BYTES if small_bytes is None else small_bytes, chunk)
        for format_, group in by_format(files, options):
            if format_ not in FORMAT_NAMES:
                for file in group:
                    reading.reject(file.path, "is of no known format: json, csv or parquet")
                continue
            reading.order[:] = [str(path_text(f.path)) for f in group]
            for file in group:
                for name in unknown_columns(file.path, format_, columns, options):
                    reading.ignored.setdefault(name, file.path)
            in_driver = is_marked or is_small
            take = _spool if apart and not in_driver else _collect
            for frame in frames_of(reading, group, in_driver):
                taken = Taken(wanted.empty_table()) if frame is None else take(frame, reading, wanted)
                for mark in taken.marks:
                    marks.add(BoundMark(mark.position + count, mark.act))
                count += taken.num_rows
                _put(rows, taken, wanted, chunk if apart else None)
                if frame is None:
                    _place_behind(reading, marks, count)
            _place_behind(reading, marks, count)  # of files without any row, or behind the last one
    found, many = _together([r.rows() if isinstance(r, Scratch) else r for r in rows], wanted)
    rejected = (*reading.rejected_files, *reading.rejected)
    return Taken(found, rejected, reading.refused, marks.marks(), many, dict(reading.ignored))


def _place_behind(reading: Reading, marks: MarkScratch, count: int) -> None:
    for placed in reading.marks:
        marks.add(BoundMark(count, placed.act))
    reading.marks.clear()


def _put(parts: list[pa.Table | Rows | Scratch], taken: Taken, wanted: pa.Schema, few: int | None) -> None:
    """More rows; `few` bytes of tables are held at most."""
    if taken.apart is not None or few is None:
        parts.append(taken.rows if taken.apart is None else taken.apart)
        return
    last = parts[-1] if parts else None
    if not isinstance(last, Scratch):
        last = Scratch(wanted, few)
        parts.append(last)
    last.add(taken.rows)


def _together(parts: Sequence[pa.Table | Rows], wanted: pa.Schema) -> tuple[pa.Table, Rows | None]:
    tables = [p for p in parts if isinstance(p, pa.Table)]
    if len(tables) == len(parts):
        return pa.concat_tables([wanted.empty_table(), *tables]), None
    held = [Rows(p) if isinstance(p, pa.Table) else p for p in parts]
    if len(held) > 1:
        held = [scratch_rows(pa.RecordBatchReader.from_batches(wanted, (b for p in held for b in p.batches())))]
    return wanted.empty_table(), held[0]


def _spool(frame: DataFrame, reading: Reading, wanted: pa.Schema) -> Taken:
    """Run the data frame once; its rows stay in scratch files."""
    try:
        found = spool(frame, reading, wanted, MOST_REJECTED)
    except PySparkException as error:
        raise _unreadable(reading, error) from error
    reading.refuse(*(_refused(r, reading) for r in found.refused.to_pylist()), more=found.refused_rows - found.refused.num_rows)
    return Taken(wanted.empty_table(), apart=found.rows)


def _unreadable(reading: Reading, error: PySparkException) -> BelvedereError:
    return fail(
        "B6022",
        f'the files of table "{reading.table}" could not be read',
        detail=first_line(error),
        hint="move damaged files out of the source's directory",
    )


def _collect(frame: DataFrame, reading: Reading, wanted: pa.Schema) -> Taken:
    """Run the data frame once and part its rows; the control rows found with them are placed."""
    try:
        found = collectable(frame).toArrow()
    except PySparkException as error:
        raise _unreadable(reading, error) from error
    found = without(reject_faults(reading, found.select([FILE, LINE, REASON]).to_batches()), found)
    fits = pc.is_null(found[REASON])
    bad = found.filter(pc.invert(fits)).select([FILE, LINE, TEXT, REASON])
    first = bad.slice(0, max(0, MOST_REJECTED - len(reading.rejected)))
    reading.refuse(*(_refused(row, reading) for row in first.to_pylist()), more=bad.num_rows - first.num_rows)
    good = found.filter(fits)
    marks = _placed(good, reading, reading.marks)
    reading.marks.clear()
    return Taken(good.select(wanted.names).cast(wanted), marks=marks)


def _placed(good: pa.Table, reading: Reading, marks: Sequence[PlacedMark]) -> tuple[BoundMark, ...]:
    """How many of the rows come before each control row. The rows are in the order of their files and lines."""
    if not marks:
        return ()
    order: dict[str, int] = {}
    for path in (*reading.order, *good[FILE].unique().to_pylist()):
        order.setdefault(path, len(order))
    files = pc.index_in(good[FILE], value_set=pa.array(list(order))).to_numpy()
    places = files.astype(np.int64) * MOST_LINES + good[LINE].to_numpy()
    found = np.searchsorted(places, [order[m.path] * MOST_LINES + m.line for m in marks])
    return tuple(BoundMark(int(n), m.act) for n, m in zip(found, marks, strict=True))


def _refused(row: Mapping[str, Any], reading: Reading) -> RejectedRow:
    reason = row[REASON]
    if reason == NOT_JSON:
        reason = explain_json(row[TEXT] or "", reading.columns)
    return RejectedRow(reading.table, row[FILE], row[LINE], row[TEXT], reason)
