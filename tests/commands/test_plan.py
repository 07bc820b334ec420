"""What `belvedere plan` says that a start would do, beside what the start does, and what `run` asks before it."""

from __future__ import annotations

import io
import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from belvedere.cli import app, run
from belvedere.commands.plan import confirm_deployment, deployment_of
from belvedere.compiler import compile_script
from belvedere.errors import BelvedereError
from belvedere.pipeline.deployment import ChangeEffect, Deployment
from belvedere.store import open_reader
from belvedere.workbench.workbench import Workbench

INPUT = "CREATE STREAM Visits (page TEXT, visitor INT, seconds DOUBLE);\n"
PRIVATE = "CREATE STREAM _Clicks (page TEXT);\nClicks := SELECT page, count(*) AS n FROM _Clicks GROUP BY page;\n"
PAGES = "Pages := SELECT page, count(*) AS n, sum(seconds) AS total FROM Visits GROUP BY page;\n"
BUSY = "Busy := SELECT page FROM Pages WHERE n > 1;\n"
LATEST = "/*+ at_read */\nLong := SELECT page, visitor FROM Visits WHERE seconds > 5;\n"
SCRIPT = INPUT + PRIVATE + PAGES + BUSY + LATEST
ROWS = [{"page": p, "visitor": v, "seconds": v * 3.0} for v, p in enumerate(("a", "b", "a", "ü"))]


def planned(script: str, url: str) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    """Per relation what becomes of it, why, and what clients will miss."""
    found = deployment_of(compile_script(script).catalog, url)
    return {c.name: (c.change.value, c.reason, c.missed) for c in found.changes}


def filled(spark: Any, folder: Path, script: str = SCRIPT) -> Workbench:
    bench = Workbench(script, f"sqlite:///{folder}/s.db", spark=spark)
    bench.insert("Visits", ROWS)
    bench.insert("_Clicks", [{"page": "a"}])
    bench.step()
    return bench


def test_a_new_store_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "s.sqrl").write_text(SCRIPT)
    url = f"sqlite:///{tmp_path}/none.db"
    found = planned(SCRIPT, url)
    assert {change for change, _, _ in found.values()} == {"added"}
    shown = CliRunner().invoke(app, ["plan", str(tmp_path / "s.sqrl"), "--store", url])
    assert shown.exit_code == 0, shown.output
    assert "5 added" in shown.output
    assert [f.name for f in tmp_path.iterdir()] == ["s.sqrl"]


@pytest.mark.postgres
def test_a_new_store_on_postgres_is_not_made(postgres_url: str) -> None:
    assert {change for change, _, _ in planned(SCRIPT, postgres_url).values()} == {"added"}
    with pytest.raises(BelvedereError, match="B7014"):
        open_reader(postgres_url)


@pytest.mark.usefixtures("each_store")
def test_what_a_start_does_is_what_was_planned(executor: Any) -> None:
    with closing(Workbench(SCRIPT, spark=executor)) as bench:
        bench.insert("Visits", ROWS)
        bench.insert("_Clicks", [{"page": "a"}])
        bench.step()
        url = bench.store.url
        assert {change for change, _, _ in planned(SCRIPT, url).values()} == {"kept"}
        assert {c.name: c.rows for c in deployment_of(compile_script(SCRIPT).catalog, url).changes}["Pages"] == 3
        changed = SCRIPT.replace("sum(seconds) AS total", "max(seconds) AS longest")
        found = planned(changed + "More := SELECT visitor FROM Visits;\n", url)
        assert found["Pages"] == (
            "changed",
            "its definition has changed; computed from stored rows (Visits)",
            ("total",),
        )
        assert found["Busy"] == ("changed", "Pages has changed; computed from stored rows (Visits)", ())
        assert found["More"] == ("added", "computed from stored rows (Visits)", ())
        assert found["Long"][0] == found["Visits"][0] == found["Clicks"][0] == "kept"
        assert planned(SCRIPT.replace(BUSY, ""), url)["Busy"] == ("dropped", "the script no longer defines it", ())
        typed = planned(
            SCRIPT.replace("count(*) AS n, sum", "CAST(count(*) AS STRING) AS n, sum").replace(BUSY, ""), url
        )
        assert typed["Pages"][2] == ("n (BIGINT, then STRING)",)


@pytest.mark.usefixtures("each_store")
def test_what_cannot_be_is_refused(executor: Any) -> None:
    with closing(Workbench(SCRIPT, spark=executor)) as bench:
        bench.insert("_Clicks", [{"page": "a"}])
        bench.step()
        url = bench.store.url
        change, reason, _ = planned(
            SCRIPT.replace("Clicks := SELECT page, count(*)", "Clicks := SELECT page, 2 * count(*)"), url
        )["Clicks"]
        assert (change, "not all earlier rows" in reason) == ("refused", True)
        change, reason, _ = planned(SCRIPT.replace("visitor INT", "visitor TEXT"), url)["Visits"]
        assert (change, "rows that were pushed would be lost" in reason) == ("refused", True)


def test_the_command_and_run(
    executor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = filled(executor, tmp_path)
    bench.close()
    script, url = tmp_path / "s.sqrl", f"sqlite:///{tmp_path}/s.db"
    script.write_text(SCRIPT.replace(BUSY, ""))
    answer = CliRunner().invoke(app, ["plan", str(script), "--store", url, "--json"])
    assert answer.exit_code == 0
    assert {c["name"]: c["change"] for c in json.loads(answer.output)["changes"]}["Busy"] == "dropped"
    shown = CliRunner().invoke(app, ["plan", str(script), "--store", url])
    assert "clients will no longer find Busy" in shown.output
    refused = CliRunner().invoke(app, ["run", str(script), "--store", url, "--once"])
    assert isinstance(refused.exception, BelvedereError)
    assert "B7069" in str(refused.exception)
    script.write_text(SCRIPT.replace("Clicks := SELECT page, count(*)", "Clicks := SELECT page, 2 * count(*)"))
    assert run(["plan", str(script), "--store", url]) == 1
    assert "Clicks is refused: undo the change of the view" in capsys.readouterr().out
    gone: Deployment = deployment_of(compile_script(SCRIPT.replace(BUSY, "")).catalog, url)
    assert [c.name for c in gone.of(ChangeEffect.DROPPED)] == ["Busy"]
    for said, goes in (("y\n", True), ("n\n", False)):
        terminal = io.StringIO(said)
        monkeypatch.setattr(terminal, "isatty", lambda: True)
        monkeypatch.setattr(sys, "stdin", terminal)
        assert confirm_deployment(gone) is goes


def test_query_templates_and_fields_that_go_are_told(executor: Any, tmp_path: Path) -> None:
    script = (
        "CREATE TABLE Machines (id INT NOT NULL, parts ARRAY<STRUCT<name STRING>>, PRIMARY KEY (id));\n"
        "CREATE TABLE Stops (machine INT NOT NULL, at INT NOT NULL, PRIMARY KEY (machine, at));\n"
        "Machines.stops(least INT NOT NULL) := JOIN Stops s ON s.machine = this.id AND s.at >= :least;\n"
        "Machines._own := JOIN Stops s ON s.machine = this.id;\n"
        "Late(since INT NOT NULL) := SELECT machine, at FROM Stops WHERE at > :since;\n"
    )
    url = f"sqlite:///{tmp_path}/s.db"
    with closing(Workbench(script, url, spark=executor)) as bench:
        bench.step()
    assert deployment_of(compile_script(script).catalog, url).gone == ()
    other = "\n".join(line for line in script.splitlines() if "stops" not in line and "_own" not in line)
    found = deployment_of(
        compile_script(other.replace("since INT", "after INT").replace(":since", ":after")).catalog, url
    )
    assert found.gone == ("field Machines.stops(least)", "query Late(since)")
    assert found.takes_away
    found = deployment_of(compile_script(script.replace("parts ARRAY<STRUCT<name STRING>>, ", "")).catalog, url)
    assert "field Machines.parts" in found.gone


def test_a_refused_start_starts_nothing(executor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before the API and Spark start, whatever was answered beforehand."""
    filled(executor, tmp_path).close()
    script = tmp_path / "s.sqrl"
    script.write_text(
        SCRIPT.replace("SELECT page, count(*) AS n FROM _Clicks", "SELECT page, count(*) + 1 AS n FROM _Clicks")
    )
    monkeypatch.setattr("belvedere.commands.run.use_java", lambda: pytest.fail("Java was looked for"))
    asked = CliRunner().invoke(app, ["run", str(script), "--store", f"sqlite:///{tmp_path}/s.db", "--once", "--yes"])
    assert isinstance(asked.exception, BelvedereError)
    assert asked.exception.diagnostics[0].code == "B7030"
