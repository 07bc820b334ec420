"""Episodes: the life of a partition until it is forgotten for its age. Each episode is a window of its own.

In: `WindowRows`, the state of the partitions, the age. Out: `Episodes` with the bounds, initial state and last time of
each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from belvedere.kernels.search import GREATEST, Bools, Ints
from belvedere.kernels.spl.window_rows import NEVER, Partitions, WindowRows


@dataclass
class Episodes:
    """Rows [begin, end), first new row and partition of each episode; `known` is its initial state."""

    begin: Ints
    end: Ints
    new: Ints
    partition: Ints
    known: Partitions
    dies: Ints
    """Last time at which the episode exists."""
    is_last: Bools
    """Whether it is the last of its partition."""
    of_row: Ints
    """Episode of each row."""
    next_at: Ints
    """Time of the next row in the partition of each row; GREATEST if there is none."""


def episodes(rows: WindowRows, known: Partitions, age: int | None) -> Episodes:
    """Return the episodes of all partitions that have rows."""
    size = len(rows)
    starts = np.ones(size, np.bool_)
    starts[1:] = rows.partition[1:] != rows.partition[:-1]
    before = np.full(size, NEVER, np.int64)
    before[1:] = rows.at[:-1]
    first_new = rows.is_new.copy()
    first_new[1:] &= starts[1:] | ~rows.is_new[:-1]
    before[first_new] = known.last[rows.partition[first_new]]
    begins, reborn = starts.copy(), np.zeros(size, np.bool_)
    if age is not None:
        reborn = rows.is_new & (before != NEVER) & (rows.at - np.where(before == NEVER, rows.at, before) > age)
        begins |= reborn
    begin = np.flatnonzero(begins).astype(np.int64)
    end = np.append(begin[1:], size)
    of_row = np.cumsum(begins) - 1
    partition = rows.partition[begin]
    held = np.zeros(size + 1, np.int64)
    np.cumsum(~rows.is_new, out=held[1:])
    begun = known.take(partition)
    blank = reborn[begin]
    for name, values in vars(Partitions.fresh(1)).items():
        getattr(begun, name)[blank] = values[0]
    last = rows.at[end - 1] if size else begin
    carried = ~rows.is_new[end - 1] if size else np.zeros(0, np.bool_)
    last = np.where(carried & ~blank, np.maximum(last, begun.last), last)
    is_last = np.ones(len(begin), np.bool_)
    is_last[:-1] = partition[1:] != partition[:-1]
    next_at = np.full(size, GREATEST, np.int64)
    same = rows.partition[1:] == rows.partition[:-1]
    next_at[:-1][same] = rows.at[1:][same]
    dies = np.full(len(begin), GREATEST, np.int64) if age is None else last + age
    return Episodes(begin, end, begin + held[end] - held[begin], partition, begun, dies, is_last, of_row, next_at)
