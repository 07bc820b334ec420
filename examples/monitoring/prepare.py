"""Write the monitoring example's data: readings that end about now, placements that change, and groups of machines.

In: a folder, and the time at which the readings end (default: now, so that they are recent for `now()`). Out: JSON
lines in `<folder>/sensordata/SensorReading`, `<folder>/sensordata/Sensors` and `<folder>/iotapp/MonitorGroup`. Nothing
is random.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

Row = dict[str, Any]

PLACEMENTS = {11: 1075, 12: 1075, 13: 1098, 14: 1098, 15: 1201}
FAHRENHEIT = (13, 15)
MOVED = (14, 1201)
GROUPS: list[Row] = [
    {
        "groupid": 501,
        "groupName": "Wenatchee Factory",
        "machines": [
            {"machineId": 1075, "machineName": "Mill Saw"},
            {"machineId": 1098, "machineName": "Wood Grinder"},
        ],
    },
    {"groupid": 502, "groupName": "Malmö Süd", "machines": [{"machineId": 1201, "machineName": "Kettensäge 🪚"}]},
    {"groupid": 503, "groupName": "empty hall", "machines": []},
]
HOURS, EVERY = 3, timedelta(seconds=15)


def readings(since: datetime, until: datetime) -> Iterator[Row]:
    """Yield the rows of `SensorReading` from `since` to before `until`."""
    moment = since
    while moment < until:
        step = int(moment.timestamp() / EVERY.total_seconds())
        for sensor in PLACEMENTS:
            celsius = 70 + sensor + 15 * math.sin(step / 90 + sensor)
            if sensor == 15 and step % 240 >= 220:
                celsius += 40  # a few hot minutes each hour
            fahrenheit = sensor in FAHRENHEIT
            yield {
                "sensorid": sensor,
                "time": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "temperature": None if fahrenheit else round(celsius, 2),
                "temperature_f": round(celsius * 9 / 5 + 32, 2) if fahrenheit else None,
            }
        moment += EVERY


def write(folder: Path, end: datetime) -> None:
    """Write all files, one per half hour of readings."""
    end = end.astimezone(UTC).replace(second=0, microsecond=0)
    start = end - timedelta(hours=HOURS)
    placed = [{"sensorid": sensor, "machineid": machine} for sensor, machine in PLACEMENTS.items()]
    _write_lines(folder / "iotapp" / "MonitorGroup" / "groups.jsonl", GROUPS)
    _write_lines(folder / "sensordata" / "Sensors" / "1.jsonl", placed)
    _write_lines(folder / "sensordata" / "Sensors" / "2.jsonl", [{"sensorid": MOVED[0], "machineid": MOVED[1]}])
    for part in range(HOURS * 2):
        since = start + part * timedelta(minutes=30)
        rows = readings(since, since + timedelta(minutes=30))
        _write_lines(folder / "sensordata" / "SensorReading" / f"{since:%Y-%m-%dT%H-%M}.jsonl", rows)


def _write_lines(path: Path, rows: Iterable[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name("." + path.name)
    part.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    part.rename(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="write the monitoring example's data")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent / "data")
    parser.add_argument(
        "--end", type=datetime.fromisoformat, default=datetime.now(UTC), help="when the readings end (default: now)"
    )
    options = parser.parse_args()
    write(options.folder, options.end)
