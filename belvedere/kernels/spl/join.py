"""Joins of sliding windows in numpy: how long each row can be matched, and the order of results.

In: the held and the new rows of one side, with the position of each among the new rows of both sides. Out: how long
they stay: a pair matches if one row arrives while the other is held. Also the order of pairs and of rows that leave
without a match.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from belvedere.kernels.search import GREATEST, Bools, Ints, first_above
from belvedere.kernels.spl.window_rows import Steps
from belvedere.plan.operators.spl_windows import Count, Delta, Policy, Time


@dataclass(frozen=True)
class SideRows:
    """Rows by partition (codes from 0 on), in each by arrival."""

    partition: Ints
    number: Ints
    """Arrival number within the side."""
    at: Ints
    """Clock at the arrival, in microseconds."""
    place: Ints
    """Position among the new rows of both sides, from 1; 0 for rows that the window already holds."""
    evicting: Steps | None = None
    """Column of a `delta` that evicts."""

    def __len__(self) -> int:
        return len(self.partition)


@dataclass(frozen=True)
class Lives:
    """How long each row stays: the last position at which the other side can match it, and when and why it left."""

    last: Ints
    left: Ints
    """Clock at which the row left; GREATEST for a row that is still held."""
    by: Ints
    """Position of the row that replaced it; 0 if it left because of its age."""

    @property
    def gone(self) -> Bools:
        """Whether each row has left."""
        return np.asarray(self.left != GREATEST, np.bool_)


def places(
    at: tuple[Ints, Ints], number: tuple[Ints, Ints], epoch: tuple[Ints, Ints] | None = None
) -> tuple[Ints, Ints, Ints]:
    """Return the position of each new row of both sides, from 1, and the clock at each position.

    The order is by clock, then by the numbers of both sides, and for equal ones the left side comes first. With the
    `epoch` of each row, it is by epoch, then clock, then side.
    """
    side = np.repeat(np.arange(2), [len(n) for n in number])
    both_at, both_number = np.concatenate(at), np.concatenate(number)
    order = np.lexsort(
        (side, both_number, both_at) if epoch is None else (both_number, side, both_at, np.concatenate(epoch))
    )
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(1, len(order) + 1)
    return place[: len(number[0])], place[len(number[0]) :], both_at[order]


def lives(eviction: Policy, rows: SideRows, clocks: Ints, now: int) -> Lives:
    """Return how long rows stay until `now`; `clocks` has the clock of each position."""
    if isinstance(eviction, Time):
        limit = rows.at + eviction.micros
        left = np.where(limit < now, limit + 1, GREATEST)
        return Lives(np.searchsorted(clocks, limit, side="right"), left, np.zeros(len(rows), np.int64))
    evictor = _evictors(eviction, rows)
    there = evictor < len(rows)
    by = np.zeros(len(rows), np.int64)
    by[there] = rows.place[evictor[there]]
    left = np.full(len(rows), GREATEST, np.int64)
    left[there] = clocks[by[there] - 1]
    return Lives(np.where(there, by - 1, len(clocks)), left, by)


def _evictors(eviction: Policy, rows: SideRows) -> Ints:
    """Return for each row the row of its partition whose arrival evicts it; the number of rows for none."""
    size = len(rows)
    place = np.arange(size, dtype=np.int64)
    ends = np.append(np.flatnonzero(np.diff(rows.partition)) + 1, size) if size else place
    end = ends[np.searchsorted(ends, place, side="right")] if size else place
    if isinstance(eviction, Count):
        found = place + eviction.rows
    else:
        assert isinstance(eviction, Delta)
        assert rows.evicting is not None
        found = first_above(rows.evicting.codes, place + 1, rows.evicting.limits) if size else place
    return np.where(found < end, found, size)


@dataclass(frozen=True)
class JoinResults:
    """Results in order: the row of each side (-1 for none), the clock, and the number (from 0) of the event that
    produced it."""

    rows: tuple[Ints, Ints]
    at: Ints
    firing: Ints

    def __len__(self) -> int:
        return len(self.at)


def results(
    pairs: tuple[Ints, Ints],
    sides: tuple[SideRows, SideRows],
    stays: tuple[Lives, Lives],
    alone: tuple[Ints, Ints],
    clocks: Ints,
) -> JoinResults:
    """Return pairs of rows, and rows that left without a match (`alone`), in output order."""
    found = [side.place[rows] for side, rows in zip(sides, pairs, strict=True)]
    place = np.maximum(*found)
    other = np.where(found[0] > found[1], sides[1].number[pairs[1]], sides[0].number[pairs[0]])
    nothing, count = np.zeros(len(place), np.int64), [len(a) for a in alone]
    by = np.concatenate([place, *(s.by[a] for s, a in zip(stays, alone, strict=True))])
    at = np.concatenate(
        [clocks[place - 1] if len(clocks) else nothing, *(s.left[a] for s, a in zip(stays, alone, strict=True))]
    )
    leaves = np.concatenate([nothing, np.ones(sum(count), np.int64)])
    side = np.concatenate([nothing, *(np.full(n, side) for side, n in enumerate(count))])
    number = np.concatenate([other, *(s.number[a] for s, a in zip(sides, alone, strict=True))])
    order = np.lexsort(
        (number, side, leaves, by, at)
    )  # rows that leave for their age (`by` is 0) precede rows of the same time
    rows = [
        np.concatenate([p, *(a if n == m else np.full(len(a), -1) for m, a in enumerate(alone))])
        for n, p in enumerate(pairs)
    ]
    begins = np.zeros(len(order), np.int64)
    begins[1:] = (np.diff(at[order]) != 0) | (np.diff(by[order]) != 0)
    return JoinResults((rows[0][order], rows[1][order]), at[order], np.cumsum(begins))
