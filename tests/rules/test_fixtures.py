"""One golden file per rule: its script, the output of `explain`, and the view and its changes after each epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from belvedere.commands.test import failure_text
from belvedere.compiler import compile_script
from belvedere.pipeline.choose import RULES, maintain, plain, without
from belvedere.rules.events import EventsStage
from belvedere.rules.history import HistoryStage
from belvedere.rules.ingest import IngestStage
from belvedere.rules.linear import ConstantStage
from belvedere.scenarios import Scenario, read_scenarios, run_scenario, updated

FOLDER = Path(__file__).parents[1] / "fixtures" / "rules"
NAMES = [r.name for r in RULES] + [s.rule for s in (ConstantStage, IngestStage, EventsStage, HistoryStage)]
REWRITES = {"distinct", "distinct counts", "offset", "grouping sets", "over", "row number", "outer join"}
"""Rules that make other operators of one: no stage is called by their name."""


def scenario_of(rule: str) -> tuple[Path, Scenario]:
    path = FOLDER / f"{rule.replace(' ', '_')}.test"
    (scenario,), malformed = read_scenarios(path.read_text(encoding="utf-8"), str(path))
    assert not malformed
    return path, scenario


def test_each_rule_has_a_file() -> None:
    assert sorted(p.stem.replace("_", " ") for p in FOLDER.glob("*.test")) == sorted(NAMES)


@pytest.mark.parametrize("rule", NAMES)
def test_the_rule_keeps_what_its_file_shows(rule: str) -> None:
    """The view is kept by the rule; where it may be switched off, by others then."""
    compiled = compile_script(scenario_of(rule)[1].script)
    assert compiled.ok, compiled.diagnostics
    catalog = compiled.catalog
    kept = maintain(catalog).stages
    if rule not in REWRITES:
        assert rule in {s.rule for s in kept}
    if rule in {r.name for r in RULES if r.is_optional}:
        assert maintain(catalog, without(rule)).stages != kept


@pytest.mark.spark
@pytest.mark.parametrize("rule", [pytest.param(r, marks=pytest.mark.smoke(f"rule {r}")) for r in NAMES])
def test_its_views_are_what_the_file_says(rule: str, spark: Any, request: pytest.FixtureRequest) -> None:
    path, scenario = scenario_of(rule)
    outcome = run_scenario(scenario, path, lambda: spark, batch=True)
    if request.config.getoption("--update"):
        path.write_text(updated(path.read_text(encoding="utf-8"), outcome.checks), encoding="utf-8")
    assert outcome.ok, failure_text(path, outcome)


def test_options_know_the_rules_by_name() -> None:
    assert without("merge", cost=False).off == {"merge"}
    assert plain().off == {r.name for r in RULES if r.is_optional}
    with pytest.raises(ValueError, match="these are not rules that can be switched off: keyed, merged"):
        without("merge", "merged", "keyed")


def test_a_rule_that_refuses_is_named_with_its_reason() -> None:
    table = "CREATE TABLE T (id INT PRIMARY KEY, g INT, x DOUBLE);\n"
    catalog = compile_script(
        table + "V := SELECT id, sum(x) OVER (PARTITION BY g ORDER BY id % 2) AS s FROM T;"
    ).catalog
    kept = next(s for s in maintain(catalog).stages if s.output == "V")
    assert kept.rule == "keyed"
    assert kept.reason.startswith("key by key: ")
    assert "ORDER BY" in kept.reason
