"""Parquet files as Spark's own scan. Columns are pruned, filters are pushed down, and no row passes through the driver.

In: files and the columns that a query knows. Out: a data frame; None if a row may have to be rejected or cast, which a
reader of files decides (`belvedere.connectors.reading`). Only the files' footers are read here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from belvedere.connectors.reading.formats import format_of
from belvedere.connectors.reading.text_records import READ_ERRORS, open_file
from belvedere.connectors.run_records import SourceFile
from belvedere.engine.rows.scratch_rows import uri
from belvedere.functions.spark_types import quote, type_text
from belvedere.schema import TIMESTAMP, Column
from belvedere.values.time_range import has_times

T = pa.types
UNREAD = "FAILED_READ_FILE"
"""Spark's error class for a file that it cannot read."""


def scan_of(spark: SparkSession, files: Sequence[SourceFile], columns: Sequence[Column]) -> DataFrame | None:
    """Return the rows of Parquet files with these columns."""
    if not files or not all(
        format_of(f.path, {}) == "parquet" and _is_plain_path(f.path) and _fits(f.path, columns) for f in files
    ):
        return None
    frame = spark.read.parquet(*(uri(Path(f.path)) for f in files))
    return frame.select(*(F.col(quote(c.name)).cast(type_text(c.type)).alias(c.name) for c in columns))


def _is_plain_path(path: str) -> bool:
    """Return whether Spark uses a path unchanged. Spark interprets patterns and escapes in paths."""
    return not set(path) & set("*?[]{}\\%") and path.isprintable()


def _fits(path: str, columns: Sequence[Column]) -> bool:
    """Return whether a file has these columns, of these types, and no time outside their range."""
    try:
        with open_file(path) as opened, pq.ParquetFile(opened) as file:
            found = {f.name: f.type for f in file.schema_arrow}
            names = [n.casefold() for n in file.schema_arrow.names]
            fits = len(set(names)) == len(names) and all(
                c.name in found and _is_as(found[c.name], c.type) for c in columns
            )
            return fits and all(_has_usual_times(file.metadata, c) for c in columns if has_times(c.type))
    except READ_ERRORS:
        return False


def _is_as(given: pa.DataType, requested: pa.DataType) -> bool:
    if T.is_dictionary(given):
        return _is_as(given.value_type, requested)
    if T.is_timestamp(given):
        return bool(given.unit in ("ms", "us") and requested == TIMESTAMP)
    if T.is_large_string(given):
        return bool(T.is_string(requested))
    return bool(given == requested and not T.is_nested(given) and not T.is_duration(given))


def _has_usual_times(file: pq.FileMetaData, column: Column) -> bool:
    """Return whether the statistics of a time column show that all values are between the years 1 and 9999."""
    try:
        return all(isinstance(end, date) for end in _ends(file, column.name))
    except (ValueError, OverflowError):
        return False


def _ends(file: pq.FileMetaData, name: str) -> Iterator[object]:
    """Yield the least and greatest values of a column, None if they are not known."""
    place = file.schema.names.index(name)
    for number in range(file.num_row_groups):
        chunk = file.row_group(number).column(place)
        found = chunk.statistics if chunk.is_stats_set else None
        if found is None or not found.has_min_max:
            if found is None or not found.has_null_count or found.null_count < chunk.num_values:
                yield None
            continue
        yield from (found.min, found.max)
