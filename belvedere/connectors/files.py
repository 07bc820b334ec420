"""The connector `files`: a table is `<path>/<Table>/*` and `<path>/<Table>.*`; exports are files named by their epoch.

In: a folder, the names that the store has noted. Out: the files that are new, and their rows. A file is read once, when it appears;
writers put it there whole (write elsewhere, then rename). How files become rows is in `reading`, how events become files in `writing`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from belvedere.connectors.connector import Arrived, OffsetRange, Wanted
from belvedere.connectors.listing import Listing
from belvedere.connectors.reading.infer import options_of, schema_of_files, table_files, table_names
from belvedere.connectors.records import SourceFile, path_text
from belvedere.connectors.writing import SUFFIXES, WRITERS
from belvedere.errors import fail
from belvedere.schema import CONTROL
from belvedere.settings import Sink, Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHUNK_BYTES = 32 << 20
"""So many bytes of rows are read in the driver at once."""
LEAST_CHUNK = 64 << 10


def tables(source: Source) -> tuple[str, ...]:
    """The tables that have files now."""
    return tuple(sorted(table_names(source)))


def columns(source: Source, table: str) -> pa.Schema:
    """The columns of a table, from a sample of its rows. Raises B6102 (a file cannot be read), B6103 (no rows)."""
    return schema_of_files(table, table_files(source, table), options_of(source))


def open_feed(wanted: Wanted) -> FileFeed:
    """The files of one table, and which of them were read."""
    if wanted.source.path is None:
        raise fail("B6020", f'source "{wanted.source.name}" has no path', hint='write `path = "data/..."`')
    return FileFeed(wanted)


class FileFeed:
    """The files of one table. Its offset is their number; their names are in the store, which knows each that was read."""

    def __init__(self, wanted: Wanted):
        source, table = wanted.source, wanted.input
        assert source.path is not None
        self.id, self.table = table.id, wanted.table
        self.options = options_of(source, wanted.options)
        self.columns = wanted.columns
        self.bounded = table if table.watermarks and table.schema.find(CONTROL) is None else None
        self.tells_ignored = table.source is not None and table.source.columns is not None
        self.told: set[str] = set()
        self.chunk = min(CHUNK_BYTES, max(LEAST_CHUNK, wanted.memory // 16))
        self.listing = Listing(str(source.path), self.table, wanted.files)

    def look(self, now: datetime, once: bool) -> OffsetRange | None:
        """The files that were not read yet, oldest first; with `max_files` so many of them."""
        new = sorted(self.listing.new_files(must_list=once), key=lambda f: (f.modified, f.path))
        most = self.options.get("max_files")
        new = new if most is None else new[: max(1, int(most))]
        return OffsetRange({"files": len(self.listing.known) + len(new)}, tuple(new)) if new else None

    def read(self, spark: SparkSession, span: OffsetRange) -> Arrived:
        """The rows of these files."""
        from belvedere.connectors.reading.reader import read_files

        new = cast(tuple[SourceFile, ...], span.content)
        taken = read_files(
            spark, self.id, new, self.columns, self.options, bounds_of=self.bounded, apart=True, chunk=self.chunk
        )
        ignored = {n: p for n, p in taken.ignored.items() if n not in self.told} if self.tells_ignored else {}
        self.told |= ignored.keys()
        notices = tuple(
            f'"{self.table}" has no column "{n}", which {path_text(p)} has: it is ignored' for n, p in ignored.items()
        )
        rows = taken.rows.table if taken.rows.is_collected else taken.rows
        return Arrived(rows, taken.rejected, taken.refused, new, taken.marks, notices)

    def committed(self, span: OffsetRange) -> None:
        """The store has noted the names of these files."""
        self.listing.add(cast(tuple[SourceFile, ...], span.content))

    def close(self) -> None:
        """Nothing is open."""


def write(sink: Sink, target: str, epoch: int, pieces: Iterable[pa.Table]) -> None:
    """A file of its own for the epoch, which appears whole or not at all; the same epoch replaces it."""
    if sink.format not in SUFFIXES:
        raise fail(
            "B6130",
            f'sink "{sink.name}" has the format "{sink.format}", which is not supported',
            hint='write format = "json", "csv" or "parquet"',
        )
    if sink.path is None:
        raise fail("B6131", f'sink "{sink.name}" has no path', hint='write path = "..." in belvedere.toml')
    folder, suffix = sink.path / target, SUFFIXES[sink.format]
    name = f"{target}-{epoch:012d}.{suffix}"
    part = folder / f".{name}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            WRITERS[suffix](pieces, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(folder / name)
    except OSError as error:
        raise fail(
            "B6132",
            f'sink "{sink.name}" cannot write {folder / name}: {error.strerror or error}',
            hint="make room or give rights; what is not delivered stays in the store and delivered at the next start",
        ) from error


__all__ = ["FileFeed", "columns", "open_feed", "tables", "write"]
