"""Runs that can contain a number: their least and greatest numbers, compared with all keys at once.

In: runs, the name of an index. Out: the runs that can contain keys or a range, each with its part of the keys. A run
whose fence is not known can contain every number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from belvedere.state.hashing import Numbers
from belvedere.state.sorted_run import ANYWHERE, Run


class RunFences:
    """The fences of some runs."""

    def __init__(self, runs: Sequence[Run], name: str, before: RunFences | None = None):
        """`before` are those of the runs before a change, of which most are in the same order."""
        self.runs = runs
        kept = _kept(before.runs, runs) if before is not None else []
        new = [r.fences.get(name, ANYWHERE) for r in runs[len(kept) :]]
        fences = np.array(new, np.int64).reshape(-1, 2)
        self.least, self.greatest = np.ascontiguousarray(fences[:, 0]), np.ascontiguousarray(fences[:, 1])
        if before is not None and kept:
            self.least = np.concatenate([before.least[kept], self.least])
            self.greatest = np.concatenate([before.greatest[kept], self.greatest])

    def holding(self, keys: Numbers) -> Iterator[tuple[Run, int, int]]:
        """Yield the runs that can contain some of the keys (sorted), each with the range of keys."""
        first, last = keys.searchsorted(self.least), keys.searchsorted(self.greatest, "right")
        held = np.flatnonzero(last > first)
        for n, begin, end in zip(held.tolist(), first[held].tolist(), last[held].tolist(), strict=True):
            yield self.runs[n], begin, end

    def between(self, low: int | None, high: int | None) -> list[Run]:
        """Return the runs that can have a number with `low <= number <= high`; None = unbounded."""
        held = self.least <= self.greatest
        if low is not None:
            held &= self.greatest >= low
        if high is not None:
            held &= self.least <= high
        return [self.runs[n] for n in np.flatnonzero(held).tolist()]

    def in_order(self) -> list[tuple[Run, int]]:
        """Return all runs that have a number, each with its least one, in their order."""
        order = [n for n in np.argsort(self.least, kind="stable").tolist() if self.least[n] <= self.greatest[n]]
        return [(self.runs[n], int(self.least[n])) for n in order]


def _kept(before: Sequence[Run], runs: Sequence[Run]) -> list[int]:
    """The places in `before` of the first of some runs, which are there in the same order."""
    places: list[int] = []
    old = enumerate(before)
    for run in runs:
        for place, known in old:
            if known is run:
                places.append(place)
                break
        else:
            break
    return places
