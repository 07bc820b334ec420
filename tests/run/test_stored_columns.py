"""The initial columns of a store remain: later ones are added, ignored or rejected, and the script restarts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.run.loops import Loop

pytestmark = pytest.mark.spark

SCRIPT = """
IMPORT trips.Rides;
IMPORT trips.Other;
Fares := SELECT r.k, sum(r.fare) AS fare, count(*) AS n FROM Rides r GROUP BY r.k;
"""


def lines(*rows: Any) -> str:
    return "".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows)


def test_files_of_other_shapes_come_later(spark: Any, tmp_path: Path) -> None:
    rides = tmp_path / "data" / "Rides"
    rides.mkdir(parents=True)
    (tmp_path / "data" / "Other.json").write_text(lines({"id": 1}))
    start = "2024-01-01T00:00:00Z"
    (rides / "1.json").write_text(lines({"k": "a", "fare": 1, "started": start}))
    loop = Loop(spark, tmp_path, SCRIPT, "[sources.trips]\npath = 'data'\n")
    loop.once()
    (rides / "1.json").unlink()  # archived
    (rides / "2.json").write_text(
        lines(
            {"k": "a", "fare": 2, "started": start, "w": "new"},
            {"k": "a", "fare": 1.5, "started": start},
            {"k": "b", "fare": "free", "started": start},
            {"k": "b", "fare": 3, "started": "soon"},
            [1],
            {"k": ["b"], "fare": 3, "started": start, "w": 2},
        )
    )
    (rides / "3.json").write_text(lines({"k": "c", "fare": 7, "started": start, "w": "again"}))
    for _ in range(2):
        loop.once()
    _, second = loop.progress
    reported = (
        f'{rides / "2.json"}:1 has the column "w", which "Rides" does not have: it is ignored until `belvedere '
        "schema accept`"
    )
    assert second.notices == (reported,)
    assert [r.reason for r in second.examples] == [
        'column "fare": 1.5 is not of type BIGINT',
        'column "fare": "free" is not of type BIGINT',
        'column "started": "soon" is not of type TIMESTAMP',
    ]
    kept = {r["k"]: (r["fare"], r["n"]) for r in loop.rows("Fares")}
    assert kept == {"a": (3, 2), "c": (7, 1), '["b"]': (3, 1)}
    assert loop.counts("Rides") == (8, 4, 0, 4)
    shutil.rmtree(tmp_path / "data")  # everything was archived
    loop.once()
    (tmp_path / "data" / "Rides").mkdir(parents=True)
    (tmp_path / "data" / "Rides" / "4.json").write_text(lines({"k": "c", "fare": 1}))
    loop.once()
    assert {r["k"]: r["fare"] for r in loop.rows("Fares")}["c"] == 8


def test_many_malformed_lines_are_counted(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from belvedere.connectors.reading import reader as source_files

    monkeypatch.setattr(source_files, "SMALL_BYTES", -1)
    (tmp_path / "T.json").write_text('{"id": 1}\n' * 30_000 + "no\n" * 20_000)
    loop = Loop(
        spark,
        tmp_path,
        "IMPORT files.T;",
        "[sources.files]\npath = '.'\n[sources.files.tables.T]\ncolumns = {id = 'INT'}",
    )
    loop.once()
    assert loop.counts("T") == (50_000, 30_000, 0, 20_000)
    assert len(loop.rows("T")) == 30_000
