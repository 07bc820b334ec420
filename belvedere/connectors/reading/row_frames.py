"""Files as data frames of rows and reasons: few in the driver, in chunks and in order; many by tasks, one piece each.

In: a `FileReading` and files of one format. Out: data frames (`file_rows`) with rows in the order of the files and
lines. A file that cannot be read to its end is rejected as a whole. The driver detects it before the first row counts;
a task returns a row with the fault (`reader`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from typing import TypeAlias

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from belvedere.connectors.into_spark import FEW_BYTES, into_spark
from belvedere.connectors.reading.computed_ahead import THREADS
from belvedere.connectors.reading.control_rows import without_marks
from belvedere.connectors.reading.csv_text import said_twice
from belvedere.connectors.reading.file_columns import ambiguous_member, unknown_columns, what_header_lacks
from belvedere.connectors.reading.file_pieces import Piece, cut, ends, packed, task_of, what_is_wrong
from belvedere.connectors.reading.file_rows import csv_rows, json_rows, typed_rows
from belvedere.connectors.reading.formats import (
    FileReading,
    csv_header,
    delimiter_of,
    first_line,
    format_of,
    has_header,
)
from belvedere.connectors.reading.parquet import PLACES, parquet_schema
from belvedere.connectors.reading.text_records import READ_ERRORS, RECORDS, first_csv_record
from belvedere.connectors.reading.typed_files import Unmarked, check_whole, is_typed, parts_of
from belvedere.connectors.reading.typed_records import RecordForm, RecordPart
from belvedere.connectors.run_records import SourceFile, path_text
from belvedere.lang.statements.source_tables import refuse_map_keys
from belvedere.values.rejections import Reason, RejectionKind

ReportedShape: TypeAlias = "tuple[str, ...] | pa.Schema"
"""Columns of a file as it declares them: a header, a schema."""
FrameReader: TypeAlias = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class DriverParts:
    """Parts of files in the driver; `read` converts the records that are left for Spark."""

    parts: Sequence[RecordPart]
    read: FrameReader


@dataclass(frozen=True)
class TaskFiles:
    """Files read by tasks: the pieces of each task, the `numbers` of the files by name, the schema of raw records."""

    tasks: Sequence[tuple[Piece, ...]]
    form: RecordForm
    numbers: Mapping[str, int]
    raw: pa.Schema
    read: FrameReader


Found: TypeAlias = "DataFrame | DriverParts | TaskFiles | None"
"""Rows with positions and reasons, or the parts to make them from; None if there were only control rows."""


def frames_of(reading: FileReading, files: Sequence[SourceFile]) -> Iterator[Found]:
    """Yield the rows of files of one format, in order."""
    format_ = format_of(files[0].path, reading.options)
    found = ((file, _reported(reading, file, format_)) for file in files)
    known = (_known(reading, file, reported, format_) for file, reported in found if reported is not None)
    for (reported, typed), group in groupby(known, key=lambda f: f[:2]):
        rows = _rows_of(reading, format_, reported)
        pieces = [piece for _, _, piece in group]
        try:
            if typed:
                form = _form(reading, reported)
                yield from (
                    _parts(reading, pieces, form, rows)
                    if reading.typed_in_driver
                    else _task_files(reading, pieces, form, rows)
                )
            else:
                yield from _in_driver(reading, pieces, rows) if reading.in_driver else _by_tasks(reading, pieces, rows)
        except PySparkException as error:
            if not isinstance(reported, pa.Schema):
                raise
            for piece in pieces:  # a type that Spark lacks, or a repeated name
                how = "has columns that cannot be read"
                reading.reject(piece.path, Reason(f"{how}: {first_line(error)}", RejectionKind.FILE, how))


def _known(
    reading: FileReading, file: SourceFile, reported: ReportedShape, format_: str
) -> tuple[ReportedShape, bool, Piece]:
    """Return the columns that a file declares, and whether most of its records can be read without Spark."""
    piece = _piece(reading, file, format_, reported if isinstance(reported, pa.Schema) else None)
    return reported, reading.most is None and is_typed(piece, _form(reading, reported)), piece


def _form(reading: FileReading, reported: ReportedShape) -> RecordForm:
    return RecordForm(tuple(reading.columns), dict(reading.options), reported if isinstance(reported, tuple) else ())


def _piece(reading: FileReading, file: SourceFile, format_: str, schema: pa.Schema | None) -> Piece:
    name, options = str(path_text(file.path)), dict(reading.options)
    return Piece(file.path, name, format_, options, RECORDS if schema is None else schema, size=file.length)


def _reported(reading: FileReading, file: SourceFile, format_: str) -> ReportedShape | None:
    """Return the columns that a file declares: a header, a schema; None for a file without rows, or a rejected one."""
    try:
        if format_ != "json" and reading.options.get("new_columns") == "reject":
            new = unknown_columns(file.path, format_, reading.columns, reading.options)
            if new:
                said = f'has the column "{next(iter(new))}", which its table does not have'
                reading.reject(file.path, Reason(said, RejectionKind.NEW_COLUMN))
                return None
        if format_ == "parquet":
            found = parquet_schema(file.path, {c.name.casefold() for c in reading.columns})
            if len(found) == len(PLACES):
                reading.reject(file.path, Reason("has none of its table's columns"))
                return None
            return found
        if format_ == "csv":
            delimiter = delimiter_of(file.path, reading.options)
            first = first_csv_record(file.path, delimiter)
            wrong = (
                what_header_lacks(first, delimiter, reading.columns) if first and has_header(reading.options) else None
            )
            if wrong is not None:
                reading.reject(file.path, wrong)
                return None
            return csv_header(first, reading.columns, reading.options) if first else None
        if format_ == "json" and (pair := ambiguous_member(file.path, reading.columns)) is not None:
            reading.reject(file.path, said_twice(pair))
            return None
    except READ_ERRORS as error:
        reading.reject(file.path, what_is_wrong(format_, error))
        return None
    return ()


def _rows_of(reading: FileReading, format_: str, reported: ReportedShape) -> FrameReader:
    if isinstance(reported, pa.Schema):
        return lambda raw: typed_rows(raw, reading.columns)
    refuse_map_keys(reading.table, reading.columns)
    if format_ == "csv":
        return lambda raw: csv_rows(raw, reading.columns, reported, reading.options)
    return lambda raw: json_rows(raw, reading.columns, reading.options)


def _in_driver(reading: FileReading, pieces: Iterable[Piece], rows: FrameReader) -> Iterator[DataFrame | None]:
    held: list[pa.RecordBatch] = []
    size = 0
    for piece in pieces:
        for batch in _known_whole(reading, piece):
            size += batch.nbytes
            if unmarked := without_marks(reading, batch) if piece.format == "json" else batch:
                held.append(unmarked)
            if size > reading.chunk:
                yield _frame(reading, held, rows)
                held, size = [], 0
    if held:
        yield _frame(reading, held, rows)


def _parts(
    reading: FileReading, pieces: Iterable[Piece], form: RecordForm, rows: FrameReader
) -> Iterator[DriverParts | None]:
    """Yield files in the driver, up to `FileReading.chunk` bytes at a time.

    None follows a file without rows, since it may have control rows.
    """
    held: list[RecordPart] = []
    size = 0
    unmarked = None if reading.bounds_of is None else partial(without_marks, reading)
    for piece in pieces:
        for part in _parts_known_whole(reading, piece, form, unmarked):
            held.append(part)
            size += part.nbytes
            if size > reading.chunk:
                yield DriverParts(held, rows)
                held, size = [], 0
    yield DriverParts(held, rows) if held else None


def _parts_known_whole(
    reading: FileReading, piece: Piece, form: RecordForm, unmarked: Unmarked | None
) -> Iterator[RecordPart]:
    """Return the parts of a file after a check that it can be read to its end. Only the bytes of texts are checked.

    At most `FileReading.chunk` bytes are held in memory.
    """
    held: list[RecordPart] = []
    size, before = 0, (len(reading.marks), len(reading.rejected), reading.refused)
    found = parts_of(piece, form, unmarked, THREADS)
    try:
        for part in found:
            held.append(part)
            size += part.nbytes
            if size > reading.chunk:
                check_whole(piece)
                return chain(held, found)
    except READ_ERRORS as error:
        del reading.marks[before[0] :], reading.rejected[before[1] :]
        reading.refused = before[2]
        reading.reject(piece.path, what_is_wrong(piece.format, error))
        return iter(())
    return iter(held)


def _task_files(
    reading: FileReading, files: Iterable[Piece], form: RecordForm, rows: FrameReader
) -> Iterator[TaskFiles]:
    pieces = _cut(reading, files)
    if pieces:
        numbers = {name: n for n, name in enumerate(dict.fromkeys(p.name for p in pieces))}
        yield TaskFiles(packed(pieces, reading.piece_bytes), form, numbers, pieces[0].schema, rows)


def _frame(reading: FileReading, held: Sequence[pa.RecordBatch], rows: FrameReader) -> DataFrame | None:
    return rows(into_spark(reading.spark, pa.Table.from_batches(held).combine_chunks(), FEW_BYTES)) if held else None


def _known_whole(reading: FileReading, piece: Piece) -> Iterator[pa.RecordBatch]:
    """Return the batches of a file after a check that it can be read to its end.

    At most `FileReading.chunk` bytes are held in memory; a larger file is read twice.
    """
    held: list[pa.RecordBatch] = []
    size = 0
    try:
        if reading.most is not None:
            return iter(list(ends(piece, reading.most)))
        found = piece.batches()
        for batch in found:
            held.append(batch)
            size += batch.nbytes
            if size > reading.chunk:
                held.clear()
                deque(found, maxlen=0)
                return piece.batches()
    except READ_ERRORS as error:
        reading.reject(piece.path, what_is_wrong(piece.format, error))
        return iter(())
    return iter(held)


def _by_tasks(reading: FileReading, files: Iterable[Piece], rows: FrameReader) -> Iterator[DataFrame]:
    pieces = _cut(reading, files)
    if pieces:
        tasks = packed(pieces, reading.piece_bytes)
        numbers = reading.spark.range(0, len(tasks), 1, len(tasks))
        yield rows(numbers.mapInArrow(task_of(tasks), from_arrow_schema(pieces[0].schema)))


def _cut(reading: FileReading, files: Iterable[Piece]) -> list[Piece]:
    pieces: list[Piece] = []
    for file in files:
        try:
            pieces += cut(file, reading.piece_bytes)
        except READ_ERRORS as error:
            reading.reject(file.path, what_is_wrong(file.format, error))
    return pieces
