"""Relational operator of SPL's windows: an aggregate over the contents of an SPL window (IBM Streams) at each firing.

In: an append-only relation, and the window clause. Out: a relation with one row per firing and group. The policies are
in `belvedere.plan.operators.spl_windows`; this module does not compute windows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar

import pyarrow as pa

from belvedere.plan.cached_values import cached_property
from belvedere.plan.operators.emit import SEQUENCE
from belvedere.plan.operators.node import Item, Node, Order, pruned_below, texts
from belvedere.plan.operators.spl_windows import Interval, Sliding, SplWindow
from belvedere.schema import TIMESTAMP, Column, Schema


class FiringReading(StrEnum):
    """Properties of a firing that a query can read, by the name of the function."""

    FIRING_TIME = "firingTime"
    """Clock at the firing: that of the arriving row or of the timer. For `timeInterval` it is the bound."""
    FIRING = "firing"
    """Number of the firing, from 1, over all partitions, in the order of the firings."""
    INTERVAL_START = "intervalStart"
    INTERVAL_END = "intervalEnd"
    PANE_TIMING = "paneTiming"
    """`paneOnComplete` or `paneLate`."""
    PANE_INDEX = "paneIndex"
    """Index of the firing within its pane, from 0."""

    @property
    def type(self) -> pa.DataType:
        """Return the Arrow type of the value."""
        return READING_TYPES[self]

    @property
    def of_panes(self) -> bool:
        """Return whether only a `timeInterval` window has it."""
        return self not in (FiringReading.FIRING_TIME, FiringReading.FIRING)


READING_TYPES = {
    FiringReading.FIRING_TIME: TIMESTAMP,
    FiringReading.FIRING: pa.int64(),
    FiringReading.INTERVAL_START: TIMESTAMP,
    FiringReading.INTERVAL_END: TIMESTAMP,
    FiringReading.PANE_TIMING: pa.string(),
    FiringReading.PANE_INDEX: pa.int32(),
}
PANE_TIMINGS = ("paneOnComplete", "paneLate")


@dataclass(frozen=True)
class ReadingColumn:
    """A reading as a column of the result."""

    name: str
    reading: FiringReading
    hidden: bool = False

    @property
    def column(self) -> Column:
        return Column(self.name, self.reading.type, nullable=False, hidden=self.hidden)


class GroupCount(StrEnum):
    """Counts over all groups of the contents, by the name of the function."""

    GROUPS = "CountGroups"
    """Number of groups."""
    ROWS = "CountAll"
    """Number of rows in all groups."""
    BY_GROUP = "CountByGroup"
    """Number of rows of each group as a list, in the order in which the groups first arrived."""

    @property
    def type(self) -> pa.DataType:
        """Return the Arrow type of the value."""
        return pa.list_(pa.int64()) if self is GroupCount.BY_GROUP else pa.int64()


@dataclass(frozen=True)
class CountColumn:
    """A count as a column of the result."""

    name: str
    count: GroupCount

    @property
    def column(self) -> Column:
        return Column(self.name, self.count.type, nullable=False)


@dataclass(frozen=True)
class SplAggregate(Node):
    """Aggregates over the contents of the window at each firing, one row per group of the contents.

    `partition` and `groups` are columns of the input under the names of the result. Each partition has its own window.
    `groups` (disjoint from `partition`) divide the contents of one firing. A firing without rows gives no row.
    `aggregates` are as those of the ordinary `Aggregate`, with columns of the input or literals as arguments. First,
    last and lists use the order of arrival. Among equal extremes `min_by` and `max_by` use the row that arrived first.

    Rows arrive in the order of the input's column `order`, an increasing number, at the clock `clock`. Rows from one
    firing of a window below are consecutive, with its number in `punctuation`. `time` is the event time, for
    `timeInterval`.

    Without `every` the result is the last firing of each partition (and pane). With it the result is all firings in
    order, append-only. The hidden column SEQUENCE then numbers the rows; those of one firing are in the order in which
    their groups first arrived.
    """

    input: Node
    window: SplWindow
    partition: tuple[Item, ...]
    groups: tuple[Item, ...]
    aggregates: tuple[Item, ...]
    readings: tuple[ReadingColumn, ...]
    order: str
    clock: str
    time: str | None = None
    punctuation: str | None = None
    every: bool = False
    counts: tuple[CountColumn, ...] = ()
    """Only present with `groups`."""
    sort: tuple[Order, ...] = ()
    """Sort keys, if the query sorts the rows of the window themselves: each result row is then a row of the contents.

    `aggregates` and sort keys are columns of that row. A sliding window by count then evicts its least row before
    another one enters; that row is the firing.
    """

    is_historic: ClassVar[bool] = True

    @property
    def text(self) -> str:
        words = [f"spl window {self.window.text}"]
        words += [f"partitioned by [{texts(self.partition)}]"] if self.partition else []
        words += [f"group by [{texts(self.groups)}]"] if self.groups else []
        shown = [texts(self.aggregates), *(f"{r.name} = {r.reading}()" for r in self.readings)]
        shown += [f"sorted by {texts(self.sort)}"] if self.sort else []
        shown += [f"{c.name} = {c.count}()" for c in self.counts]
        words.append(", ".join(s for s in shown if s))
        return " ".join(w for w in (*words, "every firing" if self.every else "") if w)

    def pruned(self, requested: frozenset[str]) -> Node:
        aggregates = tuple(i for i in self.aggregates if i.name in requested)
        if self.sort and not aggregates:
            aggregates = self.aggregates[:1]  # one row for each row of the contents
        kept = requested.union(self.schema.key or ())
        readings = tuple(r for r in self.readings if r.name in kept or r.name == self.pane)
        counts = tuple(c for c in self.counts if c.name in requested)
        read = {n for n in (self.order, self.clock, self.time, self.punctuation) if n is not None}
        pruned = replace(self, aggregates=aggregates, readings=readings, counts=counts)
        return pruned_below(pruned, self.window.columns.union(read))

    @property
    def progressive(self) -> bool:
        """Return whether the least row is evicted when a row arrives at a full window."""
        return bool(self.sort) and isinstance(self.window.kind, Sliding)

    @property
    def pane(self) -> str | None:
        """Return the column with the start of the pane; None if the window has no panes."""
        if not isinstance(self.window.kind, Interval):
            return None
        return next(r.name for r in self.readings if r.reading is FiringReading.INTERVAL_START)

    @cached_property
    def schema(self) -> Schema:
        columns = tuple(i.column for i in (*self.partition, *self.groups, *self.aggregates))
        columns += (*(r.column for r in self.readings), *(c.column for c in self.counts))
        if self.every:
            number = Column(SEQUENCE, pa.int64(), nullable=False, hidden=True)
            return Schema((*columns, number), (SEQUENCE,))
        key = tuple(i.name for i in (*self.partition, *self.groups))
        return Schema(columns, key if self.pane is None else (*key, self.pane))
