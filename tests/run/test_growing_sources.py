"""Columns that later files have: told once, accepted or added over the rows so far, or a reason to reject."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from belvedere.cli import app
from belvedere.errors import BelvedereError
from tests.run.loops import Loop

SCRIPT = """
IMPORT trips.Rides;
Fares := SELECT k, sum(fare) AS fare, count(*) AS n FROM Rides GROUP BY k;
Counts := SELECT k, count(*) AS n FROM Rides GROUP BY k;
"""


def lines(*rows: Any) -> str:
    return "".join(json.dumps(r) + "\n" for r in rows)


def started(spark: Any, folder: Path, extra: str = "") -> Loop:
    rides = folder / "data" / "Rides"
    rides.mkdir(parents=True)
    (rides / "1.json").write_text(lines({"k": "a", "fare": 1}))
    (folder / "s.sqrl").write_text(SCRIPT)
    loop = Loop(spark, folder, SCRIPT, f"[sources.trips]\npath = 'data'\n{extra}")
    loop.once()
    return loop


def said(loop: Loop, *words: str) -> str:
    found = CliRunner().invoke(app, ["schema", *words, str(loop.folder / "s.sqrl"), "--store", loop.url])
    assert found.exit_code == 0, found.output
    return found.output


def test_a_table_is_printed_to_paste(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "Rides.json").write_text(
        lines({"k": "a", "fare": 1, "né e": [1.5], "at": "2024-01-01T00:00:00Z"})
    )
    (tmp_path / "s.sqrl").write_text("IMPORT trips.Rides;")
    (tmp_path / "belvedere.toml").write_text("[sources.trips]\npath = 'data'\n")
    call = ["schema", str(tmp_path / "s.sqrl")]
    pasted = CliRunner().invoke(app, call).output
    assert pasted == (
        "[sources.trips.tables.Rides]\n"
        'columns = { k = "STRING", fare = "BIGINT", "né e" = "ARRAY<DOUBLE>", at = "TIMESTAMP" }\n\n'
    )
    (tmp_path / "belvedere.toml").write_text("[sources.trips]\npath = 'data'\n" + pasted)
    assert CliRunner().invoke(app, ["check", str(tmp_path / "s.sqrl")]).exit_code == 0
    assert CliRunner().invoke(app, [*call, "--json"]).output.startswith("{")


@pytest.mark.spark
def test_new_columns_are_accepted(spark: Any, tmp_path: Path) -> None:
    loop = started(spark, tmp_path)
    (tmp_path / "data" / "Rides" / "2.json").write_text(lines({"k": "b", "fare": 2}, {"k": "b", "fare": 1.5, "w": "x"}))
    assert "nothing new" not in said(loop)  # the file is there, and not read yet
    loop.once()
    assert [r.reason for r in loop.progress[-1].examples] == ['column "fare": 1.5 is not of type BIGINT']
    (notice,) = loop.progress[-1].notices
    assert "2.json:2 has" in notice
    (tmp_path / "data" / "Rides" / "3.json").write_text(lines({"k": "b", "fare": 3, "w": "y"}))
    loop.once()
    assert loop.progress[-1].notices == (), "it is told once, also after a new start"

    assert 'new column "w" STRING' in said(loop)
    assert '"fare" BIGINT becomes DOUBLE' in said(loop, "accept")
    assert {tuple(sorted(r)) for r in loop.rows("Rides")} == {("_ingest_time", "_key", "_uid", "fare", "k")}
    (tmp_path / "data" / "Rides" / "4.json").write_text(lines({"k": "a", "fare": 0.25, "w": "ü"}))
    loop.once()
    assert sorted((r["k"], r["fare"], r["w"]) for r in loop.rows("Rides") if r["w"]) == [("a", 0.25, "ü")]
    assert {r["k"]: r["fare"] for r in loop.rows("Fares")} == {"a": 1.25, "b": 5.0}
    assert {r["k"]: r["n"] for r in loop.rows("Counts")} == {"a": 2, "b": 2}
    assert "there is nothing new" in said(loop, "accept")


@pytest.mark.spark
def test_new_columns_are_added_with_the_next_start(spark: Any, tmp_path: Path) -> None:
    from belvedere.connectors import new_columns

    loop = started(spark, tmp_path, "new_columns = 'add'\n")
    (tmp_path / "data" / "Rides" / "2.json").write_text(lines({"k": "b", "fare": 2, "w": 7}))
    with pytest.MonkeyPatch.context() as patch:  # it came after the start: the file waits, no value is lost
        patch.setattr(new_columns, "_with_new", lambda source, table, schema, noted: schema)
        with pytest.raises(BelvedereError, match=r'B6025.*"w" of .*2\.json:1'):
            loop.once()
    loop.once()
    assert sorted((r["k"], r["w"]) for r in loop.rows("Rides") if r["w"]) == [("b", 7)]
    assert len(loop.rows("Rides")) == 2


@pytest.mark.spark
def test_rows_with_new_columns_are_rejected(spark: Any, tmp_path: Path) -> None:
    loop = started(spark, tmp_path, "new_columns = 'reject'\n")
    (tmp_path / "data" / "Rides" / "2.json").write_text(lines({"k": "b", "fare": 2, "w": 7}, {"k": "c", "fare": 1}))
    (tmp_path / "data" / "Rides" / "3.csv").write_text("k,fare,w\nd,1,2\n")
    loop.once()
    assert sorted(r["k"] for r in loop.rows("Rides")) == ["a", "c"]
    assert sorted(r.reason for r in loop.progress[-1].examples) == [
        'has "w", which its table does not have',
        'has the column "w", which its table does not have',
    ]


@pytest.mark.spark
def test_files_that_are_gone_are_told_before_they_would_be_read_again(spark: Any, tmp_path: Path) -> None:
    loop = started(spark, tmp_path, "[sources.trips.tables.Rides]\ncolumns = {k = 'STRING', fare = 'BIGINT'}\n")
    project = tmp_path / "belvedere.toml"
    project.write_text(project.read_text().replace("BIGINT", "INT"))
    call = ["plan", str(tmp_path / "s.sqrl"), "--store", loop.url]
    assert "files are gone" not in CliRunner().invoke(app, call).output
    (tmp_path / "data" / "Rides" / "1.json").unlink()
    assert (
        "Rides would be re-read, but files are gone (1 of 1): their rows would be lost"
        in CliRunner().invoke(app, call).output
    )
    assert json.loads(CliRunner().invoke(app, [*call, "--json"]).output)["lost_files"] == {"Rides": [1, 1]}
