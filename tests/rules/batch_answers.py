"""The headline promise as one assertion, and the runs that it is tested in."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from belvedere import Workbench

STORES_AND_SEEDS = [
    ("sqlite", 1),
    pytest.param("postgres", 2, marks=pytest.mark.postgres),
    *(pytest.param("sqlite", s, marks=pytest.mark.nightly) for s in range(3, 12)),
    *(pytest.param("postgres", s, marks=[pytest.mark.postgres, pytest.mark.nightly]) for s in range(12, 16)),
]
"""Of random changes: one run on each store, and more at night."""


def epochs(seed: int) -> int:
    """A run of `STORES_AND_SEEDS` is short in `make test`: the first epoch, changes, and the restart after the second epoch."""
    return 4 if seed <= 2 else 6


def are_batch_answers(wb: Workbench, views: Iterable[str], epoch: int) -> None:
    """Each view holds just what its query answers in batch, to the last digit."""
    for view in views:
        assert sorted(map(str, wb.rows(view))) == sorted(map(str, wb.batch(view))), (view, epoch)
