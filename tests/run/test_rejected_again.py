"""Rejected rows are retried after a correction: valid ones arrive once, also after a crash; the others remain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from belvedere.cli import app
from tests.run.loops import Loop

pytestmark = pytest.mark.spark

SCRIPT = """
IMPORT trips.Rides;
IMPORT trips.Stops;
CREATE STREAM Clicks (page STRING NOT NULL, n INT);
Fares := SELECT k, sum(fare) AS fare FROM Rides GROUP BY k;
Pages := SELECT page, sum(n) AS n FROM Clicks GROUP BY page;
"""
PROJECT = """[sources.trips]
path = 'data'
[sources.trips.tables.Rides]
columns = {{ k = "STRING", fare = "{}" }}
[sources.trips.tables.Stops]
columns = {{ stop = "STRING", lines = "{}" }}
"""


STOPS = """stop,lines
Main,1
Park,2.5
"Zoo, east",2.5
"say ""é""
or more",3.5
Lake,many
it "is",4.5
"""


K = "ü\u2028"
"""With a character that ends a line for some."""


def lines(*rows: Any) -> str:
    return "".join((r if isinstance(r, str) else json.dumps(r, ensure_ascii=False)) + "\n" for r in rows)


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_rejected_rows_arrive_once(
    spark: Any, tmp_path: Path, store: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    rides = (
        {"k": "a", "fare": 1},
        {"k": K, "fare": 1.5},
        {"k": "ü", "fare": "free"},
        "{broken",
        {"k": "b", "fare": 2.25},
    )
    (data / "Rides.json").write_text(lines(*rides))
    (data / "Stops.csv").write_text(STOPS, encoding="utf-8")
    loop = Loop(spark, tmp_path, SCRIPT, PROJECT.format("INT", "INT"))
    if store == "postgres":
        loop.url = request.getfixturevalue("postgres_url")
    (tmp_path / "s.sqrl").write_text(SCRIPT)
    loop.once(
        ("Clicks", json.dumps([{"page": "p", "n": 1}, {"page": "p", "n": 2**40}, {"page": None, "n": 2}]).encode())
    )
    call = ["rejected", "list", str(tmp_path / "s.sqrl"), "--store", loop.url]
    reported = json.loads(CliRunner().invoke(app, [*call, "--json"]).output)["rejected"]
    assert len(reported) == 11
    assert {r["text"] for r in reported} > {'"Zoo, east",2.5', '"say ""é""\nor more",3.5', '"it ""is""",4.5'}
    assert {r["table"] for r in reported} == {"Rides", "Stops", "Clicks"}
    assert "11 rejected" in CliRunner().invoke(app, call).output

    (tmp_path / "belvedere.toml").write_text(PROJECT.format("DOUBLE", "DOUBLE"))
    loop.script = SCRIPT.replace("n INT", "n BIGINT")
    with (
        monkeypatch.context() as patch
    ):  # the process ends before the commit: the journal has the push, no epoch has it
        patch.setattr("belvedere.state.state.State.prepare", lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            loop.once(retry=True)
    assert len(json.loads(CliRunner().invoke(app, [*call, "--json"]).output)["rejected"]) == 11
    for _ in range(2):
        loop.once(retry=True)
        assert sorted((r["k"], r["fare"]) for r in loop.rows("Fares")) == [("a", 1.0), ("b", 2.25), (K, 1.5)]
        stops = [("Main", 1.0), ("Park", 2.5), ("Zoo, east", 2.5), ('it "is"', 4.5), ('say "é"\nor more', 3.5)]
        assert sorted((r["stop"], r["lines"]) for r in loop.rows("Stops")) == stops
        assert loop.rows("Pages")[0]["n"] == 1 + 2**40
        left = loop.rows("_belvedere_rejected")
        assert sorted((r["table"], r["text"]) for r in left) == [
            ("Clicks", '{"page": null, "n": 2}'),
            ("Rides", '{"k": "ü", "fare": "free"}'),
            ("Rides", "{broken"),
            ("Stops", "Lake,many"),
        ]
