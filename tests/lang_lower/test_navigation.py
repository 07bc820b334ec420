"""Navigation to a single related row inside an expression: a LEFT JOIN along the relationships."""

from __future__ import annotations

from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.plan.operators.nodes import Join, JoinKind
from belvedere.workbench.workbench import Workbench

BASE = """
CREATE TABLE Sensors (sensorid INT, machineid INT, PRIMARY KEY (sensorid));
CREATE TABLE Machines (machineid INT, name STRING, site INT, PRIMARY KEY (machineid));
CREATE TABLE Sites (site INT, city STRING, addr STRUCT<zip: INT>, PRIMARY KEY (site));
CREATE STREAM Readings (sensorid INT, n INT, temp INT);
CREATE TABLE Groups (g INT, label STRING, items ARRAY<STRUCT<i: INT>>, PRIMARY KEY (g));
Sensors.readings := JOIN Readings r ON r.sensorid = _.sensorid;
Sensors.lastReading := JOIN Readings r ON r.sensorid = _.sensorid ORDER BY r.n DESC LIMIT 1;
Sensors.machine := JOIN Machines m ON m.machineid = _.machineid;
Machines.home := JOIN Sites s ON s.site = _.site;
"""


@pytest.mark.parametrize(
    ("query", "columns", "joins"),
    [
        (
            "V := SELECT s.sensorid, s.lastReading.temp, lastReading.temp + 1 AS more FROM Sensors s",
            ["sensorid", "temp", "more"],
            1,
        ),
        ("V := SELECT lastReading.temp, s.LastReading.n FROM Sensors s", ["temp", "n"], 1),
        ("V := SELECT s.machine.home.addr.zip FROM Sensors s", ["zip"], 1),
        ("V := SELECT i.parent.label, i.i FROM Groups.items i", ["label", "i"], 1),
        ("V := SELECT sensorid FROM Sensors WHERE machine.name = 'x' ORDER BY machine.name LIMIT 3", ["sensorid"], 1),
        (
            "V := SELECT s.machine.name, max(s.lastReading.temp) AS t FROM Sensors s GROUP BY s.machine.name",
            ["name", "t"],
            2,
        ),
    ],
)
def test_it_is_a_left_join_once_per_path(query: str, columns: list[str], joins: int) -> None:
    compiled = compile_script(BASE + query)
    assert compiled.ok, compiled.diagnostics
    view = compiled.catalog.views["V"]
    assert [c.name for c in view.schema.visible] == columns
    assert sum(isinstance(n, Join) and n.kind is JoinKind.LEFT for n in view.plan.walk()) == joins


@pytest.mark.parametrize(
    ("query", "code", "place", "hint"),
    [
        ("V := SELECT s.readings.temp FROM Sensors s", "B4032", "s.readings.temp", "JOIN s.readings x"),
        ("Sensors.t := readings.temp", "B4032", "readings.temp", "max(readings.temp)"),
        ("V := SELECT s.lastReading.tem FROM Sensors s", "B2002", "tem", "did you mean `temp`?"),
        ("V := SELECT s.lastReading FROM Sensors s", "B4003", "s.lastReading", "JOIN s.lastReading x"),
        (
            "V := SELECT machine.name FROM Sensors s, Sensors z",
            "B2003",
            "machine",
            "`s.machine.name` or `z.machine.name`",
        ),
    ],
)
def test_what_is_not_one_value_is_refused(query: str, code: str, place: str, hint: str) -> None:
    text = BASE + query
    (found,) = (d for d in compile_script(text).diagnostics if d.severity == "error")
    assert found.code == code
    assert found.span is not None
    assert text[found.span.start : found.span.end].startswith(place)
    assert hint in (found.hint or "")


VIEWS = """
Sensors.temp := coalesce(lastReading.temp, 0);
V := SELECT s.sensorid, s.lastReading.temp AS last, s.temp, s.machine.home.city FROM Sensors s;
Cities := SELECT s.machine.home.city, count(*) AS n FROM Sensors s GROUP BY s.machine.home.city;
"""


def test_the_related_row_comes_and_goes(executor: Any) -> None:
    wb = Workbench(BASE + VIEWS, spark=executor)

    def rows() -> dict[int, tuple[Any, ...]]:
        for name, batch in wb.batches(("V", "Cities")).items():
            assert sorted(map(repr, wb.rows(name))) == sorted(map(repr, batch))
        return {r["sensorid"]: (r["last"], r["temp"], r["city"]) for r in wb.rows("V")}

    wb.insert("Sensors", [{"sensorid": n, "machineid": m} for n, m in ((1, 10), (2, None), (3, 11))])
    wb.insert("Machines", [{"machineid": 10, "name": "m", "site": 5}, {"machineid": 11, "name": "n", "site": 6}])
    wb.insert("Sites", [{"site": 5, "city": "Zürich", "addr": {"zip": 8000}}])
    wb.insert("Readings", [{"sensorid": 1, "n": 1, "temp": 20}])
    wb.step()
    assert rows() == {1: (20, 20, "Zürich"), 2: (None, 0, None), 3: (None, 0, None)}
    assert {r["city"]: r["n"] for r in wb.rows("Cities")} == {"Zürich": 1, None: 2}
    wb.insert("Readings", [{"sensorid": 1, "n": 2, "temp": 21}, {"sensorid": 2, "n": 1, "temp": 3}])
    wb.insert("Sites", [{"site": 6, "city": "Bern", "addr": None}])
    wb.step()
    assert rows() == {1: (21, 21, "Zürich"), 2: (3, 3, None), 3: (None, 0, "Bern")}
    wb.close()
