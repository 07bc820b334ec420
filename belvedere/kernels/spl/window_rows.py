"""Input and output of the kernels of SPL windows.

In: nothing. Out: rows as arrays, partition by partition, the state of each partition between two calls, and firings as
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
"""The time of what has not happened."""


@dataclass(frozen=True)
class Steps:
    """A column of `delta` as whole numbers in its order: row b is more than the step above row a where `codes[b] > limits[a]`."""

    codes: Ints
    limits: Ints


@dataclass
class WindowRows:
    """Rows by partition (codes from 0 on), in each by arrival: first those that its window holds, then those that are new."""

    partition: Ints
    number: Ints
    """The arrival number, over all partitions."""
    at: Ints
    """The clock at the arrival, in microseconds; it never falls."""
    is_new: Bools
    evicting: Steps | None = None
    """The column of a `delta` that evicts."""
    triggering: Steps | None = None
    """The column of a `delta` that triggers."""
    marks: Ints | None = None
    """For `punct()`: which firing of the view below the row came with."""
    counts: Ints | None = None
    """How many rows each stands for, where some are blocks (`belvedere.kernels.spl.blocks`); None for rows alone."""
    ranks: Ints | None = None
    """For a progressive sort the place of each row in the order."""

    @cached_property
    def through(self) -> Ints:
        """How many rows there are up to and with each, over all partitions."""
        return np.arange(1, len(self) + 1) if self.counts is None else np.cumsum(self.counts)

    def before(self, places: Ints) -> Ints:
        """How many rows there are before each of these places."""
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
    """Limit of a delta trigger's reference, above which a row triggers; NEVER without a reference."""
    full: Bools
    """Whether the window has been full once."""
    last: Ints
    """The time of the last insertion; NEVER without one."""
    touched: Ints
    """The arrival number of the last insertion."""

    @classmethod
    def fresh(cls, count: int) -> Partitions:
        """Partitions that nothing is known of."""
        never = np.full((2, count), NEVER, np.int64)
        return cls(
            np.zeros(count, np.int64), never[0], np.zeros(count, np.bool_), never[1], np.full(count, -1, np.int64)
        )

    def take(self, chosen: Any) -> Partitions:
        """The same of some partitions, in an order."""
        return Partitions(**{name: values[chosen].copy() for name, values in vars(self).items()})

    def __len__(self) -> int:
        return len(self.since)


@dataclass
class Firings:
    """Firings in their order: of which partition, when, and the first and last place of the contents in `members`."""

    partition: Ints
    at: Ints
    first: Ints
    last: Ints
    by_row: Bools
    """Whether a row triggered it; timers that are due at the same time run before."""
    tie: Ints
    """Order of firings at one time: the number of the row that triggered, else of the oldest row in the contents."""
    pane: Ints | None = None
    """For `timeInterval` the start of the pane."""
    index: Ints | None = None
    """For `timeInterval` which firing of its pane, from 0."""

    @classmethod
    def none(cls) -> Firings:
        """No firing."""
        nothing = np.zeros(0, np.int64)
        return cls(nothing, nothing, nothing, nothing, np.zeros(0, np.bool_), nothing)

    def take(self, chosen: Any) -> Firings:
        """Some of them, in an order."""
        panes = [None if values is None else values[chosen] for values in (self.pane, self.index)]
        timed = (self.partition[chosen], self.at[chosen], self.first[chosen], self.last[chosen])
        return Firings(*timed, self.by_row[chosen], self.tie[chosen], *panes)

    def in_order(self) -> Firings:
        """In the order in which they happen."""
        panes = (self.pane,) if self.pane is not None else ()
        return self.take(np.lexsort((self.tie, *panes, self.by_row, self.at)))

    def __len__(self) -> int:
        return len(self.partition)


@dataclass(frozen=True)
class Found:
    """All that a call finds; `members` are the rows in the order that firings refer to, None for the rows as they are."""

    firings: Firings
    kept: Bools
    """The rows that windows hold afterwards."""
    partitions: Partitions
    forgotten: Bools
    """The partitions of which nothing is known any more."""
    members: Ints | None = None

    def rows_of(self, firing: int) -> Ints:
        """The rows in the contents of one firing, by arrival."""
        places = np.arange(self.firings.first[firing], self.firings.last[firing] + 1)
        return places if self.members is None else self.members[places]


def steps(values: Any, step: float) -> Steps:
    """A column of whole numbers (int64) or doubles for `delta` by `step`; none of them is missing."""
    if values.dtype == np.int64:
        return Steps(values, _whole_limits(values, step))
    return Steps(ordered_codes(values), _real_limits(values, step))


def _whole_limits(values: Ints, step: float) -> Ints:
    whole = int(np.floor(step))
    return np.where(values > GREATEST - whole, GREATEST, np.minimum(values, GREATEST - whole) + whole)


def _of_codes(codes: Ints) -> Any:
    return np.where(codes < 0, codes ^ GREATEST, codes).view(np.float64)


def _real_limits(values: Any, step: float) -> Ints:
    """The greatest double whose difference from each value is not above the step, as its code: what subtraction says, to the last digit."""
    low, high = ordered_codes(values), np.full(len(values), ordered_codes(np.array([np.inf]))[0])
    with np.errstate(invalid="ignore", over="ignore"):
        while len(low) and bool((low < high).any()):
            middle = high - ((high.astype(np.uint64) - low.astype(np.uint64)) >> np.uint64(1)).astype(np.int64)
            above = _of_codes(middle) - values > step
            low, high = np.where(above, low, middle), np.where(above, middle - 1, high)
    return low
