"""Compute the contents of SPL windows at each firing.

In: a window clause, rows by partition and arrival (`WindowRows`), the state of the partitions, the clock. Out: `Found`.
The rows may be split into several calls without effect, if each call starts with the rows and state that the one before
returned.
"""

from __future__ import annotations

import numpy as np

from belvedere.kernels.search import Bools
from belvedere.kernels.spl.episodes import episodes
from belvedere.kernels.spl.one_by_one import one_by_one
from belvedere.kernels.spl.progressive import progressive
from belvedere.kernels.spl.sliding import Slide
from belvedere.kernels.spl.tumbling import tumble
from belvedere.kernels.spl.window_rows import NEVER, Firings, Found, Partitions, WindowRows
from belvedere.plan.operators.spl_windows import (
    Count,
    PartitionAge,
    PartitionCount,
    Sliding,
    SplWindow,
    Tumbling,
    TupleCount,
)


def find(window: SplWindow, rows: WindowRows, known: Partitions, ticked: int, now: int) -> Found:
    """Return the firings of tumbling and sliding windows up to the time `now`; timers up to `ticked` have run already.

    `known` has an entry for each partition code. Timers that are due at `now` run, because no later row arrives before
    it.
    """
    if rows.ranks is not None:
        assert isinstance(window.kind, Sliding)
        assert isinstance(window.kind.eviction, Count)
        noted = known.take(slice(None))
        _note_insertions(noted, rows)
        return progressive(window.kind.eviction.rows, rows, noted)
    if isinstance(window.forgetting, PartitionCount | TupleCount) or window.evicted:
        return one_by_one(window, rows, known, ticked, now)
    age = window.forgetting.micros if isinstance(window.forgetting, PartitionAge) else None
    after = known.take(slice(None))
    if not len(rows):
        return Found(Firings.none(), np.zeros(0, np.bool_), after, _forgotten(after, age, now))
    parts = episodes(rows, known, age)
    if isinstance(window.kind, Tumbling):
        firings, kept = tumble(window.kind.eviction, rows, parts, now)
    else:
        assert isinstance(window.kind, Sliding)
        slide = Slide(window.kind, rows, parts, ticked, now)
        if not slide.in_order:
            return one_by_one(window, rows, known, ticked, now)
        firings, kept = slide.firings(window.incomplete), slide.retained()
        last = parts.is_last
        for name, values in vars(slide.known()).items():
            getattr(after, name)[parts.partition[last]] = values[last]
    _note_insertions(after, rows)
    forgotten = _forgotten(after, age, now)
    return Found(firings.in_order(), kept & ~forgotten[rows.partition], after, forgotten)


def _note_insertions(after: Partitions, rows: WindowRows) -> None:
    """Record the last new row of each partition."""
    new = np.flatnonzero(rows.is_new)
    after.last[rows.partition[new]] = rows.at[new]
    after.touched[rows.partition[new]] = rows.number[new]


def _forgotten(after: Partitions, age: int | None, now: int) -> Bools:
    if age is None:
        return np.zeros(len(after), np.bool_)
    return np.asarray((after.last != NEVER) & (after.last + age < now), np.bool_)
