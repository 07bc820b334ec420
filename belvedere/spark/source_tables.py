"""One input fed by files: `<path>/<Table>/*` or `<path>/<Table>.*`.

In: the directory, the table's columns, the files read so far. Out: a streaming listing of its files, and rows of those that
are new. A file is read once, when it appears; writers put it there whole (write elsewhere, then rename).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from belvedere.catalog import Input
from belvedere.schema import CONTROL, Column
from belvedere.spark.arrived import Arrived
from belvedere.spark.compute import DRIVER_MEMORY
from belvedere.spark.records import SourceFile, path_text
from belvedere.spark.source_files import read_files
from belvedere.spark.source_formats import CHUNK_BYTES
from belvedere.spark.source_large import escape_glob

BINARY_FILE = "path string, modificationTime timestamp, length bigint, content binary"
BEYOND_HISTORY = "36500d"
LEAST_CHUNK = 64 << 10


class FileTable:
    """The files of one table, and which of them were read."""

    needs_tick = False

    def __init__(
        self,
        table: Input,
        directory: Path,
        columns: Sequence[Column],
        options: Mapping[str, Any],
        known: set[str],
        driver_memory: int = DRIVER_MEMORY,
    ):
        assert table.source is not None
        self.id = table.id
        self.bounded = table if table.watermarks and table.schema.find(CONTROL) is None else None
        self.table = table.source.table
        self.directory = directory
        self.columns = [replace(c, nullable=c.nullable and c.name not in table.primary_key) for c in columns]
        self.options = options
        self.known = known
        self.tells_ignored = table.source.columns is not None
        self.told: set[str] = set()
        self.chunk = min(CHUNK_BYTES, max(LEAST_CHUNK, driver_memory // 16))

    def listing(self, spark: SparkSession) -> DataFrame:
        """New files by name: Spark's file source keeps track, and the content is not touched here."""
        # files that were copied late keep their old modification time: by default Spark would skip those older than a week
        reader = spark.readStream.format("binaryFile").schema(BINARY_FILE).option("maxFileAge", BEYOND_HISTORY)
        if "max_files" in self.options:
            reader = reader.option("maxFilesPerTrigger", int(self.options["max_files"]))
        pattern = f"{escape_glob(str(self.directory / self.table))}{{/*,.*}}"
        return reader.load(pattern).select(
            F.lit(self.id).alias("source"), "path", "length", F.col("modificationTime").alias("modified")
        )

    def take(self, spark: SparkSession, files: Sequence[SourceFile], now: datetime, once: bool) -> Arrived | None:
        """Rows of the files that were not read yet, oldest file first."""
        new = sorted((f for f in files if self._counts(f.path)), key=lambda f: (f.modified, f.path))
        if not new:
            return None
        taken = read_files(
            spark, self.id, new, self.columns, self.options, bounds_of=self.bounded, apart=True, chunk=self.chunk
        )
        read = {"files": len(self.known) + len(new)}
        rows = taken.rows if taken.apart is None else taken.apart
        ignored = {n: p for n, p in taken.ignored.items() if n not in self.told} if self.tells_ignored else {}
        self.told |= ignored.keys()
        notices = tuple(
            f'"{self.table}" has no column "{n}", which {path_text(p)} has: it is ignored' for n, p in ignored.items()
        )
        return Arrived(rows, read, taken.rejected, taken.refused, tuple(new), taken.marks, notices)

    def _counts(self, path: str) -> bool:
        """Whether it is new and finished: writers give unfinished files and directories names with `.` or `_` in front."""
        below = path.removeprefix(str(self.directory))
        return path_text(path) not in self.known and not any(part.startswith((".", "_")) for part in Path(below).parts)

    def committed(self, arrived: Arrived) -> None:
        self.known.update(str(path_text(f.path)) for f in arrived.files)

    def offset(self) -> Mapping[str, Any]:
        return {"files": len(self.known)}
