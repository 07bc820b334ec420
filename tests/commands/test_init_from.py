"""`belvedere init --from`: a project over a folder of data files, which checks without an error."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from belvedere.cli import app, run
from tools.servers.kafka import free_port


def test_a_project_is_made_of_a_folder(tmp_path: Path) -> None:
    data = tmp_path / "My Dätä 1"
    (data / "Trips").mkdir(parents=True)
    (data / "Trips" / "1.jsonl").write_text('{"id": 1, "né": "x"}\n')
    (data / "zones-of-2024.csv").write_text("zone,at\n1,2024-01-01\n")
    (data / "empty.json").write_text("")
    (data / "notes.txt").write_text("no table")
    call = ["init", str(tmp_path / "p"), "--from", str(data), "--json"]
    made = CliRunner().invoke(app, call)
    assert made.exit_code == 0, made.output
    found = json.loads(made.stdout)
    assert [x.split(" ")[0] for x in found["left_out"]] == ["empty"]
    script = Path(found["script"])
    assert "-- id BIGINT, né STRING\nIMPORT my_d_t_1.Trips;" in script.read_text()
    assert "-- zone BIGINT, at DATE\nIMPORT my_d_t_1.`zones-of-2024`;" in script.read_text()
    assert (script.parent / "belvedere.toml").read_text().startswith('on_error = "quarantine"')
    checked = CliRunner().invoke(app, ["check", str(script)])
    assert checked.exit_code == 0, checked.output
    assert run(call) == 1, "nothing is overwritten"


def test_what_to_try_next_is_a_command_of_a_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", str(tmp_path / "the café's shop")]) == 0
    assert 'on_error = "quarantine"' in (tmp_path / "the café's shop" / "belvedere.toml").read_text()
    command = capsys.readouterr().out.partition("now try: ")[2]
    assert shlex.split(command) == ["belvedere", "run", str(tmp_path / "the café's shop" / "shop.sqrl")]


def test_an_address_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", str(tmp_path / "p"), "--from", "mysql://host/shop"]) == 2
    assert run(["init", str(tmp_path / "p"), "--from", f"kafka://127.0.0.1:{free_port()}"]) == 1
    assert run(["init", str(tmp_path / "p"), "--from", f"postgres://u:geheim@127.0.0.1:{free_port()}/shop"]) == 1
    assert run(["init", str(tmp_path / "p"), "--from", "kafka"]) == 2
    said = capsys.readouterr().err
    assert "`kafka` is not a directory: write a folder, kafka://host:port or" in " ".join(said.split())
    assert "B6201" in said
    assert "B6220" in said
    assert "geheim" not in said
    assert not (tmp_path / "p").exists()


def test_a_folder_without_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data").mkdir()
    assert run(["init", str(tmp_path / "p"), "--from", str(tmp_path / "data")]) == 1
    assert "B9113" in capsys.readouterr().err
    assert run(["init", str(tmp_path / "p"), "--from", str(tmp_path / "none")]) == 2
