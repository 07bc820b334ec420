"""Format of a file: format, delimiter and header, from the source's options and the file's name.

In: paths and options of the project file. Out: names of formats, and `FileReading`, the shared input of both file
readers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from belvedere.catalog.inputs import Input
from belvedere.connectors.reading.text_records import COMPRESSIONS
from belvedere.connectors.run_records import RejectedRow, SourceFile
from belvedere.schema import Column
from belvedere.time.intake_entries import ProducerAct
from belvedere.values.rejections import Reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}


@dataclass(frozen=True)
class PlacedMark:
    """A control row: its file, its line, and its content."""

    path: str
    line: int
    act: ProducerAct


CHUNK_BYTES = 32 << 20
"""Maximum bytes of rows that the driver reads at once."""
MAX_REJECTED = 10_000
"""Maximum number of rejected rows that are stored with their text; all are counted."""


@dataclass
class FileReading:
    """State of reading new files of one table; rejected rows are collected in `rejected`."""

    spark: SparkSession
    table: str
    columns: Sequence[Column]
    options: Mapping[str, Any]
    chunk: int = CHUNK_BYTES
    """Maximum bytes of rows in memory."""
    rejected: list[RejectedRow] = field(default_factory=list)
    """The first rejected rows; `refused` counts all rejected rows and files."""
    rejected_files: list[RejectedRow] = field(default_factory=list)
    refused: int = 0
    bounds_of: Input | None = None
    """Input whose bounds the control rows are."""
    marks: list[PlacedMark] = field(default_factory=list)
    """Control rows that were found and not yet placed among the rows, in order."""
    order: list[str] = field(default_factory=list)
    """Paths of the present files, in order."""
    counts: Counter[str] = field(default_factory=Counter)
    """Number of rows of each file, by the text of its path."""
    left: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Lines to reject even if they fit, by the text of a file's path."""
    most: int | None = None
    """Number of rows to read of each file, from its start and end; None for all."""
    in_driver: bool = True
    """Whether the driver, not tasks, reads files that Spark must parse."""
    typed_in_driver: bool = True
    """Whether the driver, not tasks, reads files whose types fit."""
    stays_in_files: bool = False
    """Whether rows that tasks have read stay in their files."""
    piece_bytes: int | None = None
    """Approximate bytes of files that a task reads."""

    def reject(self, path: str, reason: Reason) -> None:
        """Reject a whole file that cannot be read."""
        self.refused += 1
        self.rejected_files.append(RejectedRow(self.table, path, None, None, reason))

    def refuse(self, *rows: RejectedRow, more: int = 0) -> None:
        """Record rejected rows, and `more` without their text."""
        self.refused += len(rows) + more
        self.rejected += rows[: max(0, MAX_REJECTED - len(self.rejected))]


def by_format(files: Iterable[SourceFile], options: Mapping[str, Any]) -> Iterable[tuple[str, list[SourceFile]]]:
    """Group consecutive files of one format; files of no known format are under the empty name."""
    return [(name, list(group)) for name, group in groupby(files, lambda f: format_of(f.path, options))]


def format_of(path: str, options: Mapping[str, Any]) -> str:
    """Return `json`, `csv` or `parquet`, by the source's options or the file's name; else an empty text."""
    if options.get("format"):
        return str(options["format"]).lower()
    name = Path(path)
    if name.suffix.lower() in COMPRESSIONS:
        name = name.with_suffix("")
    return FORMATS.get(name.suffix.lower(), "")


def delimiter_of(path: str, options: Mapping[str, Any]) -> str:
    """Return the delimiter of CSV fields: that of the source, a tab for `.tsv`, else a comma."""
    return str(options.get("delimiter") or ("\t" if ".tsv" in Path(path).suffixes else ","))


def has_header(options: Mapping[str, Any]) -> bool:
    """Return whether the first record of a CSV file names its columns (the default)."""
    return bool(options.get("header", True))


def time_formats(options: Mapping[str, Any], format_: str) -> tuple[str, ...]:
    """Return the formats of times in files (`timestamp_format`, one or a list).

    They apply to CSV, and to JSON if the option `format` is `json`.
    """
    said = options.get("timestamp_format")
    if said is None or (format_ != "csv" and str(options.get("format", "")).lower() != format_):
        return ()
    return tuple(map(str, said)) if isinstance(said, list | tuple) else (str(said),)


def csv_header(first: Sequence[str], columns: Sequence[Column], options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a CSV file's fields: its first record, or the table's columns without a header."""
    return tuple(first) if has_header(options) else tuple(c.name for c in columns)


def first_line(error: BaseException) -> str:
    """Return the part of an error's text that is useful for users."""
    return str(error).strip().split("\n")[0][:300] or type(error).__name__
