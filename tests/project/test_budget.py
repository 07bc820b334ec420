"""The budget of a run of tests, its samples at night, and the slices of `make nightly`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.budget import Budget
from tests.nightly import ROOT, SLICES, main, slice_of
from tests.sample import Sample


def reported(budget: Budget, test: str, seconds: float, worked: float | None = None) -> None:
    properties = [] if worked is None else [("processor seconds", worked)]
    report: Any = SimpleNamespace(nodeid=test, when="call", duration=seconds, user_properties=properties)
    budget.pytest_runtest_logreport(report)


def ended(budget: Budget) -> list[str]:
    session: Any = SimpleNamespace(exitstatus=pytest.ExitCode.OK)
    budget.pytest_sessionfinish(session)
    assert (session.exitstatus == pytest.ExitCode.OK) == (budget.broken == [])
    return budget.broken


def test_a_run_within_its_budget_passes() -> None:
    budget = Budget(1.0)
    for n in range(100):
        reported(budget, f"t{n}", 0.5)
    assert ended(budget) == []


def test_a_long_test_and_many_slow_ones_are_named() -> None:
    budget = Budget(1.0, 1.0)
    for n in range(100):
        reported(budget, f"t{n}", 2.0 if n < 6 else 0.1)
    reported(budget, "long", 20.5)
    assert ended(budget) == [
        "long (call) took 20.5 seconds, and may take 20.0",
        "95% of all took up to 2.00 seconds, and may take 1.00",
    ]


def test_a_run_of_too_many_minutes_fails() -> None:
    budget = Budget(1.0)
    budget.started -= 90
    reported(budget, "t", 0.1)
    assert ended(budget) == ["all took 1.5 minutes, and may take 1.0"]


def test_a_busy_machine_has_more_time() -> None:
    budget = Budget(1.0, 1.0)
    reported(budget, "computes", 4.0, 2.0)
    reported(budget, "long", 30.0)
    assert budget.busy == 2.0
    assert ended(budget) == ["95% of all took up to 30.00 seconds, and may take 2.00"]


def test_a_slow_machine_has_more_time_too() -> None:
    budget = Budget(1.0, None, 2.0)
    reported(budget, "t", 39.0)
    assert ended(budget) == []
    reported(budget, "u", 41.0)
    assert ended(budget) == ["u (call) took 41.0 seconds, and may take 40.0"]


def test_without_a_budget_nothing_is_too_long() -> None:
    budget = Budget(None)
    reported(budget, "t", 1000.0)
    assert ended(budget) == []


def items(*places: str) -> list[Any]:
    return [SimpleNamespace(path=Path(p.split("::")[0]), nodeid=p) for p in places]


def test_a_sample_has_the_order_of_its_seed() -> None:
    def order(seed: str) -> list[str]:
        found = items(*(f"{f}::{t}" for f in "abcdefgh" for t in (1, 2)))
        Sample(1.0, seed).pytest_collection_modifyitems(found)
        return [i.nodeid for i in found]

    assert order("2026-01-01") == order("2026-01-01") != order("2026-01-02")
    firsts = order("2026-01-01")[::2]
    assert [f.replace("::1", "::2") for f in firsts] == order("2026-01-01")[1::2]  # a file stays together


def test_a_sample_begins_nothing_after_its_minutes() -> None:
    sample = Sample(1.0, "x")
    sample.pytest_collection_modifyitems([])
    sample.pytest_runtest_setup()
    sample.end -= 61
    with pytest.raises(pytest.skip.Exception, match="--seed x"):
        sample.pytest_runtest_setup()


def test_each_test_file_belongs_to_a_slice() -> None:
    files = {str(p.relative_to(ROOT)) for p in (ROOT / "tests").glob("**/test_*.py")}
    assert {f for f in files if slice_of(f) is None} == set()


def test_the_night_takes_at_most_a_hundred_minutes() -> None:
    assert max(s.minutes for s in SLICES.values()) <= 25
    assert sum(s.minutes for s in SLICES.values()) <= 100


def test_slices_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["?"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(SLICES)
    assert main(["no_slice", "--", "tests/plan"]) == 2
