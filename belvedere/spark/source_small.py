"""Read small files in the driver, and large ones with bounds among their rows: rows come in order, with line numbers.

In: a `Reading` and files of one format. Out: data frames of rows and reasons (`source_rows`), each over a chunk of the files. A file that
cannot be read to its end is rejected as a whole: it is known to be whole before the first of its rows counts.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from belvedere.spark.records import SourceFile
from belvedere.spark.source_formats import Reading, csv_header, delimiter_of, first_line, format_of, has_header
from belvedere.spark.source_marks import take_mark
from belvedere.spark.source_rows import BAD, FIELDS, FILE, LINE, TEXT, csv_rows, json_rows, typed_rows
from belvedere.spark.source_text import TextRecord, read_csv_records, read_json_records
from belvedere.store.pieces import in_pieces

Placed = list[tuple[str, TextRecord]]
RECORD_BYTES = 300
"""What a record or a control row takes besides its text."""
T = TypeVar("T")


def read_small_json(reading: Reading, files: Sequence[SourceFile]) -> Iterable[DataFrame]:
    """The records of all files, a chunk of them as one data frame; one without records has control rows alone."""
    for chunk in _chunks(_rows_of(reading, files), reading):
        yield json_rows(reading.spark.createDataFrame(_text_table(chunk)), reading.columns, reading.options)


def _rows_of(reading: Reading, files: Sequence[SourceFile]) -> Iterator[tuple[str, TextRecord | None]]:
    """All records with their files; None in place of a control row, which is in `reading.marks` then, or refused."""
    for file in files:
        for record in _records(reading, file):
            yield file.path, None if take_mark(reading, file.path, record) else record


def _chunks(records: Iterable[tuple[str, TextRecord | None]], reading: Reading) -> Iterator[Placed]:
    """Records as many as are held at once; none where control rows alone are as many."""
    held: Placed = []
    size = 0
    for path, record in records:
        size += RECORD_BYTES
        if record is not None:
            held.append((path, record))
            size += len(record.text)
        if size > reading.chunk:
            yield held
            held, size = [], 0
    if held:
        yield held


def read_small_csv(reading: Reading, files: Sequence[SourceFile]) -> Iterable[DataFrame]:
    """Data frames of chunks of records, each of files with the same header."""
    for header, run in groupby(_csv_records(reading, files), key=lambda r: r[0]):
        for body in _chunks(((path, record) for _, path, record in run), reading):
            table = _text_table(body).append_column(FIELDS, pa.array([r.fields for _, r in body], pa.list_(pa.string())))
            yield csv_rows(reading.spark.createDataFrame(table), reading.columns, header, reading.options)


def _csv_records(reading: Reading, files: Sequence[SourceFile]) -> Iterator[tuple[tuple[str, ...], str, TextRecord]]:
    """All records with their header and file."""
    for file in files:
        header: tuple[str, ...] | None = None
        for record in _records(reading, file):
            if header is None:
                header = csv_header(record.fields or [], reading.columns, reading.options)
                if has_header(reading.options):
                    continue
            yield header, file.path, record


def read_small_parquet(reading: Reading, files: Sequence[SourceFile]) -> Iterable[DataFrame]:
    """One data frame per file, or per chunk of a large one: each file may have types of its own."""
    for file in files:
        try:
            pieces = _known_whole(partial(_parquet_pieces, file.path, reading.chunk), lambda t: t.nbytes, reading.chunk)
        except (OSError, pa.ArrowException) as error:
            reading.reject(file, f"is not a whole Parquet file: {first_line(error)}")
            continue
        first = 1
        for table in pieces:
            placed = table.append_column(FILE, pa.array([file.path] * table.num_rows))
            placed = placed.append_column(LINE, pa.array(range(first, first + table.num_rows), pa.int64()))
            first += table.num_rows
            try:
                frame = typed_rows(reading.spark.createDataFrame(placed), reading.columns)
            except PySparkException as error:
                reading.reject(file, f"has columns of types that cannot be read: {first_line(error)}")
                break
            yield frame


def _parquet_pieces(path: str, size: int) -> Iterator[pa.Table]:
    with pq.ParquetFile(path) as file:
        batches = (b for b in file.iter_batches() if b.num_rows)
        for piece in in_pieces(batches, size, file.schema_arrow):
            if piece.num_rows:
                piece.validate(full=True)  # a damaged file may hold any bytes as text
                yield plain_types(piece.combine_chunks())


def _known_whole(read: Callable[[], Iterator[T]], size: Callable[[T], int], most: int) -> Iterator[T]:
    """What `read` gives, once it is known to get to its end; so much of it is held meanwhile, what is more is read again."""
    held: list[T] = []
    total = 0
    found = read()
    for item in found:
        held.append(item)
        total += size(item)
        if total > most:
            held.clear()
            deque(found, maxlen=0)
            return read()
    return iter(held)


SMALL_READERS = {"json": read_small_json, "csv": read_small_csv, "parquet": read_small_parquet}

_PLAIN = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}


def plain_types(table: pa.Table) -> pa.Table:
    """The table with types that Spark has: no dictionaries, no unsigned integers, microseconds in UTC."""
    return pa.table([_plain(column) for column in table.columns], names=table.column_names)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    type_ = column.type
    if pa.types.is_dictionary(type_):
        return _plain(column.cast(type_.value_type))
    if pa.types.is_timestamp(type_):
        return column.cast(pa.timestamp("us", tz="UTC"), safe=False)
    return column.cast(_PLAIN[type_]) if type_ in _PLAIN else column


def _records(reading: Reading, file: SourceFile) -> Iterator[TextRecord]:
    """All records of a text file, or none and a rejection where it cannot be read to its end."""
    read = partial(read_json_records, file.path)
    if format_of(file.path, reading.options) == "csv":
        read = partial(read_csv_records, file.path, delimiter_of(file.path, reading.options))
    try:
        return _known_whole(read, lambda r: len(r.text) + RECORD_BYTES, reading.chunk)
    except (OSError, EOFError, pa.ArrowException, csv.Error) as error:
        reading.reject(file, f"cannot be read: {first_line(error)}")
        return iter(())


def _text_table(records: Placed) -> pa.Table:
    return pa.table(
        {
            FILE: pa.array([path for path, _ in records], pa.string()),
            LINE: pa.array([r.line for _, r in records], pa.int64()),
            TEXT: pa.array([r.text for _, r in records], pa.string()),
            BAD: pa.array([r.bad for _, r in records], pa.bool_()),
        }
    )
