"""Input and output of the kernels of SPL windows.

In: nothing. Out: rows as arrays, grouped by partition, the state of each partition between two calls, and firings as
ranges of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from belvedere.kernels.search import GREATEST, LEAST, Bools, Ints
from belvedere.kernels.sorted_rows import ordered_codes

NEVER = LEAST
"""Time of an event that has not happened."""


@dataclass(frozen=True)
class Steps:
    """A column of `delta` as ordered codes: row b is more than the step above row a if `codes[b] > limits[a]`."""

    codes: Ints
    limits: Ints


@dataclass
class WindowRows:
    """Rows by partition (codes from 0 on), in each by arrival: first those that its window holds, then new ones."""

    partition: Ints
    number: Ints
    """Arrival number, over all partitions."""
    at: Ints
    """Clock at the arrival, in microseconds; it never decreases."""
    is_new: Bools
    evicting: Steps | None = None
    """Column of a `delta` that evicts."""
    triggering: Steps | None = None
    """Column of a `delta` that triggers."""
    marks: Ints | None = None
    """For `punct()`: number of the input view's firing that brought the row."""
    counts: Ints | None = None
    """Number of rows that each entry represents, if some are blocks (`belvedere.kernels.spl.blocks`); None without
    blocks."""
    ranks: Ints | None = None
    """For a progressive sort: rank of each row in the order."""

    @cached_property
    def through(self) -> Ints:
        """Number of rows up to and including each entry, over all partitions."""
        return np.arange(1, len(self) + 1) if self.counts is None else np.cumsum(self.counts)

    def before(self, places: Ints) -> Ints:
        """Return the number of rows before each of these positions."""
        return places if self.counts is None else self.through[places] - self.counts[places]

    def first_after(self, rows: Ints) -> Ints:
        """Return the position of the first row with more than the given number of rows up to and including it."""
        return np.maximum(rows, 0) if self.counts is None else np.searchsorted(self.through, rows, "right")

    def __len__(self) -> int:
        return len(self.partition)


@dataclass
class Partitions:
    """State of each partition besides its rows."""

    since: Ints
    """Rows since the last trigger by count."""
    limit: Ints
    """Value above which a row triggers by delta (reference plus step); NEVER without a reference."""
    full: Bools
    """Whether the window has been full at some time."""
    last: Ints
    """Time of the last insertion; NEVER without one."""
    touched: Ints
    """Arrival number of the last insertion."""

    @classmethod
    def fresh(cls, count: int) -> Partitions:
        """Return the initial state of new partitions."""
        never = np.full((2, count), NEVER, np.int64)
        return cls(
            np.zeros(count, np.int64), never[0], np.zeros(count, np.bool_), never[1], np.full(count, -1, np.int64)
        )

    def take(self, chosen: Any) -> Partitions:
        """Return the chosen partitions, in the given order."""
        return Partitions(**{name: values[chosen].copy() for name, values in vars(self).items()})

    def __len__(self) -> int:
        return len(self.since)


@dataclass
class Firings:
    """Firings in order: their partition, time, and the first and last index of the contents in `members`."""

    partition: Ints
    at: Ints
    first: Ints
    last: Ints
    by_row: Bools
    """Whether a row triggered it. Timers that are due at the same time run before rows."""
    tie: Ints
    """Order of firings at one time: the number of the triggering row, or of the oldest row in the contents."""
    pane: Ints | None = None
    """For `timeInterval`: start of the pane."""
    index: Ints | None = None
    """For `timeInterval`: number of the firing within its pane, from 0."""

    @classmethod
    def none(cls) -> Firings:
        """Return an empty set of firings."""
        nothing = np.zeros(0, np.int64)
        return cls(nothing, nothing, nothing, nothing, np.zeros(0, np.bool_), nothing)

    def take(self, chosen: Any) -> Firings:
        """Return the chosen firings, in the given order."""
        panes = [None if values is None else values[chosen] for values in (self.pane, self.index)]
        timed = (self.partition[chosen], self.at[chosen], self.first[chosen], self.last[chosen])
        return Firings(*timed, self.by_row[chosen], self.tie[chosen], *panes)

    def in_order(self) -> Firings:
        """Return the firings in order of time."""
        panes = (self.pane,) if self.pane is not None else ()
        return self.take(np.lexsort((self.tie, *panes, self.by_row, self.at)))

    def __len__(self) -> int:
        return len(self.partition)


@dataclass(frozen=True)
class Found:
    """The result of a call. `members` are the rows in the order that firings refer to; None means the input order."""

    firings: Firings
    kept: Bools
    """Rows that windows hold after the call."""
    partitions: Partitions
    forgotten: Bools
    """Partitions whose state is forgotten."""
    members: Ints | None = None

    def rows_of(self, firing: int) -> Ints:
        """Return the rows in the contents of one firing, in order of arrival."""
        places = np.arange(self.firings.first[firing], self.firings.last[firing] + 1)
        return places if self.members is None else self.members[places]


def steps(values: Any, step: float) -> Steps:
    """Return the codes and limits of a `delta` column (int64 or double) for `step`. No value may be missing."""
    if values.dtype == np.int64:
        return Steps(values, _whole_limits(values, step))
    return Steps(ordered_codes(values), _real_limits(values, step))


def _whole_limits(values: Ints, step: float) -> Ints:
    whole = int(np.floor(step))
    return np.where(values > GREATEST - whole, GREATEST, np.minimum(values, GREATEST - whole) + whole)


def _of_codes(codes: Ints) -> Any:
    return np.where(codes < 0, codes ^ GREATEST, codes).view(np.float64)


def _real_limits(values: Any, step: float) -> Ints:
    """Return as a code the greatest double that is at most `step` above each value, exactly as subtraction rounds."""
    low, high = ordered_codes(values), np.full(len(values), ordered_codes(np.array([np.inf]))[0])
    with np.errstate(invalid="ignore", over="ignore"):
        while len(low) and bool((low < high).any()):
            middle = high - ((high.astype(np.uint64) - low.astype(np.uint64)) >> np.uint64(1)).astype(np.int64)
            above = _of_codes(middle) - values > step
            low, high = np.where(above, low, middle), np.where(above, middle - 1, high)
    return low
