"""Earlier definitions of a name never show by the ids that the catalog gives them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from belvedere.api.http.status import status_of
from belvedere.catalog.shown_names import shown_names
from belvedere.cli import run
from belvedere.compiler import compile_script
from belvedere.engine.epoch_row.measurements import Measured
from belvedere.store import EpochRow
from tests.event_time.cases import at

SCRIPT = """
CREATE STREAM Trips (id BIGINT NOT NULL, city STRING, amount INT, at TIMESTAMP, WATERMARK FOR at);
Trips := SELECT *, amount * 2 AS twice FROM Trips;
City := SELECT city, count(*) AS n FROM Trips WHERE twice > 2 GROUP BY city;
City := SELECT c.city, m.most FROM City c JOIN (SELECT max(n) AS most FROM City) m ON TRUE;
City := SELECT city, most FROM City WHERE most > 1;
"""


def test_names_in_a_text() -> None:
    reported = "scan Hot (definition 1), Hot$state (definition 12); Größe (definition 2) and 5 ~3"
    assert shown_names("scan Hot~1, Hot~12$state; Größe~2 and 5 ~3") == reported


@pytest.mark.parametrize("options", [[], ["--json"], ["--sql", "City"], ["--sql", "Trips"]])
def test_explain_shows_no_id(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.sqrl").write_text(SCRIPT)
    assert run(["explain", str(tmp_path / "a.sqrl"), *options]) == 0
    out = capsys.readouterr().out
    assert "~" not in out
    assert "(definition 1)" in out or "(definition 2)" in out
    if options == ["--json"]:
        names = [view["name"] for view in json.loads(out)]
        assert len(set(names)) == len(names), "they tell the definitions apart"


def test_plan_and_status_show_no_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.sqrl").write_text(SCRIPT)
    assert run(["plan", str(tmp_path / "a.sqrl"), "--store", f"sqlite:///{tmp_path}/a.db"]) == 0
    assert "~" not in capsys.readouterr().out
    catalog = compile_script(SCRIPT).catalog
    measured = Measured().after(dict.fromkeys((*catalog.inputs, *catalog.views), 1), {}, 0.0)
    row = EpochRow(1, at("8:00"), extra={"measured": measured.as_document()}, committed_at=at("8:00"))
    assert "~" not in json.dumps(status_of(catalog, row, takes_pushes=False))
