"""The built-in sensor source: its tables, its settings, and row number i of each table.

In: the options of a source with `connector = "sensors"`. Out: columns and Arrow rows. A row depends only on the seed
and its number, so reading it again after a crash gives the same row. The reader decides when a row is due.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from belvedere.connectors.keys.sensors import OPTIONS
from belvedere.errors import fail
from belvedere.schema import TIMESTAMP, Column
from belvedere.values.instants import microseconds

SECOND = 1_000_000


@dataclass(frozen=True)
class SensorOptions:
    """Settings: readings per second, numbers of sensors and machines; `rows` is the total number of readings, None for
    no end.

    `start` is the time of the first reading (None: the time of the first read). Every `move_every` readings one sensor
    moves to another machine (0: none moves). With `fahrenheit` every tenth sensor has `temperature_f` instead of
    `temperature`.
    """

    rows_per_second: float = 100.0
    sensors: int = 100
    machines: int = 10
    seed: int = 1
    rows: int | None = None
    start: datetime | None = None
    fahrenheit: bool = False
    move_every: int = 1000


def sensor_options(options: Mapping[str, Any]) -> SensorOptions:
    """Return the validated options of the project file. Raises B6021 for an invalid one."""
    unknown = [k for k in options if k not in OPTIONS]
    if unknown:
        raise fail(
            "B6021", f'the sensors source has no option "{unknown[0]}"', hint=f"its options: {', '.join(OPTIONS)}"
        )
    values: dict[str, Any] = dict(options)
    if isinstance(values.get("start"), str):
        values["start"] = _instant(values["start"])
    found = SensorOptions(**values)
    whole = (
        found.sensors,
        found.machines,
        found.seed,
        found.move_every,
        *(() if found.rows is None else (found.rows,)),
    )
    if not all(isinstance(n, int) and not isinstance(n, bool) for n in whole) or found.rows_per_second <= 0:
        raise fail("B6021", "the sensors source needs whole numbers, and rows_per_second above 0")
    if found.sensors < 1 or found.machines < 1 or found.move_every < 0 or (found.rows or 0) < 0:
        raise fail("B6021", "the sensors source needs at least one sensor and one machine, and no negative numbers")
    return found


def _instant(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise fail("B6021", f'"{text}" is not a time', hint="write it as 2024-03-01T06:00:00Z") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def sensor_tables(options: Mapping[str, Any]) -> dict[str, tuple[Column, ...]]:
    """Return the columns of the source's tables, as in the SQRL paper's example."""
    reading = [Column("sensorid", pa.int32()), Column("time", TIMESTAMP), Column("temperature", pa.float64())]
    if options.get("fahrenheit"):
        reading.append(Column("temperature_f", pa.float64()))
    return {
        "Sensors": (Column("sensorid", pa.int32()), Column("machineid", pa.int32())),
        "SensorReading": tuple(reading),
    }


def readings_due(options: SensorOptions, elapsed: timedelta) -> int:
    """Return the number of readings due at a time after the start."""
    due = max(0, int(elapsed.total_seconds() * options.rows_per_second))
    return due if options.rows is None else min(due, options.rows)


def placements_due(options: SensorOptions, readings: int) -> int:
    """Return the number of rows of `Sensors` for a number of readings: one for each sensor, and one for each move."""
    return options.sensors + (readings // options.move_every if options.move_every else 0)


def sensor_readings(options: SensorOptions, start: datetime, first: int, end: int) -> pa.Table:
    """Return rows [first, end) of `SensorReading`: the sensors in turn, evenly spaced in time from `start`."""
    number = np.arange(first, end, dtype=np.int64)
    sensor = number % options.sensors
    offset = (number * (SECOND / options.rows_per_second)).astype(np.int64)
    base = 40.0 + 20.0 * _uniform(options.seed, sensor)
    swing = 8.0 * np.sin(offset / (600.0 * SECOND) + sensor)
    celsius = np.round(base + swing + 2.0 * _uniform(options.seed + 1, number), 2)
    instants = pa.array(offset + microseconds(start), pa.int64()).cast(TIMESTAMP)
    columns: dict[str, pa.Array] = {"sensorid": pa.array(sensor + 1, pa.int32()), "time": instants}
    if not options.fahrenheit:
        return pa.table({**columns, "temperature": pa.array(celsius)})
    old = sensor % 10 == 9
    columns["temperature"] = pa.array(celsius, mask=old)
    return pa.table({**columns, "temperature_f": pa.array(np.round(celsius * 1.8 + 32, 2), mask=~old)})


def sensor_placements(options: SensorOptions, first: int, end: int) -> pa.Table:
    """Return rows [first, end) of `Sensors`: first the machine of each sensor, then the moves."""
    number = np.arange(first, end, dtype=np.int64)
    moved = number >= options.sensors
    sensor = np.where(moved, (_uniform(options.seed + 2, number) * options.sensors).astype(np.int64), number)
    elsewhere = (_uniform(options.seed + 3, number) * options.machines).astype(np.int64)
    machine = np.where(moved, elsewhere, sensor % options.machines)
    return pa.table({"sensorid": pa.array(sensor + 1, pa.int32()), "machineid": pa.array(machine + 1, pa.int32())})


def _uniform(seed: int, number: Any) -> Any:
    """Return numbers in [0, 1) that depend on seed and number alone (the finalizer of splitmix64)."""
    with np.errstate(over="ignore"):
        x = number.astype(np.uint64) + np.uint64((seed * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    return (x >> np.uint64(11)).astype(np.float64) / float(1 << 53)
