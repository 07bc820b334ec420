"""Read small files in the driver: rows come in order, with line numbers.

In: a `Reading` and files of one format. Out: data frames of rows and reasons (`source_rows`). A file that cannot be read to its
end is rejected as a whole.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from belvedere.spark.records import SourceFile
from belvedere.spark.source_formats import Reading, csv_header, delimiter_of, first_line, format_of, has_header
from belvedere.spark.source_marks import take_mark
from belvedere.spark.source_rows import BAD, FIELDS, FILE, LINE, TEXT, csv_rows, json_rows, typed_rows
from belvedere.spark.source_text import TextRecord, read_csv_records, read_json_records

Placed = Sequence[tuple[str, TextRecord]]


def read_small_json(reading: Reading, files: Sequence[SourceFile]) -> Iterable[DataFrame]:
    """All files' records as one data frame."""
    records = [(f.path, r) for f in files for r in _records(reading, f) if not take_mark(reading, f.path, r)]
    if records:
        yield json_rows(reading.spark.createDataFrame(_text_table(records)), reading.columns, reading.options)


def read_small_csv(reading: Reading, files: Sequence[SourceFile]) -> Iterable[DataFrame]:
    """One data frame per run of files with the same header."""
    runs: list[tuple[tuple[str, ...], list[tuple[str, TextRecord]]]] = []
    for file in files:
        records = _records(reading, file)
        if not records:
            continue
        header = csv_header(records[0].fields or [], reading.columns, reading.options)
        body = [(file.path, r) for r in (records[1:] if has_header(reading.options) else records)]
        if runs and runs[-1][0] == header:
            runs[-1][1].extend(body)
        else:
            runs.append((header, body))
    for header, body in runs:
        if body:
            table = _text_table(body).append_column(FIELDS, pa.array([r.fields for _, r in body], pa.list_(pa.string())))
            yield csv_rows(reading.spark.createDataFrame(table), reading.columns, header, reading.options)


def read_small_parquet(reading: Reading, files: Sequence[SourceFile]) -> Iterable[DataFrame]:
    """One data frame per file: each may have types of its own."""
    for file in files:
        try:
            table = plain_types(pq.ParquetFile(file.path).read())
        except (OSError, pa.ArrowException) as error:
            reading.reject(file, f"is not a whole Parquet file: {first_line(error)}")
            continue
        if table.num_rows:
            placed = table.append_column(FILE, pa.array([file.path] * table.num_rows))
            placed = placed.append_column(LINE, pa.array(range(1, table.num_rows + 1), pa.int64()))
            yield typed_rows(reading.spark.createDataFrame(placed), reading.columns)


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


def _records(reading: Reading, file: SourceFile) -> list[TextRecord]:
    """All records of a text file, or none and a rejection where it cannot be read to its end."""
    try:
        if format_of(file.path, reading.options) == "csv":
            return list(read_csv_records(file.path, delimiter_of(file.path, reading.options)))
        return list(read_json_records(file.path))
    except (OSError, EOFError, pa.ArrowException, csv.Error) as error:
        reading.reject(file, f"cannot be read: {first_line(error)}")
        return []


def _text_table(records: Placed) -> pa.Table:
    return pa.table(
        {
            FILE: pa.array([path for path, _ in records], pa.string()),
            LINE: pa.array([r.line for _, r in records], pa.int64()),
            TEXT: pa.array([r.text for _, r in records], pa.string()),
            BAD: pa.array([r.bad for _, r in records], pa.bool_()),
        }
    )
