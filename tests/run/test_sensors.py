"""The built-in sensors: row i is always the same row, and time decides how many there are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from belvedere.connectors.sensor_data import sensor_options, sensor_placements, sensor_readings, sensor_tables
from belvedere.errors import BelvedereError
from belvedere.schema import TIMESTAMP

START = datetime(2024, 3, 1, tzinfo=UTC)


def test_readings_do_not_depend_on_how_they_are_cut() -> None:
    options = sensor_options({"sensors": 7, "rows_per_second": 3, "fahrenheit": True})
    whole = sensor_readings(options, START, 0, 1000)
    parts = [sensor_readings(options, START, a, b) for a, b in ((0, 1), (1, 1), (1, 500), (500, 1000))]
    assert pa.concat_tables(parts).equals(whole)
    assert whole["time"].type == TIMESTAMP
    assert whole["time"][999].as_py() == START + timedelta(seconds=333)
    assert set(whole["sensorid"].to_pylist()) == set(range(1, 8))
    assert not sensor_readings(sensor_options({"seed": 2}), START, 0, 10).equals(
        sensor_readings(sensor_options({}), START, 0, 10)
    )


def test_each_reading_has_one_temperature() -> None:
    options = sensor_options({"sensors": 20, "fahrenheit": True})
    rows = sensor_readings(options, START, 0, 40)
    assert rows.column_names == [c.name for c in sensor_tables({"fahrenheit": True})["SensorReading"]]
    old = pc.is_valid(rows["temperature_f"])
    assert pc.sum(old).as_py() == 4
    assert old.equals(pc.is_null(rows["temperature"]))
    assert sensor_readings(sensor_options({}), START, 0, 4).column_names == [
        c.name for c in sensor_tables({})["SensorReading"]
    ]


def test_every_sensor_sits_somewhere_and_some_move() -> None:
    options = sensor_options({"sensors": 9, "machines": 3})
    rows = sensor_placements(options, 0, 12).to_pylist()
    assert [r["sensorid"] for r in rows[:9]] == list(range(1, 10))
    assert {r["machineid"] for r in rows} == {1, 2, 3}
    assert all(1 <= r["sensorid"] <= 9 for r in rows[9:])


@pytest.mark.parametrize(
    "options",
    [{"sensor": 1}, {"sensors": 0}, {"machines": "ten"}, {"rows_per_second": 0}, {"start": "noon"}, {"rows": -1}],
)
def test_options_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(BelvedereError, match="B6021"):
        sensor_options(options)


@pytest.mark.smoke("connector sensors")
@pytest.mark.spark
def test_what_is_due(spark: Any) -> None:
    from belvedere.connectors.sensors import SensorFeed

    settings = {"sensors": 5, "rows_per_second": 10, "rows": 35, "move_every": 20}
    readings = SensorFeed("SensorReading", settings, {})
    placed = SensorFeed("Sensors", settings, {})

    ends: list[Any] = []

    def take(table: SensorFeed, seconds: float, once: bool = False) -> int | None:
        span = table.look(START + timedelta(seconds=seconds), once)
        if span is None:
            return None
        rows = table.read(spark, span).rows
        table.committed(span)
        ends.append(span.end)
        return int(rows.num_rows)  # type: ignore[union-attr]

    assert [take(readings, s) for s in (0, 1, 1, 2.55, 2, 60)] == [0, 10, None, 15, None, 10]
    reached = ends[-1]
    assert [take(placed, s) for s in (0, 1, 2.5, 60)] == [5, None, 1, None]
    again = SensorFeed("SensorReading", settings | {"rows": 40}, reached)
    assert take(again, 60) == 5
    once = SensorFeed("SensorReading", settings, {})
    assert [take(once, 0, True), take(once, 0, True)] == [35, None]


@pytest.mark.spark
def test_many_rows_are_made_piece_by_piece(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from belvedere.connectors import sensors
    from belvedere.engine.rows.epoch_rows import Rows

    settings = {"sensors": 3, "rows_per_second": 10, "rows": 35, "move_every": 2}
    for name in ("SensorReading", "Sensors"):
        at_once, apart = (sensors.SensorFeed(name, settings, {}) for _ in range(2))
        span = at_once.look(START, True)
        assert span is not None
        whole = at_once.read(spark, span)
        with monkeypatch.context() as small:
            small.setattr(sensors, "FEW_ROWS", 4)
            found = apart.read(spark, span)
        assert isinstance(found.rows, Rows)
        assert found.rows.files is not None
        assert found.rows.table.equals(whole.rows)
