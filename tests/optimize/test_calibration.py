"""What `belvedere calibrate` measures, keeps, and what `belvedere advise` makes of it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from belvedere.cli import app
from belvedere.compiler import compile_script
from belvedere.engine.epoch_row.measurements import Measured
from belvedere.errors import BelvedereError
from belvedere.optimize.choice import cheapest
from belvedere.optimize.costs import Coefficients, keep_coefficients, known_coefficients
from belvedere.pipeline.advice import made_operators, placed_views, workload_of
from belvedere.workbench.calibration import LEAST, SCRIPTS, EpochSeconds, calibrate, coefficients

SHIPPED = Coefficients()


def test_differences_of_epochs_become_coefficients() -> None:
    many, groups = 1_000, 200
    table = EpochSeconds(0.1, 0.5)
    filtered = 3 * SHIPPED.write + 2 * SHIPPED.linear
    read = 2 * SHIPPED.changed * many
    found = {
        "a table": table,
        "a filter": EpochSeconds(0.1, 0.5 + many * filtered),
        "few groups": EpochSeconds(0.16, 0.56 + read),
        "a join": EpochSeconds(0.3, 0.9),
        "an index": EpochSeconds(0.1, 0.5 + 5 * SHIPPED.indexed * many),
        "groups": EpochSeconds(0.16, 0.56 + read + (3 * SHIPPED.made + filtered) * groups),
    }
    made = coefficients(
        found, {"request": 0.001, "projected": -1.0, "read": 1e-6, "grouped": 2e-6, "matched": 3e-6}, many
    )
    requested = replace(
        SHIPPED,
        stage=0.06,
        joined=0.2,
        changed=2 * SHIPPED.changed,
        made=3 * SHIPPED.made,
        indexed=5 * SHIPPED.indexed,
        linear=2 * SHIPPED.linear,
        kept=2 * SHIPPED.kept,
        write=3 * SHIPPED.write,
        request=0.001,
        projected=LEAST * SHIPPED.projected,
        read=1e-6,
        grouped=2e-6,
        matched=3e-6,
    )
    assert asdict(made) == pytest.approx(asdict(requested))


def test_what_is_kept_is_known_again(tmp_path: Path) -> None:
    path = tmp_path / "some" / "costs.json"
    assert known_coefficients(path) is None
    costs = replace(SHIPPED, stage=0.5)
    keep_coefficients(costs, path)
    assert known_coefficients(path) == costs
    for text in ("", "[]", '{"stage": "much"}', '{"stages": 1}'):
        path.write_text(text)
        with pytest.raises(BelvedereError, match="B7068"):
            known_coefficients(path)


def test_costs_decide() -> None:
    """Where epochs are dear an aggregate is computed at read time, where requests are it is maintained."""
    catalog = compile_script(
        "CREATE TABLE T (k INT, a INT, PRIMARY KEY (k));\nV := SELECT a, count(*) AS n FROM T GROUP BY a;"
    ).catalog
    workload = workload_of(catalog, Measured(10, 1.0, {"T": 100}, {}), {"T": 10_000}, {"rate": 5.0})
    places = []
    for costs in (replace(SHIPPED, stage=10.0), replace(SHIPPED, grouped=1e-3)):
        made = made_operators(catalog, workload, costs)
        places.append(set(placed_views(catalog, made, cheapest(made.found)).views))
    assert places == [{"V"}, set()]


def test_a_latency_counts_all_branches_of_a_view() -> None:
    text = (
        "CREATE TABLE A (k INT, a INT, PRIMARY KEY (k));\nCREATE TABLE B (k INT, a INT, PRIMARY KEY (k));\n"
        "/*+ latency({}) */\nV := SELECT a, count(*) AS n FROM A GROUP BY a UNION ALL SELECT a, count(*) AS n FROM B "
        "GROUP BY a;"
    )
    rows = {"A": 100_000.0, "B": 100_000.0}  # each branch takes 20 ms
    found = []
    for latency in ("1 s", "30 ms", "10 ms"):
        catalog = compile_script(text.format(latency)).catalog
        workload = workload_of(catalog, Measured(10, 1.0, {"A": 10_000, "B": 10_000}, {}), rows, {"rate": 0.1})
        made = made_operators(catalog, workload)
        found.append(len(placed_views(catalog, made, cheapest(made.found)).views["V"].parts))
    assert found == [0, 1, 2]


@pytest.mark.spark
def test_a_machine_is_measured(spark: Any) -> None:
    reported: list[str] = []
    found = calibrate(spark, reported.append, many=200, epochs=1)
    scripts = [f"epochs of a script with {name}" for name in SCRIPTS]
    assert reported[1:] == [scripts[0], "requests on SQLite", *scripts[1:]]
    assert all(LEAST * asdict(SHIPPED)[n] <= v < 10 for n, v in asdict(found).items())


@pytest.mark.smoke("command calibrate")
@pytest.mark.spark
def test_the_commands(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    measured = replace(SHIPPED, stage=0.123)
    monkeypatch.setattr("belvedere.workbench.calibration.calibrate", lambda spark, reported: measured)
    monkeypatch.setattr(
        "belvedere.spark.jvm.quiet_session.batch_session", lambda: __import__("contextlib").nullcontext(spark)
    )
    answer = CliRunner().invoke(app, ["calibrate", "--json"])
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["coefficients"]["stage"] == 0.123
    assert known_coefficients(tmp_path / "belvedere" / "costs.json") == measured
    shown = CliRunner().invoke(app, ["calibrate"])
    assert "123,000" in shown.stdout
    assert "40,000" in shown.stdout


def test_what_cannot_be_kept_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BelvedereError, match="B7068"):
        keep_coefficients(SHIPPED, tmp_path / "file" / "costs.json")
