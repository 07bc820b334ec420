"""One input fed by the built-in sensors: rows fall due as time passes.

In: the source's options and the offset in the store. Out: the rows that are due and not read yet. Row number i is always the
same (`belvedere.sensors`), so that a crash between reading and committing changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from belvedere.engine.ordered import stream
from belvedere.engine.rows import Rows
from belvedere.sensors import (
    SensorOptions,
    placements_due,
    readings_due,
    sensor_options,
    sensor_placements,
    sensor_readings,
)
from belvedere.spark.arrived import Arrived
from belvedere.spark.records import SourceFile
from belvedere.spark.scratch import scratch_rows

FEW_ROWS = 100_000
"""So many rows are made at once."""
MOST_READINGS = 1_000_000
"""An epoch takes no more: after a long pause several epochs catch up."""


class SensorTable:
    """`Sensors` or `SensorReading`, and how many readings have passed."""

    needs_tick = True

    def __init__(self, id_: str, table: str, options: SensorOptions, readings: int, rows: int, start: datetime | None):
        self.id = id_
        self.placements = table.casefold() == "sensors"
        self.options = options
        self.readings = readings
        self.rows = rows
        self.start = start

    @classmethod
    def open(cls, id_: str, table: str, options: Mapping[str, Any], offset: Mapping[str, Any]) -> SensorTable:
        """The table as far as `offset` says it was read."""
        checked = sensor_options(options)
        started = datetime.fromisoformat(offset["started"]) if "started" in offset else None
        return cls(id_, table, checked, int(offset.get("readings", 0)), int(offset.get("rows", 0)), started)

    def listing(self, spark: SparkSession) -> None:
        return None

    def take(self, spark: SparkSession, files: Sequence[SourceFile], now: datetime, once: bool) -> Arrived | None:
        """The rows that are due at `now`. With `once`: all where `rows` ends them, else those of one more second."""
        started = self.start or now
        due = self._due(now - started, once)
        end = placements_due(self.options, due) if self.placements else due
        if end <= self.rows and self.start is not None:
            return None
        first = self.options.start or started
        return Arrived(self._rows(first, end), _offset(due, end, started))

    def _rows(self, start: datetime, end: int) -> pa.Table | Rows:
        """The rows up to number `end`; many of them in a scratch file."""

        def made(first: int, last: int) -> pa.Table:
            if self.placements:
                return sensor_placements(self.options, first, last)
            return sensor_readings(self.options, start, first, last)

        if end - self.rows <= FEW_ROWS:
            return made(self.rows, end)
        pieces = (made(n, min(n + FEW_ROWS, end)) for n in range(self.rows, end, FEW_ROWS))
        return scratch_rows(stream(made(0, 0).schema, pieces))

    def _due(self, elapsed: timedelta, once: bool) -> int:
        if not once:
            due = readings_due(self.options, elapsed)
            return max(self.readings, min(due, self.readings + MOST_READINGS))
        if self.options.rows is not None:
            return max(self.readings, self.options.rows)
        return self.readings + max(1, int(self.options.rows_per_second))

    def committed(self, arrived: Arrived) -> None:
        self.readings, self.rows = arrived.offset["readings"], arrived.offset["rows"]
        self.start = datetime.fromisoformat(arrived.offset["started"])

    def offset(self) -> Mapping[str, Any]:
        return {} if self.start is None else _offset(self.readings, self.rows, self.start)


def _offset(readings: int, rows: int, started: datetime) -> dict[str, Any]:
    return {"readings": readings, "rows": rows, "started": started.isoformat()}
