"""`--log json`: one JSON object a line on stderr."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer

from belvedere import cli
from belvedere.errors import fail
from belvedere.spark.run.run_loop import EpochProgress
from belvedere.terminal.logs import LogFormat, LogLines, log_line, logged

CLOCK = datetime(2024, 1, 1, tzinfo=UTC)


def objects(text: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in text.splitlines()]
    assert all(list(o)[:3] == ["time", "level", "message"] for o in found)
    return found


def test_an_epoch_and_its_views(capsys: pytest.CaptureFixture[str]) -> None:
    out = StringIO()
    lines = LogLines(False, out)
    lines.start("http://127.0.0.1:1", "sqlite:///s.db")
    lines.phase("starting Spark")
    counts = {"Größe": 2, "Größe$1": 5, "Still": 0}
    lines.progress(
        EpochProgress(
            7, CLOCK, {"T": 3}, counts, {"T": 1}, (), 0.25, notices=("a new\ncolumn",), quarantined={"Sum": 4}
        )
    )
    lines.end()
    found = objects(capsys.readouterr().err)
    assert out.getvalue() == "http://127.0.0.1:1\n", "stdout has the address alone"
    epoch = next(o for o in found if "seconds" in o)
    assert (epoch["epoch"], epoch["rows"], epoch["seconds"], epoch["rejected"]) == (7, 3, 0.25, 1)
    assert (epoch["level"], epoch["quarantined"]) == ("WARNING", ["Sum"])
    assert [(o["epoch"], o["view"], o["rows"]) for o in found if "view" in o] == [(7, "Größe", 2)]
    assert "a new\ncolumn" in [o["message"] for o in found]


def test_the_time_is_in_utc() -> None:
    assert json.loads(log_line("m", now=CLOCK)) == {"time": "2024-01-01T00:00:00.000Z", "level": "INFO", "message": "m"}


def test_records_and_the_last_error_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> None:
        with logged(LogFormat.JSON):
            logging.getLogger("belvedere.late").warning("%d late rows", 10)
            raise fail("B7005", "the server is away")

    with pytest.raises(typer.Exit) as ended:
        fails()
    assert ended.value.exit_code == 1
    late, error = objects(capsys.readouterr().err)
    assert (late["level"], late["message"], late["logger"]) == ("WARNING", "10 late rows", "belvedere.late")
    assert (error["level"], error["diagnostic"]["code"]) == ("ERROR", "B7005")


@pytest.mark.parametrize("command", ["run", "serve"])
def test_mistakes_of_a_script_are_lines(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "wrong.sqrl"
    script.write_text("V := SELECT nothing FROM Nowhere;\n")
    code = cli.run([command, str(script), "--log", "json", "--store", f"sqlite:///{tmp_path / 's.db'}"])
    assert code == 1
    found = objects(capsys.readouterr().err)
    assert found
    assert all(o["level"] == "ERROR" and o["diagnostic"]["code"].startswith("B") for o in found)
