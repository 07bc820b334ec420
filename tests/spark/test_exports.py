"""Subscriptions and exports: each event once, in order, across restarts and repeated deliveries."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from belvedere.connectors import files
from belvedere.connectors.exporting import exports
from belvedere.project.settings import ProjectSettings, Sink
from belvedere.store import open_store
from belvedere.workbench.workbench import Workbench

SCRIPT = """
CREATE TABLE Machine (id INT NOT NULL, temp DOUBLE, PRIMARY KEY (id));
Hot := SELECT id, temp, id + 1 AS _hall FROM Machine WHERE temp > 100;
CREATE SUBSCRIPTION GotHot ON ADD AS SELECT id, temp FROM Machine WHERE temp > 100;
CREATE SUBSCRIPTION Moved ON CHANGE AS SELECT id, temp FROM Machine WHERE temp > 100;
CREATE SUBSCRIPTION Cooled ON DELETE AS SELECT id, temp FROM Machine WHERE temp > 100;
EXPORT GotHot TO files.GotHot;
EXPORT Hot TO files.HotChanges;
"""


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for f in sorted(folder.glob("*.jsonl")) for line in f.read_text().splitlines()]


def heat(wb: Workbench, id_: int, temp: float | None) -> int:
    wb.insert("Machine", [{"id": id_, "temp": temp}])
    return wb.step()


@pytest.fixture
def project(tmp_path: Path) -> ProjectSettings:
    return ProjectSettings(tmp_path, sinks={"files": Sink("files", path=tmp_path / "out")})


def test_events_follow_changes_by_key_and_reach_files_once(executor: Any, project: ProjectSettings) -> None:
    wb = Workbench(SCRIPT, spark=executor, project=project)
    wb.clock("2024-01-01 00:00:00")
    heat(wb, 1, 120.0)
    heat(wb, 1, 130.0)
    wb.restart()
    heat(wb, 1, 90.0)
    heat(wb, 2, 110.0)
    assert [(r["id"], r["_op"], r["_seq"]) for r in wb.rows("GotHot")] == [(1, "ADD", 1), (2, "ADD", 2)]
    assert [(r["id"], r["temp"], r["_op"]) for r in wb.rows("Moved")] == [(1, 130.0, "CHANGE")]
    assert [(r["id"], r["temp"], r["_op"]) for r in wb.rows("Cooled")] == [(1, 130.0, "DELETE")]
    out = project.directory / "out"
    assert [(e["id"], e["_op"]) for e in lines(out / "GotHot")] == [(1, "ADD"), (2, "ADD")]
    changes = [(e["id"], e["temp"], e["_op"]) for e in lines(out / "HotChanges")]
    assert [e["_hall"] for e in lines(out / "HotChanges")] == [2, 2, 2, 3]
    assert changes == [(1, 120.0, "ADD"), (1, 130.0, "CHANGE"), (1, 130.0, "DELETE"), (2, 110.0, "ADD")]
    wb.close()


def test_an_export_that_comes_back_sends_all_rows_of_the_view(
    executor: Any, project: ProjectSettings, tmp_path: Path
) -> None:
    exported = "EXPORT Hot TO files.HotChanges;"
    without = "\n".join(line for line in SCRIPT.splitlines() if "EXPORT" not in line)
    steps = [
        (without, [(1, 120.0)]),
        (without + exported, [(2, 120.0)]),
        (without, [(3, 120.0), (2, 90.0), (1, 130.0)]),
        (without + exported, [(4, 120.0)]),
    ]
    for script, rows in steps:
        wb = Workbench(script, spark=executor, project=project, store=f"sqlite:///{tmp_path}/s.db")
        wb.step()
        for id_, temp in rows:
            heat(wb, id_, temp)
        wb.close()
    found = [(e["id"], e["temp"], e["_op"]) for e in lines(tmp_path / "out" / "HotChanges")]
    assert found[:2] == [(1, 120.0, "ADD"), (2, 120.0, "ADD")], "one that is new begins with the rows that are there"
    assert found[2:] == [(1, 130.0, "ADD"), (3, 120.0, "ADD"), (4, 120.0, "ADD")]
    numbers = [e["_seq"] for e in lines(tmp_path / "out" / "HotChanges")]
    assert numbers == sorted(set(numbers)), "numbers go on, or what comes back would be taken for sent"


def test_a_crash_after_delivery_repeats_it_onto_itself(
    executor: Any, project: ProjectSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    wb = Workbench(SCRIPT, spark=executor, project=project)
    heat(wb, 1, 120.0)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(exports.Exports, "_advance", crash)
        with pytest.raises(KeyboardInterrupt):
            heat(wb, 2, 120.0)
    out = project.directory / "out"
    before = sorted(f.name for f in (out / "GotHot").iterdir())
    wb.restart()
    assert sorted(f.name for f in (out / "GotHot").iterdir()) == before
    assert [e["_seq"] for e in lines(out / "GotHot")] == [1, 2]
    assert [e["id"] for e in lines(out / "HotChanges")] == [1, 2]
    heat(wb, 3, 120.0)
    assert [e["id"] for e in lines(out / "HotChanges")] == [1, 2, 3]
    wb.close()


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_a_sink_that_takes_long_holds_nothing_of_the_store(
    executor: Any,
    project: ProjectSettings,
    tmp_path: Path,
    store: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = f"sqlite:///{tmp_path}/s.db" if store == "sqlite" else request.getfixturevalue("postgres_url")
    wb = Workbench(SCRIPT, spark=executor, project=project, store=url)
    ids: list[int] = []

    def write(sink: Sink, target: str, epoch: int, pieces: Iterable[pa.Table]) -> None:
        for piece in pieces:
            other = open_store(url)
            other.set_document("written by another process", target)
            last = other.last_epoch()
            assert last is not None
            assert last.epoch == epoch
            other.close()
            wb.engine.store.begin().rollback()  # the store would take an epoch now
            if target == "HotChanges":
                ids.extend(piece["id"].to_pylist())

    monkeypatch.setattr(exports, "PIECE", 2)
    monkeypatch.setattr(files, "write", write)
    wb.insert("Machine", [{"id": n, "temp": 120.0} for n in range(5)])
    wb.step()
    assert ids == [0, 1, 2, 3, 4]
    wb.close()
