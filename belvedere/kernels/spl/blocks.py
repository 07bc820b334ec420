"""Blocks: each represents many consecutive rows of a window as one row of `WindowRows`.

In: blocks and rows as arrays, the new rows, the clock. Out: the blocks that a call may divide, so their rows are
needed; rows and the other blocks together. For these `firings` returns the same firings as for all rows. A window
begins before or after such a block, never inside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from belvedere.kernels.search import LEAST, Bools, Ints
from belvedere.kernels.spl.sliding import falls
from belvedere.kernels.spl.window_rows import Steps, WindowRows
from belvedere.plan.operators.spl_windows import (
    Count,
    Delta,
    PartitionCount,
    Punctuation,
    Sliding,
    SplWindow,
    Time,
    Tumbling,
    TupleCount,
)


@dataclass
class Blocks:
    """Blocks of the same number of rows.

    `rows` has for each block the partition, the number of its first row, and the clock at its last row. For `delta` it
    has the codes of the last row and the limits of the first.
    """

    rows: WindowRows
    since: Ints
    """Clock at the first row of each block."""
    place: Ints
    """Number of rows in the partition before each block."""

    def take(self, chosen: Any) -> Blocks:
        """Return the chosen blocks."""
        return Blocks(taken(self.rows, chosen), self.since[chosen], self.place[chosen])

    def __len__(self) -> int:
        return len(self.since)


def can_hold_blocks(window: SplWindow) -> bool:
    """Return whether blocks may represent rows of a window: its rows leave together or in their order of arrival."""
    if window.evicted or isinstance(window.forgetting, PartitionCount | TupleCount):
        return False
    return isinstance(window.kind, Sliding) or (
        isinstance(window.kind, Tumbling) and not isinstance(window.kind.eviction, Punctuation)
    )


def cut(window: SplWindow, blocks: Blocks, ends: Ints, new: WindowRows, now: int) -> Bools:
    """Return the blocks that a call may evict in part. `ends` has the row count of each partition before the new rows.

    All rows of a tumbling window leave at once. No block contains decreasing values (`closed`).
    """
    if not isinstance(window.kind, Sliding):
        return np.zeros(len(blocks), np.bool_)
    partition = blocks.rows.partition
    match window.kind.eviction:
        case Count(rows=size):
            ends = ends + np.bincount(new.partition, minlength=len(ends))
            return blocks.place < ends[partition] - size
        case Time(micros=age):
            return blocks.since < now - age
        case Delta():
            assert new.evicting is not None
            assert blocks.rows.evicting is not None
            greatest = np.full(len(ends), LEAST, np.int64)
            np.maximum.at(greatest, new.partition, new.evicting.codes)
            return blocks.rows.evicting.limits < greatest[partition]


def in_one_order(rows: WindowRows, blocks: Blocks, size: int) -> tuple[WindowRows, Ints]:
    """Merge rows and blocks (of `size` rows each) in one order. Also return their indexes: rows first, then blocks."""
    both = WindowRows(
        np.concatenate([rows.partition, blocks.rows.partition]),
        np.concatenate([rows.number, blocks.rows.number]),
        np.concatenate([rows.at, blocks.rows.at]),
        np.concatenate([rows.is_new, blocks.rows.is_new]),
        _both(rows.evicting, blocks.rows.evicting),
        _both(rows.triggering, blocks.rows.triggering),
        None,
        np.concatenate([np.ones(len(rows), np.int64), np.full(len(blocks), size, np.int64)]),
    )
    order = np.lexsort((both.number, both.partition))
    return taken(both, order), order


def closed(rows: WindowRows, block: Ints, size: int) -> Ints:
    """Return the first rows of new blocks: `size` consecutive rows with one block number and values that do not
    decrease."""
    if not len(rows):
        return block
    begins = np.ones(len(rows), np.bool_)
    begins[1:] = (block[1:] != block[:-1]) | (rows.partition[1:] != rows.partition[:-1])
    begin: Ints = np.flatnonzero(begins)
    begin = begin[np.diff(np.append(begin, len(rows))) == size]
    if rows.evicting is not None:
        fallen = np.append(0, np.cumsum(falls(rows.evicting.codes, rows.partition)))
        begin = begin[fallen[begin + size] == fallen[begin]]
    return begin


def taken(rows: WindowRows, chosen: Any) -> WindowRows:
    """Return chosen rows, in the given order."""
    plain = (rows.partition[chosen], rows.number[chosen], rows.at[chosen], rows.is_new[chosen])
    marks, counts = (None if values is None else values[chosen] for values in (rows.marks, rows.counts))
    evicting, triggering = (
        None if s is None else Steps(s.codes[chosen], s.limits[chosen]) for s in (rows.evicting, rows.triggering)
    )
    return WindowRows(*plain, evicting, triggering, marks, counts)


def _both(first: Steps | None, second: Steps | None) -> Steps | None:
    if first is None or second is None:
        return None
    return Steps(np.concatenate([first.codes, second.codes]), np.concatenate([first.limits, second.limits]))
