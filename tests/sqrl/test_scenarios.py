"""The whole language, row by row of its tables: the golden scenarios of tests/fixtures/sqrl, run as `belvedere test`
runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from belvedere.commands.test import failure_text
from belvedere.scenarios import Scenario, read_scenarios, run_scenario, updated

FOLDER = Path(__file__).parents[1] / "fixtures" / "sqrl"
FILES = sorted(FOLDER.glob("*.test"))


def scenarios(stepping: bool | None = None) -> list[Any]:
    """Every scenario of every file; or those that step, or that do not."""
    found = []
    for path in FILES:
        read, malformed = read_scenarios(path.read_text(encoding="utf-8"), str(path))
        assert not malformed, malformed
        found += [pytest.param(path, s, id=f"{path.stem}: {s.title}") for s in read if stepping in (None, steps(s))]
    return found


def steps(scenario: Scenario) -> bool:
    return any(s.kind == "step" for s in scenario.steps)


def check(path: Path, scenario: Scenario, executor: Any, update: bool) -> None:
    if update:  # the file may have been written since it was collected
        scenario = next(
            s for s in read_scenarios(path.read_text(encoding="utf-8"), str(path))[0] if s.title == scenario.title
        )
    outcome = run_scenario(scenario, path, lambda: executor)
    if update:
        path.write_text(updated(path.read_text(encoding="utf-8"), outcome.checks), encoding="utf-8")
    assert outcome.ok, failure_text(path, outcome)


@pytest.mark.parametrize(("path", "scenario"), scenarios(stepping=False))
def test_scenario(path: Path, scenario: Scenario, request: pytest.FixtureRequest) -> None:
    check(path, scenario, None, request.config.getoption("--update"))


@pytest.mark.thorough
@pytest.mark.parametrize(("path", "scenario"), scenarios(stepping=True))
def test_scenario_in_steps(path: Path, scenario: Scenario, executor: Any, request: pytest.FixtureRequest) -> None:
    check(path, scenario, executor, request.config.getoption("--update"))


def test_titles_are_unique() -> None:
    titles = [s.id for s in scenarios()]
    assert len(set(titles)) == len(titles)
