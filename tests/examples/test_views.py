"""The examples' views, kept epoch by epoch, are what DuckDB computes from all rows so far."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.examples.example_answers import EXAMPLES, answers, differences, duckdb_over, duckdb_queries, load_prepare


def open_example(example: str, folder: Path) -> Any:
    """A Workbench on an example's script; its files are in `folder`, for their columns."""
    from belvedere import Workbench
    from belvedere.connectors.project_file import load_project

    text = (
        (EXAMPLES / example / "belvedere.toml")
        .read_text()
        .replace('connector = "sensors"', 'connector = "files"\npath = "data"')
    )
    (folder / "belvedere.toml").write_text(text)
    return Workbench((EXAMPLES / example / f"{example}.sqrl").read_text(), project=load_project(folder))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path


def check_views(wb: Any, example: str, database: duckdb.DuckDBPyConnection, besides: Collection[str] = ()) -> None:
    """Compare every view that `duckdb.sql` says; those `besides` only help it."""
    for view, query in duckdb_queries(example).items():
        if view in besides:
            continue
        ours, theirs = wb.rows(view), answers(database, query)
        assert differences(shared(ours, theirs), shared(theirs, ours)) == [], view


def shared(rows: list[dict[str, Any]], others: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with the columns that the others have too: a nested table's key of its parent is hidden here, and seen
    there."""
    names = {name.lower() for name in others[0]} if others else set()
    return [{k: v for k, v in row.items() if k.lower() in names} for row in rows]


@pytest.mark.spark
def test_sensors_on_machines(folder: Path) -> None:
    iot = load_prepare("iot")
    iot.write(folder / "data")
    wb = open_example("iot", folder)
    placed, moved = iot.placements()
    readings: list[dict[str, Any]] = []
    placements: list[dict[str, Any]] = []
    moment, half_hour = iot.START, timedelta(minutes=30)
    for number in range(6):
        arriving = placed if number == 0 else moved if number == 3 else []
        rows = list(iot.readings(moment, moment + half_hour))
        moment += half_hour
        wb.insert("Sensors", arriving)
        wb.insert("SensorReading", rows)
        wb.clock(moment)
        wb.step()
        readings += rows
        placements += arriving
        check_views(wb, "iot", iot_database(readings, placements, moment))
    for later in (
        timedelta(minutes=50),
        timedelta(hours=30),
    ):  # nothing arrives, but rows of the last hour and day leave
        wb.clock(moment + later)
        wb.step()
        check_views(wb, "iot", iot_database(readings, placements, moment + later))
    assert wb.rows("MachineMinuteReading") == []
    wb.close()


def iot_database(
    readings: list[dict[str, Any]], placements: list[dict[str, Any]], clock: datetime
) -> duckdb.DuckDBPyConnection:
    rows = pa.Table.from_pylist(
        readings, pa.schema({"sensorid": pa.int32(), "time": pa.string(), "temperature": pa.float64()})
    )
    placed = pa.Table.from_pylist([{**p, "_arrival": n} for n, p in enumerate(placements)])
    database = duckdb_over({}, clock)
    database.register("_readings", rows)
    database.register("_placements", placed)
    database.execute(
        "CREATE TABLE SensorReading AS SELECT sensorid, time::TIMESTAMPTZ AS time, temperature FROM _readings"
    )
    database.execute("CREATE TABLE Sensors AS SELECT * FROM _placements")
    return database


@pytest.mark.thorough
@pytest.mark.usefixtures("executor")
def test_flights_of_three_days(folder: Path) -> None:
    flights = load_prepare("flights")
    since = date(2013, 2, 7)  # a snow storm: many cancellations
    flights.write(folder / "data" / "nyc", since=since, until=since + timedelta(days=5))
    wb = open_example("flights", folder)
    tables = {
        name: flights.between(flights.load(name), since, since + timedelta(days=5))
        if name in flights.DATED
        else flights.load(name)
        for name in flights.TABLES
    }
    for name in ("Planes", "Airports", "Airlines"):
        wb.insert(name, tables[name].to_pylist())
    for number in range(3):
        day = since + timedelta(days=number)
        for name in flights.DATED:
            wb.insert(name, flights.between(tables[name], day, day + timedelta(days=1)).to_pylist())
        wb.clock(datetime(2014, 1, 1, tzinfo=UTC) + timedelta(minutes=number))
        wb.step()
        database = duckdb_over({})
        for name, table in tables.items():
            database.register(
                name, flights.between(table, None, day + timedelta(days=1)) if name in flights.DATED else table
            )
        check_views(wb, "flights", database)
    wb.close()


@pytest.mark.thorough
@pytest.mark.usefixtures("executor")
def test_the_whole_monitoring_story(folder: Path) -> None:
    monitoring = load_prepare("monitoring")
    end = datetime(2024, 5, 1, 12, 0, tzinfo=UTC)
    monitoring.write(folder / "data", end)
    wb = open_example("monitoring", folder)
    lines = {
        name: [
            json.loads(line)
            for path in sorted(folder.glob(f"data/*/{name}/*.jsonl"))
            for line in path.read_text().splitlines()
        ]
        for name in ("SensorReading", "Sensors", "MonitorGroup")
    }
    wb.insert("MonitoringGroup", lines["MonitorGroup"])
    wb.insert("Sensors", lines["Sensors"][:-1])
    middle = len(lines["SensorReading"]) // 2
    wb.insert("SensorReading", lines["SensorReading"][:middle])
    wb.clock(end - timedelta(minutes=90))
    wb.step()
    wb.insert("Sensors", lines["Sensors"][-1:])
    wb.insert("SensorReading", lines["SensorReading"][middle:])
    wb.clock(end)
    wb.step()
    check_views(wb, "monitoring", monitoring_database(folder, end))
    groups = {g["groupid"]: g["numMachines"] for g in wb.rows("MonitoringGroup")}
    assert groups == {501: 2, 502: 1, 503: 0}
    hot = [r for r in wb.rows("MachineMinuteReading") if r["max_temp"] > 100]
    events = {(e["machineid"], e["time_min"]) for e in wb.rows("HighTemp")}
    assert hot
    assert {(r["machineid"], r["time_min"]) for r in hot} <= events
    wb.close()


def monitoring_database(folder: Path, clock: datetime) -> duckdb.DuckDBPyConnection:
    data = folder / "data"
    return duckdb_over(
        {
            "SensorReading": f"SELECT * FROM read_json_auto('{data}/sensordata/SensorReading/*.jsonl')",
            "Sensors": f"FROM read_json_auto('{data}/sensordata/Sensors/*.jsonl', filename='_arrival')",
            "MonitorGroup": f"SELECT * FROM read_json_auto('{data}/iotapp/MonitorGroup/*.jsonl')",
        },
        clock,
    )


@pytest.mark.spark
def test_the_papers_request_for_a_monitoring_group(folder: Path) -> None:
    monitoring = load_prepare("monitoring")
    end = datetime(2024, 5, 1, 12, 0, tzinfo=UTC)
    monitoring.write(folder / "data", end)
    wb = open_example("monitoring", folder)
    for name, table in (
        ("SensorReading", "SensorReading"),
        ("Sensors", "Sensors"),
        ("MonitorGroup", "MonitoringGroup"),
    ):
        for path in sorted(folder.glob(f"data/*/{name}/*.jsonl")):
            wb.insert(table, [json.loads(line) for line in path.read_text().splitlines()])
    wb.clock(end)
    wb.step()
    answer = wb.graphql((EXAMPLES / "monitoring" / "group.graphql").read_text())
    (group,) = answer["data"]["monitoringGroup"]
    assert group["groupName"] == "Wenatchee Factory"
    assert sorted(m["machineName"] for m in group["machines"]) == ["Mill Saw", "Wood Grinder"]
    expected = answers(
        monitoring_database(folder, end),
        f"SELECT avg_temp, max_temp FROM ({duckdb_queries('monitoring')['MonitoringGroup.hourReading']}) "
        "WHERE groupid = 501 ORDER BY time_hour DESC",
    )
    hours = [{"avg_temp": h["avg_temp"], "max_temp": h["max_temp"]} for h in group["hourReading"]]
    assert len(hours) == 3
    assert differences(hours, expected) == []
    wb.close()


@pytest.mark.thorough
@pytest.mark.usefixtures("executor")
def test_trades_and_quotes_in_windows(folder: Path) -> None:
    market = load_prepare("spl")
    market.write(folder / "data" / "market")
    wb = open_example("spl", folder)
    marks: list[dict[str, Any]] = []
    last: dict[str, dict[str, Any]] = {}
    trades: list[dict[str, Any]] = []
    quotes: list[dict[str, Any]] = []
    moment = market.START
    for number, minutes in enumerate((2, 5, 1, 7)):
        upto = moment + timedelta(minutes=minutes)
        arriving, quoted = list(market.trades(moment, upto)), list(market.quotes(moment, upto))
        moment = upto
        wb.insert("Trades", arriving)
        wb.insert("Quotes", quoted)
        wb.clock(moment)
        wb.step()
        trades += arriving
        quotes += quoted
        marks += (
            marked(trade, last.get(trade["sym"])) for trade in arriving
        )  # an epoch's trades come before its quotes
        last |= {quote["sym"]: quote for quote in quoted}
        check_views(wb, "spl", spl_database(trades, quotes))
        assert differences(wb.rows("Rises"), rises(trades)) == []
        assert differences(wb.rows("Marked"), marks) == []
        assert differences(wb.rows("Slippage"), slippage(marks)) == []
        if number == 2:
            wb.restart()
    views = ("LastTrades", "Minutes", "Bars", "Rises", "Largest", "LastQuotes", "Distances", "Marked", "Slippage")
    for view, batch in wb.batches(views).items():
        assert differences(wb.rows(view), batch) == [], view
    wb.close()


def marked(trade: dict[str, Any], quote: dict[str, Any] | None) -> dict[str, Any]:
    """A trade beside the last quote."""
    bid, ask = (quote["bid"], quote["ask"]) if quote is not None else (None, None)
    distance = trade["price"] - (bid + ask) / 2 if quote is not None else None
    return {n: trade[n] for n in ("sym", "price", "shares")} | {"bid": bid, "ask": ask, "distance": distance}


def slippage(marks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last ten trades of each share that are a whole ten."""
    found = []
    for sym in {m["sym"] for m in marks}:
        own = [m for m in marks if m["sym"] == sym]
        ten = own[: len(own) // 10 * 10][-10:]
        known = [abs(m["distance"]) * m["shares"] for m in ten if m["distance"] is not None]
        if ten:
            value = sum(known) / sum(m["shares"] for m in ten) if known else None
            found.append({"sym": sym, "slippage": value, "trades": 10})
    return found


def spl_database(trades: list[dict[str, Any]], quotes: list[dict[str, Any]]) -> duckdb.DuckDBPyConnection:
    database = duckdb_over({})
    for name, rows in (("Trades", trades), ("Quotes", quotes)):
        database.register(f"_{name}", pa.Table.from_pylist([{**row, "_arrival": n} for n, row in enumerate(rows)]))
        database.execute(f"CREATE TABLE {name} AS SELECT * REPLACE (time::TIMESTAMPTZ AS time) FROM _{name}")
    return database


def rises(trades: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last stretch of each share that ended with a price more than 0.5 above its first, row by row."""
    held: dict[str, list[dict[str, Any]]] = {}
    fired: dict[str, list[dict[str, Any]]] = {}
    for row in trades:
        rows = held.setdefault(row["sym"], [])
        if rows and row["price"] - rows[0]["price"] > 0.5:
            fired[row["sym"]] = rows
            rows = held[row["sym"]] = []
        rows.append(row)
    return [
        {
            "sym": sym,
            "trades": len(rows),
            "lowest": rows[0]["price"],
            "highest": rows[-1]["price"],
            "shares": sum(r["shares"] for r in rows) // len(rows),
        }
        for sym, rows in fired.items()
    ]
