"""Read large files with Spark, in parallel; rejected rows carry their file and text, but no line number.

In: a `Reading` and files of one format. Out: data frames of rows and reasons (`source_rows`). Compressed text is first
decompressed to scratch files: that tells truncated ones apart and lets Spark split the work.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from belvedere.spark.records import SourceFile
from belvedere.spark.source_formats import Reading, csv_header, delimiter_of, first_line, has_header
from belvedere.spark.source_rows import BAD, CORRUPT, FIELDS, FILE, LINE, TEXT, csv_rows, json_rows, typed_rows
from belvedere.spark.source_small import read_small_parquet
from belvedere.spark.source_text import REPLACEMENT, compression_of, decompress, first_csv_record

PATH = "_metadata.file_path"


def read_large_json(reading: Reading, files: Sequence[SourceFile]) -> Iterable[DataFrame]:
    """All files as one data frame, line by line."""
    paths = _plain_files(reading, files)
    if not paths:
        return
    lines = reading.spark.read.text([escape_glob(p) for p in paths])
    text = F.trim(F.regexp_replace("value", "^\ufeff", ""))
    raw = lines.select(
        F.col(PATH).alias(FILE),
        F.lit(None).cast("bigint").alias(LINE),
        text.alias(TEXT),
        (~F.is_valid_utf8("value")).alias(BAD),
    ).where(F.col(TEXT) != "")
    yield json_rows(raw, reading.columns, reading.options)


def read_large_csv(reading: Reading, files: Sequence[SourceFile]) -> Iterable[DataFrame]:
    """One data frame per header. Fields with line breaks need the option `multi_line = true` here."""
    groups: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for path in _plain_files(reading, files):
        delimiter = delimiter_of(reading.origins.get(path, path), reading.options)
        first = first_csv_record(path, delimiter)
        if first:
            groups.setdefault((csv_header(first, reading.columns, reading.options), delimiter), []).append(path)
    for (header, delimiter), paths in groups.items():
        names = [f"c{n}" for n in range(len(header))]
        frame = (
            reading.spark.read.schema(", ".join([*(f"{n} STRING" for n in names), f"{CORRUPT} STRING"]))
            .option("header", has_header(reading.options))
            .option("mode", "PERMISSIVE")
            .option("columnNameOfCorruptRecord", CORRUPT)
            .option("columnPruning", False)
            .option("sep", delimiter)
            .option("escape", '"')
            .option("multiLine", bool(reading.options.get("multi_line", False)))
            .csv([escape_glob(p) for p in paths])
        )
        filled = F.array(*[F.coalesce(n, F.lit("")) for n in names])
        # an array of another length tells `csv_rows` that the number of fields was wrong
        fields = F.when(F.col(CORRUPT).isNull(), filled).otherwise(F.split(CORRUPT, f"\\Q{delimiter}\\E"))
        text = F.coalesce(F.col(CORRUPT), F.array_join(filled, delimiter))
        raw = frame.select(
            F.col(PATH).alias(FILE), F.lit(None).cast("bigint").alias(LINE), fields.alias(FIELDS), text.alias(TEXT)
        ).withColumn(BAD, F.col(TEXT).contains(REPLACEMENT))
        yield csv_rows(raw, reading.columns, header, reading.options)


def read_large_parquet(reading: Reading, files: Sequence[SourceFile]) -> Iterable[DataFrame]:
    """One data frame per schema. Nanoseconds, which Spark does not read, go through the driver."""
    groups: dict[str, list[SourceFile]] = {}
    for file in files:
        try:
            schema = pq.read_schema(file.path)
        except (OSError, pa.ArrowException) as error:
            reading.reject(file, f"is not a whole Parquet file: {first_line(error)}")
            continue
        groups.setdefault(schema.to_string(show_schema_metadata=False), []).append(file)
    for schema_text, group in groups.items():
        if "timestamp[ns" in schema_text:
            yield from read_small_parquet(reading, group)
            continue
        frame = reading.spark.read.parquet(*[escape_glob(f.path) for f in group])
        yield typed_rows(frame.select("*", F.col(PATH).alias(FILE), F.lit(None).cast("bigint").alias(LINE)), reading.columns)


LARGE_READERS = {"json": read_large_json, "csv": read_large_csv, "parquet": read_large_parquet}


def escape_glob(path: str) -> str:
    """A path that Hadoop takes literally."""
    return "".join("\\" + c if c in "[]{}*?\\" else c for c in path)


def local_path(uri: str | None) -> str | None:
    """The local path behind a `file:` URI as Spark prints it; other texts as they are."""
    return unquote(urlparse(uri).path) if uri and uri.startswith("file:/") else uri


def _plain_files(reading: Reading, files: Sequence[SourceFile]) -> list[str]:
    """Paths of uncompressed files with the same content."""
    paths = []
    for number, file in enumerate(files):
        if compression_of(file.path) is None:
            paths.append(file.path)
            continue
        target = str(reading.scratch / f"part{number}")
        try:
            decompress(file.path, target)
        except (OSError, EOFError, pa.ArrowException) as error:
            reading.reject(file, f"cannot be read: {first_line(error)}")
            continue
        reading.origins[target] = file.path
        if os.path.getsize(target):
            paths.append(target)
    return paths
