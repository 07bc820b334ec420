"""Progressive sort: a window of n rows evicts its least row before the next one is inserted.

In: `WindowRows` with their ranks. Out: the same as from the other kernels; the contents of a firing are the evicted
row. It depends on all earlier rows, so each row is one step.
"""

from __future__ import annotations

import heapq
import itertools

import numpy as np

from belvedere.kernels.spl.window_rows import Firings, Found, Partitions, WindowRows


def progressive(size: int, rows: WindowRows, after: Partitions) -> Found:
    """Return the rows that are evicted as new ones arrive; `after` receives the new state of the partitions."""
    assert rows.ranks is not None
    ranks, is_new = rows.ranks.tolist(), rows.is_new.tolist()
    kept = np.zeros(len(rows), np.bool_)
    comes: list[int] = []
    leaves: list[int] = []
    cuts = [0, *(np.flatnonzero(np.diff(rows.partition)) + 1).tolist(), len(rows)]
    for begin, end in itertools.pairwise(cuts):
        heap: list[tuple[int, int]] = []
        for row in range(begin, end):
            if is_new[row] and len(heap) == size:
                comes.append(row)
                leaves.append(heapq.heapreplace(heap, (ranks[row], row))[1])
            else:
                heapq.heappush(heap, (ranks[row], row))
        kept[[row for _, row in heap]] = True
    trigger, place = np.array(comes, np.int64), np.arange(len(comes))
    by_row = np.ones(len(comes), np.bool_)
    firings = Firings(rows.partition[trigger], rows.at[trigger], place, place, by_row, rows.number[trigger])
    return Found(firings.in_order(), kept, after, np.zeros(len(after), np.bool_), np.array(leaves, np.int64))
