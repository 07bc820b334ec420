"""The built-in sensors: row i is always the same row, and time decides how many there are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from belvedere.errors import BelvedereError
from belvedere.schema import TIMESTAMP
from belvedere.sensors import sensor_options, sensor_placements, sensor_readings, sensor_tables

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
    assert sensor_readings(sensor_options({}), START, 0, 4).column_names == [c.name for c in sensor_tables({})["SensorReading"]]


def test_every_sensor_sits_somewhere_and_some_move() -> None:
    options = sensor_options({"sensors": 9, "machines": 3})
    rows = sensor_placements(options, 0, 12).to_pylist()
    assert [r["sensorid"] for r in rows[:9]] == list(range(1, 10))
    assert {r["machineid"] for r in rows} == {1, 2, 3}
    assert all(1 <= r["sensorid"] <= 9 for r in rows[9:])


@pytest.mark.parametrize(
    "options", [{"sensor": 1}, {"sensors": 0}, {"machines": "ten"}, {"rows_per_second": 0}, {"start": "noon"}, {"rows": -1}]
)
def test_options_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(BelvedereError, match="B6021"):
        sensor_options(options)


@pytest.mark.spark
def test_what_is_due(spark: Any) -> None:
    from belvedere.spark.generator import SensorTable

    settings = {"sensors": 5, "rows_per_second": 10, "rows": 35, "move_every": 20}
    readings = SensorTable.open("R", "SensorReading", settings, {})
    placed = SensorTable.open("S", "Sensors", settings, {})

    def take(table: SensorTable, seconds: float, once: bool = False) -> int | None:
        taken = table.take(spark, [], START + timedelta(seconds=seconds), once)
        if taken is None:
            return None
        table.committed(taken)
        return taken.rows.num_rows

    assert [take(readings, s) for s in (0, 1, 1, 2.55, 2, 60)] == [0, 10, None, 15, None, 10]
    assert [take(placed, s) for s in (0, 1, 2.5, 60)] == [5, None, 1, None]
    again = SensorTable.open("R", "SensorReading", settings | {"rows": 40}, readings.offset())
    assert take(again, 60) == 5
    once = SensorTable.open("R", "SensorReading", settings, {})
    assert [take(once, 0, True), take(once, 0, True)] == [35, None]


@pytest.mark.spark
def test_many_rows_are_made_piece_by_piece(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from belvedere.engine.rows import Rows
    from belvedere.spark import generator

    settings = {"sensors": 3, "rows_per_second": 10, "rows": 35, "move_every": 2}
    for name in ("SensorReading", "Sensors"):
        at_once, apart = (generator.SensorTable.open("T", name, settings, {}) for _ in range(2))
        whole = at_once.take(spark, [], START, True)
        with monkeypatch.context() as small:
            small.setattr(generator, "FEW_ROWS", 4)
            found = apart.take(spark, [], START, True)
        assert whole is not None
        assert found is not None
        assert isinstance(found.rows, Rows)
        assert found.rows.files is not None
        assert found.rows.table.equals(whole.rows)
        assert found.offset == whole.offset
