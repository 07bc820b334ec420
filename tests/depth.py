"""The number of examples per property test, and its store: all at night or for a single file, a twelfth by day.

Mark such a test `deep`: `make nightly` runs it too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import pytest

V = TypeVar("V")
PART = 12
quick = False
"""Set by conftest before test modules are read."""


def examples(number: int) -> int:
    """`number`, or its twelfth by day."""
    return -(-number // PART) if quick else number


def turn(values: Iterable[V], number: int, turns: int = 2) -> list[V]:
    """All `values`, or by day those of turn `number`: each value is tried in one of `turns` tests by day, in all at
    night."""
    found = list(values)
    return found[number % turns :: turns] if quick else found


def at_night(values: Iterable[Any]) -> list[Any]:
    """Parameters that `make nightly` adds; each a value, or a tuple of one for each name. Those with "postgres" need
    one."""
    given = [v if isinstance(v, tuple) else (v,) for v in values]
    return [
        pytest.param(*v, marks=[pytest.mark.nightly, *([pytest.mark.postgres] if "postgres" in v else [])])
        for v in given
    ]


def stores_by_turns(seeds: Iterable[int], block: int = 1) -> list[Any]:
    """Each seed on one store, every fourth block of seeds on Postgres: operators work on the same files over both
    stores.

    For `@pytest.mark.parametrize(("each_store", "seed"), ..., indirect=["each_store"])`.
    """
    return [
        pytest.param("postgres", s, marks=pytest.mark.postgres) if s // block % 4 == 3 else ("sqlite", s) for s in seeds
    ]


STORES_AND_SEEDS = [("sqlite", 1), *at_night([("postgres", 2), ("sqlite", 3), ("sqlite", 4), ("postgres", 5)])]
"""Of random changes: a run of seed 1, which is short, and longer ones at night."""
