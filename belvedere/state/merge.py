"""Merges: few large runs instead of many small ones, without the rows that are dead.

In: the runs of an arrangement. Out: which of them to merge, and the run that takes their place. Runs are of geometric levels, so that
each row is written again a logarithmic number of times: `WIDTH` runs of one level become one of the next. A run that has half of its rows
dead is written again by itself. No run grows beyond a bound, so that a merge holds little in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from belvedere.state.sorted_run import Positions, Run, make_run, order_of

WIDTH = 8
MIN_ROWS = 4_096
"""Runs of fewer rows are all of the lowest level."""


@dataclass(frozen=True)
class Merge:
    """Some runs, and the positions of the rows that counted when it was decided to merge them."""

    runs: tuple[Run, ...]
    taken: tuple[Positions, ...]

    def run(self) -> tuple[Run, Positions]:
        """One run of these rows, and for each of them, in the order of `taken`, its position there."""
        rows = pa.concat_batches([r.take(p) for r, p in zip(self.runs, self.taken, strict=True)])
        arranged = self.runs[0].arranged
        order = order_of(rows, arranged)
        places = np.arange(len(rows))
        if order is not None:
            places[order.positions] = np.arange(len(rows))
        return make_run(rows, arranged, order), places

    def carry_over(self, run: Run, places: Positions) -> None:
        """Mark the rows in the new run that have died since."""
        dead = [np.zeros(len(p), np.bool_) if r.dead is None else r.dead[p] for r, p in zip(self.runs, self.taken, strict=True)]
        gone = places[np.flatnonzero(np.concatenate(dead))]
        if len(gone):
            run.carried = run.kill(gone)


def decided(runs: Sequence[Run]) -> Merge:
    """The merge of these runs as they are now."""
    return Merge(tuple(runs), tuple(r.all_living() for r in runs))


def level(run: Run) -> int:
    """The level of a run by its rows that count."""
    return max(0, int(np.log(max(1, run.alive) / MIN_ROWS) / np.log(WIDTH)) + 1) if run.alive > MIN_ROWS else 0


def to_merge(runs: Sequence[Run], limit: int) -> tuple[Run, ...]:
    """The runs that should become one; none where all is well. `limit` is the bytes of a run."""
    for run in runs:
        if 0 < run.alive <= run.size // 2:
            return (run,)
    levels: dict[int, list[Run]] = {}
    for run in runs:
        if run.alive:
            levels.setdefault(level(run), []).append(run)
    for _, found in sorted(levels.items()):
        chosen: list[Run] = []
        size = 0
        for run in found:
            size += run.bytes * run.alive // max(1, len(run))
            if size > limit and chosen:
                break
            chosen.append(run)
        if len(chosen) >= WIDTH or (len(chosen) > 1 and size > limit):
            return tuple(chosen)
    return ()
