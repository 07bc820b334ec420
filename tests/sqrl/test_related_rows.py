"""Relationships and events over several epochs: joins have their meaning, events name their row, and batch agrees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from belvedere.connectors.project_file import load_project
from belvedere.project.settings import ProjectSettings
from belvedere.workbench.workbench import Workbench

SCRIPT = """
CREATE TABLE A (id INT, PRIMARY KEY (id));
CREATE TABLE B (id INT, v INT, PRIMARY KEY (id));
CREATE TABLE C (v INT, w STRING, PRIMARY KEY (v));
A.used := JOIN B b USING (id);
A.natural := NATURAL JOIN B ORDER BY v DESC LIMIT 1;
A.through := JOIN B b USING (id) LEFT JOIN C c USING (v);
A.seen := JOIN B b ON b.id = _.id;
A.total := sum(used.v);
B := SELECT id + 1 AS id, v FROM B;
A.later := JOIN B b USING (id);
Used := SELECT a.id, b.v FROM A a JOIN a.used b;
Natural := SELECT a.id, a.natural.v FROM A a;
Through := SELECT a.id, t.w FROM A a JOIN a.through t;
Seen := SELECT a.id, b.v FROM A a JOIN a.seen b;
Later := SELECT a.id, b.v FROM A a JOIN a.later b;

CREATE TABLE G (id INT, ms ARRAY<STRUCT<m INT, n STRING>>, PRIMARY KEY (id));
CREATE SUBSCRIPTION Come ON ADD AS SELECT * FROM G.ms;
CREATE SUBSCRIPTION Gone ON DELETE AS SELECT m, n FROM G.ms;
CREATE SUBSCRIPTION Other ON CHANGE AS SELECT m, n FROM G.ms;
CREATE SUBSCRIPTION Unnested ON DELETE AS SELECT id, e.n FROM G LATERAL VIEW explode(ms) t AS e;
G.perN := SELECT n, count(*) AS c FROM _.ms GROUP BY n;
CREATE SUBSCRIPTION PerN ON CHANGE AS SELECT * FROM G.perN;
EXPORT G.perN TO out.PerN;
EXPORT G.ms TO out.Ms;
Flat := SELECT * FROM G.ms;
G.ms := DISTINCT G.ms ON m ORDER BY n;
CREATE SUBSCRIPTION Renamed ON CHANGE AS SELECT * FROM G.ms;

CREATE TABLE M (id INT, t DOUBLE, PRIMARY KEY (id));
CREATE SUBSCRIPTION High ON ADD AS SELECT id, t FROM M WHERE t > 100;
CREATE SUBSCRIPTION Moved ON CHANGE AS SELECT id, t FROM M;
High.f := t * 9 / 5 + 32;
Moved.double := 2 * t;
Alarms := SELECT id, count(*) AS n, max(f) AS f FROM High GROUP BY id;
CREATE SUBSCRIPTION Often ON CHANGE AS SELECT id, n FROM Alarms;
"""
TIME, NUMBER = "_event_time", "_seq"


@pytest.fixture
def project(tmp_path: Path) -> ProjectSettings:
    (tmp_path / "belvedere.toml").write_text('[sinks.out]\nconnector = "files"\npath = "out"\n')
    found = load_project(tmp_path)
    assert found is not None
    return found


def said(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Events without their times and numbers."""
    return [tuple(v for n, v in r.items() if n not in (TIME, NUMBER)) for r in rows]


def exported(folder: Path, target: str) -> list[list[dict[str, Any]]]:
    """The lines of each file of a sink, sorted, without what every event has."""
    found = []
    for path in sorted((folder / "out" / target).iterdir()):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        kept = [{k: v for k, v in line.items() if k not in (TIME, NUMBER)} for line in lines]
        found.append(sorted(kept, key=repr))
    return found


def test_joins_and_events_mean_what_they_say(executor: Any, project: ProjectSettings) -> None:
    wb = Workbench(SCRIPT, spark=executor, project=project)
    try:
        wb.insert("A", [{"id": 1}, {"id": 2}])
        wb.insert("B", [{"id": 1, "v": 10}, {"id": 3, "v": 30}])
        wb.insert("C", [{"v": 10, "w": "x"}])
        wb.insert(
            "G", [{"id": 7, "ms": [{"m": 1, "n": "a"}, {"m": 2, "n": "b"}, {"m": 2, "n": "b"}]}, {"id": 8, "ms": []}]
        )
        wb.insert("M", [{"id": 1, "t": 120}, {"id": 2, "t": 90}])
        wb.step()
        assert wb.rows("Used") == wb.rows("Seen") == [{"id": 1, "v": 10}]
        assert wb.rows("Natural") == [{"id": 1, "v": 10}, {"id": 2, "v": None}]
        assert wb.rows("Through") == [{"id": 1, "w": "x"}]
        assert wb.rows("Later") == [{"id": 2, "v": 10}], "the definition of B that the statement saw"
        assert wb.rows("A") == [{"id": 1, "total": 10}, {"id": 2, "total": None}]
        assert sorted(said(wb.rows("Come"))) == [(7, 1, "a", "ADD"), (7, 2, "b", "ADD"), (7, 2, "b", "ADD")]
        assert sorted(wb.rows("Flat"), key=repr) == [{"id": 7, "m": 1, "n": "a"}, *[{"id": 7, "m": 2, "n": "b"}] * 2]
        assert said(wb.rows("High")) == [(1, 120.0, 248.0, "ADD")]

        wb.insert(
            "G", [{"id": 7, "ms": [{"m": 2, "n": "b"}, {"m": 2, "n": "b"}]}, {"id": 8, "ms": [{"m": 1, "n": "a"}]}]
        )
        wb.insert("M", [{"id": 2, "t": 130}, {"id": 1, "t": 99}])
        wb.step()
        assert said(wb.rows("Gone")) == [(1, "a", "DELETE")], "the row that went, though places have moved"
        assert said(wb.rows("Unnested")) == [(7, "a", "DELETE")]
        assert said(wb.rows("Other")) == said(wb.rows("Renamed")) == []
        assert said(wb.rows("High")) == [(1, 120.0, 248.0, "ADD"), (2, 130.0, 266.0, "ADD")]

        wb.insert("G", [{"id": 7, "ms": [{"m": 2, "n": "c"}, {"m": 2, "n": "b"}]}])
        wb.insert("M", [{"id": 1, "t": 180}, {"id": 2, "t": 130}])
        wb.step()
        assert said(wb.rows("PerN")) == [(7, "b", 1, "CHANGE", {"id": 7, "n": "b", "c": 2})]
        assert said(wb.rows("Gone"))[1:] == [(2, "b", "DELETE")]
        assert said(wb.rows("Come"))[4:] == [(7, 2, "c", "ADD")]
        moved = said(wb.rows("Moved"))
        assert (1, 180.0, 360.0, "CHANGE", {"id": 1, "t": 99.0, "double": 198.0}) in moved
        answer = wb.graphql("{ high { id f _seq } }")
        assert [r["f"] for r in answer["data"]["high"]] == [248.0, 266.0, 356.0], answer

        wb.insert("G", [{"id": 7, "ms": [{"m": 2, "n": "z"}]}])
        wb.step()
        assert said(wb.rows("Renamed")) == [(7, 2, "z", "CHANGE", {"id": 7, "m": 2, "n": "b"})], (
            "the key that the script names"
        )
        names = (
            "Come",
            "Gone",
            "Other",
            "Unnested",
            "PerN",
            "Renamed",
            "High",
            "Moved",
            "Alarms",
            "Often",
            "Used",
            "Later",
        )
        for name, batch in wb.batches(names).items():
            assert batch == wb.rows(name), name
        assert exported(project.directory, "PerN")[1:3] == [
            [{"id": 7, "n": "a", "c": 1, "_op": "DELETE"}, {"id": 8, "n": "a", "c": 1, "_op": "ADD"}],
            [{"id": 7, "n": "b", "c": 1, "_op": "CHANGE"}, {"id": 7, "n": "c", "c": 1, "_op": "ADD"}],
        ]
        assert exported(project.directory, "Ms")[1] == [
            {"id": 7, "m": 1, "n": "a", "_op": "DELETE"},
            {"id": 8, "m": 1, "n": "a", "_op": "ADD"},
        ]
    finally:
        wb.close()
