"""The command line: exit codes, JSON, and that a check is quick and starts no JVM."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from belvedere.cli import run


@pytest.fixture
def project(tmp_path: Path) -> Path:
    assert run(["init", str(tmp_path / "shop")]) == 0
    return tmp_path / "shop"


def test_the_project_that_init_makes_is_fine(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(project / "shop.sqrl")]) == 0
    assert "fine" in capsys.readouterr().out
    assert run(["fmt", "--check", str(project / "shop.sqrl")]) == 0


def test_init_overwrites_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "shop.sqrl").write_text("mine")
    assert run(["init", str(project)]) == 1
    assert "exists already" in capsys.readouterr().err
    assert (project / "shop.sqrl").read_text() == "mine"


def test_errors_are_shown_with_their_place(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = project / "shop.sqrl"
    script.write_text("V := SELECT a b c FROM shop")
    assert run(["check", str(script)]) == 1
    out = capsys.readouterr().out
    assert f"error[B1003]: a comma is missing between select items\n --> {script}:1:16" in out


def test_a_sink_that_is_not_there_is_told_without_a_project_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "alone.sqrl"
    script.write_text("_S := SELECT 1 AS a;\nEXPORT _S TO nothere.V;")
    assert run(["check", str(script)]) == 1
    out = capsys.readouterr().out
    assert "error[B6110]: sink `nothere` is not configured" in out
    assert "add [sinks.nothere] to belvedere.toml" in out


def test_json_has_everything(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = project / "shop.sqrl"
    script.write_text("IMPORT shop.Orders\nEXPORT Orders")
    assert run(["check", str(script), "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] is False
    (error,) = [d for d in answer["diagnostics"] if d["severity"] == "error"]
    assert (error["code"], error["span"]["line"], error["span"]["column"]) == ("B1001", 2, 14)


def test_a_project_file_with_errors(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "belvedere.toml").write_text('stor = "sqlite://"\n[sources.shop]\npath = "data/shop"\n')
    assert run(["check", str(project / "shop.sqrl")]) == 1
    out = capsys.readouterr().out
    assert "error[B9103]: unknown key `stor`" in out
    assert "did you mean `store`?" in out
    assert "belvedere.toml:1:1" in out


@pytest.mark.parametrize(
    "arguments",
    [
        ["check"],
        ["check", "/nonexistent.sqrl"],
        ["nonsense"],
        ["explain", "B0000"],
        ["check", "--nonsense", "x"],
        ["init", "/dev/null"],
    ],
)
def test_a_wrong_command_line_is_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_explain_a_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "b1003"]) == 0
    assert capsys.readouterr().out.startswith("B1003: a comma is missing between select items\n")
    assert run(["explain", "B1003", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["code"] == "B1003"


def test_fmt_leaves_a_script_with_errors_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.sqrl", tmp_path / "bad.sqrl"
    good.write_text("select 1 as a")
    bad.write_text("select")
    assert run(["fmt", str(good), str(bad)]) == 1
    assert good.read_text() == "SELECT 1 AS a;\n"
    assert bad.read_text() == "select"
    assert "B1002" in capsys.readouterr().err
    assert run(["fmt", str(good)]) == 0
    assert run(["fmt", "--check", str(good)]) == 0


def test_check_imports_no_spark(project: Path) -> None:
    code = (
        "import sys; from belvedere.cli import run; code = run(sys.argv[1:]);"
        "slow = {'pyspark', 'pandas', 'starlette', 'graphql', 'py4j', 'belvedere.sqlpp.lower', "
        "'belvedere.lang.relationships.kept_links'};"
        "assert not slow & set(sys.modules), sorted(sys.modules); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "check", str(project / "shop.sqrl")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
