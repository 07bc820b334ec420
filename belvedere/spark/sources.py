"""The sources of a script: what each input reads from, how far it has read, and what an epoch takes.

In: the catalog's imports, the project file, and from the store the last epoch's offsets and the files read so far. Out: one
streaming data frame over all sources that says what is new, and per batch the arrivals with rejected rows, files and offsets.
The store is the authority on what was read: a file that it knows is never read again, whatever a checkpoint says.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession

from belvedere.catalog import Catalog, Input
from belvedere.engine.lost_rows import refuse_changed_inputs
from belvedere.engine.rows import Rows
from belvedere.errors import fail
from belvedere.instants import microseconds
from belvedere.intake.desk import OFFSET, Desk
from belvedere.schema import INGEST_TIME, ROWTIME, UID
from belvedere.settings import Project
from belvedere.spark.arrived import Arrived
from belvedere.spark.generator import SensorTable
from belvedere.spark.late import judge
from belvedere.spark.records import FILES, RejectedRow, SourceFile
from belvedere.spark.source_tables import FileTable
from belvedere.store.protocol import EpochRow, Reader
from belvedere.time.event_time import Clocks, pass_time
from belvedere.time.intake import Intake, Waiting


class TableSource(Protocol):
    """One input's side of a source."""

    id: str
    needs_tick: bool
    """Whether time alone brings rows."""

    def listing(self, spark: SparkSession) -> DataFrame | None:
        """A streaming data frame of what is new (source, path, length, modified), or None."""

    def take(self, spark: SparkSession, files: Sequence[SourceFile], now: datetime, once: bool) -> Arrived | None:
        """What is new as rows; None for nothing. Changes nothing: the same call gives the same rows again."""

    def committed(self, arrived: Arrived) -> None:
        """The epoch that took `arrived` is in the store."""

    def offset(self) -> Mapping[str, Any]:
        """How far it has read, as JSON values."""


class Pushes(Protocol):
    """What clients push: `belvedere.intake.desk.Desk`."""

    @property
    def has_waiting(self) -> bool: ...

    def waiting(self, now: int | None = None) -> Waiting: ...

    def committed(self, waiting: Waiting, clocks: Clocks) -> None: ...

    def offset(self, waiting: Waiting) -> Mapping[str, Any]: ...

    def wait(self, seconds: float) -> None: ...


class Unpushed(Intake):
    """The clocks of a script that nobody can push to."""

    has_waiting = False

    def offset(self, waiting: Waiting) -> Mapping[str, Any]:
        """There is no journal."""
        return {}

    def wait(self, seconds: float) -> None:
        """Nothing comes in the meantime."""
        time.sleep(seconds)


@dataclass(frozen=True)
class Batch:
    """Everything an epoch takes: what arrived by input id, what was pushed; the rows to use, and the clocks after all of it."""

    arrived: Mapping[str, Arrived]
    waiting: Waiting
    arrivals: Mapping[str, pa.Table | Rows | DataFrame]
    clocks: Clocks

    def __bool__(self) -> bool:
        """Whether there is anything new."""
        return bool(self.arrived or self.waiting.entries)

    @property
    def rejected(self) -> list[RejectedRow]:
        pushed = [
            RejectedRow(i, "pushed", m.index + 1, m.text, m.reason)
            for i, found in self.waiting.malformed.items()
            for m in found
        ]
        return [r for a in self.arrived.values() for r in a.rejected] + pushed

    @property
    def refused(self) -> dict[str, int]:
        """How many rows and files were refused, by input id."""
        files = {i: a.refused for i, a in self.arrived.items() if a.refused}
        return files | {i: len(m) for i, m in self.waiting.malformed.items()}

    @property
    def notices(self) -> tuple[str, ...]:
        return tuple(n for a in self.arrived.values() for n in a.notices)

    @property
    def files(self) -> list[tuple[str, SourceFile]]:
        return [(i, f) for i, a in self.arrived.items() for f in a.files]


class Sources:
    """All sources of a script."""

    def __init__(self, catalog: Catalog, tables: Iterable[TableSource], pushes: Pushes):
        self.catalog = catalog
        self.tables = {t.id: t for t in tables}
        self.pushes = pushes
        self._has_idle = any(w.idle_after is not None for t in catalog.inputs.values() for w in t.watermarks)

    @property
    def needs_tick(self) -> bool:
        """Whether some source has rows that only time brings."""
        return any(t.needs_tick for t in self.tables.values())

    def stream(self, spark: SparkSession, tick: bool) -> DataFrame | None:
        """The one streaming data frame over all sources; with `tick` each trigger has a row. None where there is nothing to watch."""
        listings = [listing for t in self.tables.values() if (listing := t.listing(spark)) is not None]
        if not listings and not self.needs_tick:
            return None
        if tick or not listings:
            listings.append(_ticks(spark))
        return reduce(DataFrame.unionByName, listings)

    def take(self, spark: SparkSession, listed: Iterable[Row], now: datetime, once: bool = False) -> Batch:
        """What is new. A file that is listed twice, or again, counts once."""
        files: dict[str, dict[str, SourceFile]] = {}
        for row in listed:
            if row["path"] is not None:
                path = row["path"].removeprefix("file:")
                found = SourceFile(path, row["length"], row["modified"].replace(tzinfo=UTC))
                files.setdefault(row["source"], {})[path] = found
        arrived = {}
        for id_, table in self.tables.items():
            taken = table.take(spark, list(files.get(id_, {}).values()), now, once)
            if taken is not None:
                arrived[id_] = taken
        waiting = self.pushes.waiting(microseconds(now))
        read = {i: a.rows for i, a in arrived.items() if a.rows.num_rows or a.marks}
        used, clocks = judge(self.catalog, waiting.clocks, read, now, {i: a.marks for i, a in arrived.items()})
        used = {i: rows for i, rows in used.items() if isinstance(rows, DataFrame) or rows.num_rows}
        for id_, taken in arrived.items():
            clocks = clocks.counted(id_, taken.refused, malformed=taken.refused) if taken.refused else clocks
        return Batch(arrived, waiting, used | waiting.arrivals(self.catalog), clocks)

    def idles(self, now: datetime) -> bool:
        """Whether a bound rises by the time alone: a producer has been silent for too long."""
        if not self._has_idle:
            return False
        clocks = self.pushes.waiting().clocks
        return pass_time(clocks, self.catalog, microseconds(now)) != clocks

    def offsets(self, batch: Batch) -> dict[str, Any]:
        """The offsets of all sources by input id, once `batch` is committed; that of the journal under its own name."""
        offsets = {i: dict(t.offset()) for i, t in self.tables.items()}
        offsets |= {i: dict(a.offset) for i, a in batch.arrived.items()}
        journal = self.pushes.offset(batch.waiting)
        return offsets | ({OFFSET: journal} if journal else {})

    def committed(self, batch: Batch, clocks: Clocks) -> None:
        """The epoch that took `batch` is in the store, and left the clocks at `clocks`."""
        for id_, arrived in batch.arrived.items():
            self.tables[id_].committed(arrived)
        self.pushes.committed(batch.waiting, clocks)


def open_sources(
    catalog: Catalog,
    project: Project,
    last: EpochRow | None,
    read_files: Mapping[str, set[str]],
    fresh: Iterable[str] = (),
    desk: Desk | None = None,
) -> Sources:
    """The sources of a catalog's imports, as far as the store has read them; from their start for inputs in `fresh`.

    `desk` takes what clients push. Raises B7031 where an input that they push to has changed: its rows cannot be read again.
    """
    renewed = set(fresh)
    if last is not None:
        refuse_changed_inputs(catalog, renewed & set(last.extra.get("meanings", {})))
    offsets = {} if last is None else last.offsets
    tables = []
    for id_, table in catalog.inputs.items():
        if table.source is not None:
            known = set() if id_ in renewed else read_files.get(id_, set())
            offset = {} if id_ in renewed else offsets.get(id_, {})
            tables.append(_open(table, project, offset, known))
    return Sources(catalog, tables, desk or Unpushed(catalog, Clocks.of_document(last.bounds) if last else Clocks()))


def _open(table: Input, project: Project, offset: Mapping[str, Any], known: set[str]) -> TableSource:
    assert table.source is not None
    source = project.source(table.source.source)
    if source is None:
        raise fail(
            "B6020",
            f'the project file has no source "{table.source.source}"',
            span=table.span,
            hint=f"write [sources.{table.source.source}] into belvedere.toml",
        )
    # nested data is hidden, its nested tables show it, but it comes in the rows
    columns = tuple(c for c in table.schema if not c.hidden or c.name not in (UID, INGEST_TIME, ROWTIME))
    if source.connector == "sensors":
        return SensorTable.open(table.id, table.source.table, source.options, offset)
    if source.connector == "files" and source.path is not None:
        options = {**source.options, **table.source.options, **({"format": source.format} if source.format else {})}
        return FileTable(table, source.path, columns, options, known, project.driver_memory)
    raise fail("B6020", f'source "{source.name}" has the connector "{source.connector}", which cannot be read')


def files_read(reader: Reader) -> dict[str, set[str]]:
    """The paths that the store says were read, by input id."""
    found: dict[str, set[str]] = {}
    table = reader.rows(FILES)
    for source, path in zip(table["source"].to_pylist(), table["path"].to_pylist(), strict=True):
        found.setdefault(source, set()).add(path)
    return found


def _ticks(spark: SparkSession) -> DataFrame:
    """One row per trigger, so that time alone starts a batch."""
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1).load()
    return rate.selectExpr("'' AS source", "CAST(NULL AS STRING) AS path", "value AS length", "timestamp AS modified")
