"""The connector `sensors`: rows of the built-in sensors become due as time passes.

In: the source's options and the offset in the store. Out: the rows that are due and not read yet. Row number i is
always the same (`belvedere.connectors.sensor_data`), so a crash between reading and committing changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from belvedere.connectors.connector import Arrived, FeedRequest, Offset, OffsetRange
from belvedere.connectors.sensor_data import (
    SensorOptions,
    placements_due,
    readings_due,
    sensor_options,
    sensor_placements,
    sensor_readings,
    sensor_tables,
)
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.engine.rows.scratch_rows import scratch_rows
from belvedere.project.settings import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = ("SensorReading", "Sensors")
FEW_ROWS = 100_000
"""Maximum number of rows created at once."""
MAX_READINGS = 1_000_000
"""Maximum number of readings in one epoch: after a long pause several epochs catch up."""


def tables(source: Source) -> tuple[str, ...]:
    """Return the two tables."""
    return TABLES


def columns(source: Source, table: str) -> pa.Schema:
    """Return the columns of `Sensors` or `SensorReading` under these options."""
    return pa.schema([pa.field(c.name, c.type, c.nullable) for c in sensor_tables(source.options)[table]])


def open_feed(requested: FeedRequest) -> SensorFeed:
    """Open the feed of a table at its offset."""
    return SensorFeed(requested.table, requested.options, requested.offset)


class SensorFeed:
    """The feed of `Sensors` or `SensorReading`, with the number of readings so far."""

    def __init__(self, table: str, options: Mapping[str, Any], offset: Offset):
        self.placements = table.casefold() == "sensors"
        self.options: SensorOptions = sensor_options(options)
        self._has_run = False
        self._go_to(offset)

    def _go_to(self, offset: Offset) -> None:
        self.readings, self.rows = int(offset.get("readings", 0)), int(offset.get("rows", 0))
        self.start = datetime.fromisoformat(offset["started"]) if "started" in offset else None

    def look(self, now: datetime, once: bool) -> OffsetRange | None:
        """Return the range of rows due at `now`.

        With `once`: all rows if `rows` limits them, else those of one more second.
        """
        if once and self._has_run:
            return None
        started = self.start or now
        due = self._due(now - started, once)
        end = placements_due(self.options, due) if self.placements else due
        if end <= self.rows and self.start is not None:
            return None
        return OffsetRange({"readings": due, "rows": end, "started": started.isoformat()})

    def read(self, spark: SparkSession, span: OffsetRange) -> Arrived:
        """Return the rows up to the end of the range."""
        first = self.options.start or datetime.fromisoformat(span.end["started"])
        return Arrived(self._rows(first, int(span.end["rows"])))

    def committed(self, span: OffsetRange) -> None:
        """Continue after the range."""
        self._has_run = True
        self._go_to(span.end)

    def close(self) -> None:
        """Do nothing: no resource is open."""

    def _rows(self, start: datetime, end: int) -> pa.Table | Rows:
        """Return the rows up to number `end`; many rows are in a scratch file."""

        def made(first: int, last: int) -> pa.Table:
            if self.placements:
                return sensor_placements(self.options, first, last)
            return sensor_readings(self.options, start, first, last)

        if end - self.rows <= FEW_ROWS:
            return made(self.rows, end)
        pieces = (made(n, min(n + FEW_ROWS, end)) for n in range(self.rows, end, FEW_ROWS))
        return scratch_rows(
            pa.RecordBatchReader.from_batches(made(0, 0).schema, (b for t in pieces for b in t.to_batches()))
        )

    def _due(self, elapsed: timedelta, once: bool) -> int:
        if not once:
            due = readings_due(self.options, elapsed)
            return max(self.readings, min(due, self.readings + MAX_READINGS))
        if self.options.rows is not None:
            return max(self.readings, self.options.rows)
        return self.readings + max(1, int(self.options.rows_per_second))
