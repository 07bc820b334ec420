"""The examples' data is what their pages say, whatever format it is written in."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from tests.examples.example_answers import answers, differences, duckdb_over, duckdb_queries, load_prepare

FLIGHTS = load_prepare("flights")
WEEK = {"since": date(2013, 2, 7), "until": date(2013, 2, 10)}


def read_files(folder: Path, form: str) -> dict[str, str]:
    reader = {
        "json": "read_json_auto('{}')",
        "csv": "read_csv_auto('{}', nullstr='', strict_mode=false)",
        "parquet": "'{}'",
    }[form]
    ending = "jsonl" if form == "json" else form
    return {
        table: f"SELECT * FROM {reader.format(folder / table / ('*.' + ending))}"
        for table in ("Flights", "Weather", "Planes", "Airports", "Airlines")
    }


def test_all_flights_of_the_year_are_there() -> None:
    tables = {name: FLIGHTS.load(name) for name in FLIGHTS.TABLES}
    counts = {name: table.num_rows for name, table in tables.items()}
    assert counts == {"Flights": 336_776, "Weather": 26_115, "Planes": 3_322, "Airports": 1_458, "Airlines": 16}
    assert tables["Flights"]["dep_time"].null_count == 8_255  # cancelled flights
    assert sum(part.num_rows for _, part in FLIGHTS.split(tables["Flights"], "month")) == 336_776


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_every_format_holds_the_same_rows(tmp_path: Path, form: str) -> None:
    FLIGHTS.write(tmp_path, form, **WEEK)
    files = duckdb_over(read_files(tmp_path, form))
    memory = {name: FLIGHTS.load(name) for name in FLIGHTS.TABLES}
    direct = duckdb_over({})
    for name, table in memory.items():
        part = FLIGHTS.between(table, WEEK["since"], WEEK["until"]) if name in FLIGHTS.DATED else table
        direct.register(name, part)
    for view, query in duckdb_queries("flights").items():
        assert differences(answers(files, query), answers(direct, query)) == [], view


def test_names_of_files_sort_by_time_and_none_is_half_written(tmp_path: Path) -> None:
    FLIGHTS.write(tmp_path, "json", **WEEK)
    names = sorted(p.name for p in (tmp_path / "Flights").iterdir())
    assert names == ["2013-02-07.jsonl", "2013-02-08.jsonl", "2013-02-09.jsonl"]


def test_sensor_files_hold_the_awkward_cases(tmp_path: Path) -> None:
    iot = load_prepare("iot")
    iot.write(tmp_path)
    first = {p: p.read_bytes() for p in sorted(tmp_path.rglob("*.jsonl"))}
    iot.write(tmp_path)
    assert first == {p: p.read_bytes() for p in sorted(tmp_path.rglob("*.jsonl"))}
    database = duckdb_over({"SensorReading": f"SELECT * FROM read_json_auto('{tmp_path}/SensorReading/*.jsonl')"})
    (facts,) = answers(
        database,
        "SELECT count(*) AS rows, count(*) FILTER (temperature IS NULL) AS unknown, "
        "count(*) FILTER (sensorid = 7) AS silent, count(*) FILTER (sensorid = 8) AS unplaced FROM SensorReading",
    )
    assert facts["rows"] == 3780
    assert facts["unknown"] > 0
    assert facts["silent"] == 0
    assert facts["unplaced"] == 540
