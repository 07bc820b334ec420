"""The whole language, row by row of its tables: the golden scenarios of tests/fixtures/sqrl, run as `belvedere test` runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from belvedere.commands.test import failure_text
from belvedere.scenarios import Scenario, read_scenarios, run_scenario, updated

FOLDER = Path(__file__).parents[1] / "fixtures" / "sqrl"
FILES = sorted(FOLDER.glob("*.test"))


def scenarios() -> list[Any]:
    """Every scenario of every file; those that step need Spark."""
    found = []
    for path in FILES:
        read, malformed = read_scenarios(path.read_text(encoding="utf-8"), str(path))
        assert not malformed, malformed
        found += [
            pytest.param(path, s, id=f"{path.stem}: {s.title}", marks=[pytest.mark.spark] if steps(s) else []) for s in read
        ]
    return found


def steps(scenario: Scenario) -> bool:
    return any(s.kind == "step" for s in scenario.steps)


@pytest.mark.parametrize(("path", "scenario"), scenarios())
def test_scenario(path: Path, scenario: Scenario, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update"):  # the file may have been written since it was collected
        scenario = next(s for s in read_scenarios(path.read_text(encoding="utf-8"), str(path))[0] if s.title == scenario.title)
    outcome = run_scenario(scenario, path, lambda: request.getfixturevalue("spark"))
    if request.config.getoption("--update"):
        path.write_text(updated(path.read_text(encoding="utf-8"), outcome.checks), encoding="utf-8")
    assert outcome.ok, failure_text(path, outcome)


def test_titles_are_unique() -> None:
    titles = [s.id for s in scenarios()]
    assert len(set(titles)) == len(titles)
