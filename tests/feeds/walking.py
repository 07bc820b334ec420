"""Random walks: machines of hypothesis that take thousands of steps.

In: what makes a machine, a seed. Out: nothing, or the failure with the steps that have led to it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.internal.conjecture import engine
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

ROOM = 1 << 20
"""Bytes of choices that a walk may make: 8,192 of hypothesis' own are some 1,600 steps."""


def walks(
    make: Callable[[], RuleBasedStateMachine],
    number: int,
    examples: int,
    steps: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So many walks of so many steps; the first of them takes the simplest of all steps again and again."""
    monkeypatch.setattr(engine, "BUFFER_SIZE", ROOM)
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        phases=[Phase.generate],  # to make a walk shorter takes as long as a hundred others
        suppress_health_check=list(HealthCheck),
    )

    def machine() -> RuleBasedStateMachine:
        return make()

    run_state_machine_as_test(seed(number)(machine), settings=chosen)  # type: ignore[arg-type]
