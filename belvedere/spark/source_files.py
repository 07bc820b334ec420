"""Read the new files of one table: JSON lines, CSV and Parquet, plain or compressed.

In: files in order of arrival, the table's columns, the source's options. Out: the accepted rows as Arrow, and the rejected
ones. Small amounts are read in the driver (`source_small`), large ones by Spark (`source_large`). Which files are new is not
decided here.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from belvedere.errors import fail
from belvedere.schema import Column
from belvedere.spark.records import RejectedRow, SourceFile
from belvedere.spark.source_formats import Reading, by_format, first_line
from belvedere.spark.source_large import LARGE_READERS, local_path
from belvedere.spark.source_rows import FILE, LINE, NOT_JSON, REASON, TEXT, collectable, explain_json
from belvedere.spark.source_small import SMALL_READERS

SMALL_BYTES = 32 << 20
"""Up to so many bytes on disk a table's new files are read in the driver."""
KEPT_REJECTED = 10_000
"""So many rejected rows of a data frame are kept with their text; all are counted."""


@dataclass(frozen=True)
class Taken:
    """What an epoch takes from a table's new files: rows with the table's columns, and what was refused.

    `refused` counts rejected rows and files; `rejected` holds the first of them.
    """

    rows: pa.Table
    rejected: tuple[RejectedRow, ...] = ()
    refused: int = 0


def read_files(
    spark: SparkSession,
    table: str,
    files: Sequence[SourceFile],
    columns: Sequence[Column],
    options: Mapping[str, Any],
    small_bytes: int = SMALL_BYTES,
) -> Taken:
    """Read all rows of `files` for `table`. Raises a diagnostic B6003 where Spark fails on files that looked whole."""
    wanted = pa.schema([pa.field(c.name, c.type) for c in columns])
    rows: list[pa.Table] = []
    rejected: list[RejectedRow] = []
    refused = 0
    readers = SMALL_READERS if sum(f.length for f in files) <= small_bytes else LARGE_READERS
    with tempfile.TemporaryDirectory(prefix="belvedere-read-") as scratch:
        reading = Reading(spark, table, columns, options, Path(scratch))
        for format_, group in by_format(files, options).items():
            if format_ not in readers:
                for file in group:
                    reading.reject(file, "is of no known format: json, csv or parquet")
                continue
            for frame in readers[format_](reading, group):
                taken = _collect(frame, reading, wanted)
                rows.append(taken.rows)
                rejected += taken.rejected
                refused += taken.refused
    whole = len(reading.rejected)
    return Taken(pa.concat_tables([wanted.empty_table(), *rows]), (*reading.rejected, *rejected), whole + refused)


def _collect(frame: DataFrame, reading: Reading, wanted: pa.Schema) -> Taken:
    """Run the data frame once and part its rows."""
    try:
        found = collectable(frame).toArrow()
    except PySparkException as error:
        raise fail(
            "B6003",
            f'the files of table "{reading.table}" could not be read',
            detail=first_line(error),
            hint="move damaged files out of the source's directory",
        ) from error
    fits = pc.is_null(found[REASON])
    bad = found.filter(pc.invert(fits)).select([FILE, LINE, TEXT, REASON])
    kept = tuple(_refused(row, reading) for row in bad.slice(0, KEPT_REJECTED).to_pylist())
    return Taken(found.filter(fits).select(wanted.names).cast(wanted), kept, bad.num_rows)


def _refused(row: Mapping[str, Any], reading: Reading) -> RejectedRow:
    path, reason = local_path(row[FILE]), row[REASON]
    if reason == NOT_JSON:
        reason = explain_json(row[TEXT] or "", reading.columns)
    return RejectedRow(reading.table, reading.origins.get(path or "", path), row[LINE], row[TEXT], reason)
