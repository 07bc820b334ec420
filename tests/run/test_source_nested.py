"""Nested data of files: hidden in the input, shown by its nested tables, and read all the same."""

from __future__ import annotations

from pathlib import Path

from belvedere.compiler import compile_script
from belvedere.connectors.project_file import load_project
from belvedere.spark.run.epoch_sources import open_sources


def test_nested_columns_are_read_and_made_ones_are_not(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "G"
    folder.mkdir(parents=True)
    (folder / "a.jsonl").write_text('{"groupid": 501, "machines": [{"machineId": 1075}]}\n')
    (tmp_path / "belvedere.toml").write_text('[sources.app]\nconnector = "files"\npath = "data"\nformat = "json"\n')
    project = load_project(tmp_path)
    compiled = compile_script("IMPORT app.G KEEP 1 DAY;", path=tmp_path / "n.sqrl", project=project)
    (feed,) = open_sources(compiled.catalog, project, None, {}).feeds.values()
    assert [c.name for c in feed.columns] == ["groupid", "machines"]  # type: ignore[union-attr]
