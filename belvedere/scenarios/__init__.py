"""Scenarios: golden files that describe what a script does, step by step; `belvedere test` runs them.

In: the text of a `.test` file. Out: its scenarios, the results of running them, and the file with updated expectations.
"""

from __future__ import annotations

from belvedere.scenarios.outline import Case, Section, read_outline
from belvedere.scenarios.parse import Scenario, Step, read_scenarios
from belvedere.scenarios.play import Expectation, Outcome, run_scenario
from belvedere.scenarios.update import updated

__all__ = [
    "Case",
    "Expectation",
    "Outcome",
    "Scenario",
    "Section",
    "Step",
    "read_outline",
    "read_scenarios",
    "run_scenario",
    "updated",
]
