"""Files as data frames of rows and reasons: few through the driver, in chunks and in order; many by tasks, a piece each.

In: a `Reading` and files of one format. Out: data frames (`rows`), whose rows are in the order of the files and lines. A file that cannot
be read to its end is rejected as a whole: in the driver before its first row counts, in tasks by a row with its fault (`reader`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from belvedere.connectors.reading.columns import ambiguous_member, unknown_columns, what_header_lacks
from belvedere.connectors.reading.csv_text import said_twice
from belvedere.connectors.reading.formats import Reading, csv_header, delimiter_of, first_line, format_of, has_header
from belvedere.connectors.reading.marks import without_marks
from belvedere.connectors.reading.parquet import PLACES, parquet_schema
from belvedere.connectors.reading.pieces import Piece, cut, ends, packed, task_of, what_is_wrong
from belvedere.connectors.reading.records import READ_ERRORS, RECORDS, first_csv_record
from belvedere.connectors.reading.rows import csv_rows, json_rows, typed_rows
from belvedere.connectors.records import SourceFile, path_text
from belvedere.lang.source_tables import refuse_map_keys

FrameReader = Callable[[DataFrame], DataFrame]


def frames_of(reading: Reading, files: Sequence[SourceFile], in_driver: bool) -> Iterator[DataFrame | None]:
    """The data frames of files of one format; None where control rows alone came."""
    format_ = format_of(files[0].path, reading.options)
    found = ((file, _told(reading, file, format_)) for file in files)
    known = ((file, told) for file, told in found if told is not None)
    for told, group in groupby(known, key=lambda f: f[1]):
        rows = _rows_of(reading, format_, told)
        schema = told if isinstance(told, pa.Schema) else None
        pieces = [_piece(reading, f, format_, schema) for f, _ in group]
        try:
            yield from _in_driver(reading, pieces, rows) if in_driver else _by_tasks(reading, pieces, rows)
        except PySparkException as error:
            if schema is None:
                raise
            for piece in pieces:  # its types are none of Spark's, or a name is there twice
                reading.reject(piece.path, f"has columns that cannot be read: {first_line(error)}")


def _piece(reading: Reading, file: SourceFile, format_: str, schema: pa.Schema | None) -> Piece:
    name, options = str(path_text(file.path)), dict(reading.options)
    return Piece(file.path, name, format_, options, RECORDS if schema is None else schema, size=file.length)


def _told(reading: Reading, file: SourceFile, format_: str) -> tuple[str, ...] | pa.Schema | None:
    """What a file says of its columns: a header, a schema; None for a file without rows, or one that is rejected."""
    try:
        if format_ != "json" and reading.options.get("new_columns") == "reject":
            new = unknown_columns(file.path, format_, reading.columns, reading.options)
            if new:
                reading.reject(file.path, f'has the column "{next(iter(new))}", which its table has not')
                return None
        if format_ == "parquet":
            found = parquet_schema(file.path, {c.name.casefold() for c in reading.columns})
            if len(found) == len(PLACES):
                reading.reject(file.path, "has none of its table's columns")
                return None
            return found
        if format_ == "csv":
            delimiter = delimiter_of(file.path, reading.options)
            first = first_csv_record(file.path, delimiter)
            wrong = what_header_lacks(first, delimiter, reading.columns) if first and has_header(reading.options) else None
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


def _rows_of(reading: Reading, format_: str, told: tuple[str, ...] | pa.Schema) -> FrameReader:
    if isinstance(told, pa.Schema):
        return lambda raw: typed_rows(raw, reading.columns)
    refuse_map_keys(reading.table, reading.columns)
    if format_ == "csv":
        return lambda raw: csv_rows(raw, reading.columns, told, reading.options)
    return lambda raw: json_rows(raw, reading.columns, reading.options)


def _in_driver(reading: Reading, pieces: Iterable[Piece], rows: FrameReader) -> Iterator[DataFrame | None]:
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


def _frame(reading: Reading, held: Sequence[pa.RecordBatch], rows: FrameReader) -> DataFrame | None:
    return rows(reading.spark.createDataFrame(pa.Table.from_batches(held).combine_chunks())) if held else None


def _known_whole(reading: Reading, piece: Piece) -> Iterator[pa.RecordBatch]:
    """The batches of a file once it is known to be read to its end; few are held meanwhile, more are read again."""
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


def _by_tasks(reading: Reading, files: Iterable[Piece], rows: FrameReader) -> Iterator[DataFrame]:
    pieces: list[Piece] = []
    for file in files:
        try:
            pieces += cut(file)
        except READ_ERRORS as error:
            reading.reject(file.path, what_is_wrong(file.format, error))
    if pieces:
        tasks = packed(pieces)
        numbers = reading.spark.range(0, len(tasks), 1, len(tasks))
        yield rows(numbers.mapInArrow(task_of(tasks), from_arrow_schema(pieces[0].schema)))
