"""Write the sensor example's tables as small files: three hours of readings.

In: a folder. Out: `<folder>/Sensors/*.jsonl` and `<folder>/SensorReading/*.jsonl`, one file per half hour of readings.
They contain typical problems of real data: a sensor that moves to another machine, a silent one, readings without a
temperature, and readings of an unknown sensor. Nothing is random: a second run writes the same bytes.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

START = datetime(2024, 3, 1, 6, 0, tzinfo=UTC)
END = START + timedelta(hours=3)
PLACEMENTS = {1: 101, 2: 101, 3: 102, 4: 102, 5: 103, 6: 103, 7: 104}
SILENT, UNPLACED, MOVED = 7, 8, 4
EVERY = timedelta(seconds=20)

Row = dict[str, Any]


def placements() -> tuple[list[Row], list[Row]]:
    """Return the rows of `Sensors` at the start, and those of a later change: sensor 4 moves to machine 101."""
    first = [{"sensorid": sensor, "machineid": machine} for sensor, machine in PLACEMENTS.items()]
    return first, [{"sensorid": MOVED, "machineid": 101}]


def readings(since: datetime, until: datetime) -> Iterator[Row]:
    """Yield the rows of `SensorReading` in a half-open range of time, in order."""
    moment = since
    while moment < until:
        second = int((moment - START).total_seconds())
        for sensor in (*PLACEMENTS, UNPLACED):
            if sensor != SILENT:
                yield {
                    "sensorid": sensor,
                    "time": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
                    "temperature": _temperature(sensor, second),
                }
        moment += EVERY


def _temperature(sensor: int, second: int) -> float | None:
    if (second // 20 + sensor * 7) % 53 == 0:
        return None
    outlier = 400.0 if (second // 20 + sensor * 11) % 97 == 0 else 0.0
    return round(60 + 5 * sensor + 12 * math.sin(second / 900 + sensor) + (second * 31 % 17) / 10 + outlier, 1)


def write(folder: Path) -> None:
    """Write all files; the later placement's file name sorts last."""
    first, later = placements()
    _write_lines(folder / "Sensors" / "1.jsonl", first)
    _write_lines(folder / "Sensors" / "2.jsonl", later)
    moment = START
    while moment < END:
        upto = moment + timedelta(minutes=30)
        _write_lines(folder / "SensorReading" / f"{moment:%Y-%m-%dT%H-%M}.jsonl", readings(moment, upto))
        moment = upto


def _write_lines(path: Path, rows: Iterator[Row] | list[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name("." + path.name)
    part.write_text("".join(json.dumps(row) + "\n" for row in rows))
    part.rename(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="write the sensor example's tables as small files")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent / "data" / "sensordata")
    write(parser.parse_args().folder)
