"""Nested tables, relationships, versions: what the catalog says of them."""

from __future__ import annotations

from pathlib import Path

from belvedere.catalog.catalog import Catalog
from belvedere.compiler import compile_script
from belvedere.plan.plan_text import plan_text

BASE = """
CREATE TABLE Sensors (sensorid INT, machineid INT, PRIMARY KEY (sensorid));
CREATE TABLE Readings (sensorid INT, time TIMESTAMP, temp DOUBLE);
CREATE TABLE MonitorGroup (groupid INT, groupName STRING,
  machines ARRAY<STRUCT<machineid: INT, machineName: STRING, parts: ARRAY<STRUCT<p: INT>>>>, addr STRUCT<city: STRING>,
  PRIMARY KEY (groupid));
Machines := SELECT DISTINCT machineid FROM Sensors;
Sensors.readings := JOIN Readings r ON r.sensorid = _.sensorid
Machines.sensors := JOIN Sensors s ON s.machineid = _.machineid
"""


def catalog(text: str) -> Catalog:
    compiled = compile_script(BASE + text)
    assert compiled.ok, [d.message for d in compiled.diagnostics]
    return compiled.catalog


def relationship(found: Catalog, owner: str, name: str) -> tuple[str, tuple[tuple[str, str], ...], int | None]:
    return next((r.target, r.pairs, r.limit) for r in found.relationships if (r.owner, r.name) == (owner, name))


def test_nested_data_goes_as_deep_as_it_is() -> None:
    found = catalog("")
    view = found.views["MonitorGroup.machines"]
    assert [c.name for c in view.schema.visible] == ["machineid", "machineName"]
    assert view.schema.key == ("_groupid", "_index")
    assert view.parent == "MonitorGroup"
    parts = found.views["MonitorGroup.machines.parts"]
    assert parts.schema.key == ("_groupid", "_index_2", "_index")
    assert relationship(found, "MonitorGroup", "machines") == (
        "MonitorGroup.machines",
        (("groupid", "_groupid"),),
        None,
    )
    assert relationship(found, "MonitorGroup.machines", "parent") == ("MonitorGroup", (("_groupid", "groupid"),), 1)
    assert [c.name for c in found.inputs["MonitorGroup"].schema.visible] == ["groupid", "groupName", "addr"]


def test_a_nested_table_is_grouped_by_its_parent() -> None:
    found = catalog(
        """MonitorGroup.machines.machine := JOIN Machines m ON m.machineid = _.machineid
        MonitorGroup.hours := SELECT hour(time) AS h, max(temp) AS t FROM _.machines.machine.sensors.readings
            GROUP BY h"""
    )
    view = found.views["MonitorGroup.hours"]
    assert view.schema.key == ("_groupid", "h")
    assert view.parent_key == (("_groupid", "groupid"),)
    assert [c.name for c in view.schema.visible] == ["h", "t"]


def test_columns_of_a_nested_table_keep_its_place() -> None:
    found = catalog(
        "MonitorGroup.machines.n := count(parts)\nMonitorGroup.numMachines := count(machines)\nMonitorGroup.city := "
        "addr.city"
    )
    view = found.views["MonitorGroup.machines"]
    assert view.parent == "MonitorGroup"
    assert view.schema["n"].nullable is False
    assert relationship(found, "MonitorGroup", "machines")[0] == "MonitorGroup.machines"
    assert [c.name for c in found.views["MonitorGroup"].schema.visible] == [
        "groupid",
        "groupName",
        "addr",
        "numMachines",
        "city",
    ]


def test_a_key_that_is_overridden_stays_under_a_hidden_name() -> None:
    found = catalog("MonitorGroup.groupid := groupid + 1000")
    view = found.views["MonitorGroup"]
    assert view.schema.key == ("_groupid",)
    assert relationship(found, "MonitorGroup", "machines")[1] == (("_groupid", "_groupid"),)
    assert relationship(found, "MonitorGroup.machines", "parent")[1] == (("_groupid", "_groupid"),)


def test_earlier_views_keep_the_old_definition() -> None:
    found = catalog("A := SELECT * FROM Readings\nReadings.temp := temp * 2\nB := SELECT * FROM Readings")
    assert plan_text(found.views["A"].plan).endswith("scan Readings~1")
    assert plan_text(found.views["B"].plan).endswith("scan Readings")
    assert list(found.inputs)[1] == "Readings~1"


def test_a_limited_relationship_is_cut_per_row_of_its_owner() -> None:
    found = catalog(
        """Sensors.last := JOIN Readings r ON r.sensorid = _.sensorid ORDER BY r.time DESC LIMIT 1
        V := SELECT s.sensorid, l.temp FROM Sensors s LEFT JOIN s.last l"""
    )
    assert "top 1 per [l.sensorid] by l.time desc" in plan_text(found.views["V"].plan)
    assert found.views["V"].schema.key == ("sensorid",)


def test_a_relationship_through_another_table() -> None:
    found = catalog(
        "Sensors.peers := JOIN Machines m ON m.machineid = _.machineid JOIN Sensors p ON p.machineid = m.machineid"
    )
    assert found.views["Sensors.peers"].schema.key == ("_sensorid", "sensorid")
    assert relationship(found, "Sensors", "peers") == ("Sensors.peers", (("sensorid", "_sensorid"),), None)


def test_private_names_are_not_public() -> None:
    found = catalog("_Hidden := SELECT * FROM Sensors\nV := SELECT * FROM _Hidden")
    assert "_Hidden" in found.views
    assert "_Hidden" not in found.public
    assert "V" in found.public


def test_templates_in_both_spellings() -> None:
    found = catalog(
        "Q(m INT) := SELECT * FROM Sensors WHERE machineid = :m\nSELECT * FROM Sensors WHERE machineid = ? AND "
        "sensorid > :low"
    )
    assert [p.name for p in found.templates["Q"].parameters] == ["m"]
    assert [(p.name, str(p.type)) for p in found.templates["query1"].parameters] == [("p1", "int32"), ("low", "int32")]


def test_subscriptions_observe_a_view() -> None:
    found = catalog(
        "CREATE SUBSCRIPTION Hot ON CHANGE AS SELECT * FROM Readings WHERE temp > 100\nV := SELECT count(*) AS n FROM "
        "Hot"
    )
    subscription = found.subscriptions["Hot"]
    assert subscription.view in found.views
    names = [c.name for c in subscription.schema.visible]
    assert names == ["sensorid", "time", "temp", "_op", "_event_time", "_seq", "_old"]


def test_scripts_import_each_other(tmp_path: Path) -> None:
    (tmp_path / "shared.sqrl").write_text(
        BASE + "_Private := SELECT 1 AS x\nHot := SELECT * FROM Readings WHERE temp > 100\nHot.x := 1"
    )
    main = tmp_path / "main.sqrl"
    compiled = compile_script("IMPORT shared.Hot AS Warm\nV := SELECT sensorid, x FROM Warm", path=main)
    assert compiled.ok, [d.message for d in compiled.diagnostics]
    assert compiled.catalog.public == {"Warm", "V"}
    assert [c.name for c in compiled.catalog.views["V"].schema.visible] == ["sensorid", "x"]
    refused = compile_script("IMPORT shared._Private", path=main)
    assert [d.code for d in refused.diagnostics] == ["B2009"]


def test_a_circle_of_imports_is_shown(tmp_path: Path) -> None:
    (tmp_path / "a.sqrl").write_text("IMPORT b.*")
    (tmp_path / "b.sqrl").write_text("IMPORT a.*")
    compiled = compile_script((tmp_path / "a.sqrl").read_text(), path=tmp_path / "a.sqrl")
    circles = [d.message for d in compiled.diagnostics if d.code == "B2010"]
    assert circles == ["the scripts import each other in a circle: a.sqrl -> b.sqrl -> a.sqrl"]


def test_a_script_whose_bytes_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "base.sqrl").write_bytes(b"V := SELECT 'caf\xe9' AS drink")
    text = "IMPORT base.V;\nX := SELECT drink FROM V"
    compiled = compile_script(text, path=tmp_path / "top.sqrl")
    assert [(d.code, d.span and text[d.span.start : d.span.end]) for d in compiled.diagnostics] == [("B2014", "base")]
