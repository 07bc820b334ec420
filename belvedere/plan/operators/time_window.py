"""Event-time windows (One SQL, extension 3). Times are timestamps, durations are microseconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from belvedere.functions.calendar import floor
from belvedere.plan.bound_rules import Bounds, Known, only
from belvedere.plan.cached_values import cached_property
from belvedere.plan.expressions import Expr
from belvedere.plan.monotone import FOREVER, NEVER
from belvedere.plan.operators.node import Node, Partition, pruned_below
from belvedere.schema import TIMESTAMP, Column, Schema


class TimeWindowKind(StrEnum):
    TUMBLE = "tumble"
    HOP = "hop"
    CUMULATE = "cumulate"
    SESSION = "session"

    def determines_other(self, is_start: bool) -> bool:
        """Return whether one end of a window (the start if `is_start`) determines the other one."""
        return self in (TimeWindowKind.TUMBLE, TimeWindowKind.HOP) or (self is TimeWindowKind.CUMULATE and not is_start)


@dataclass(frozen=True)
class TimeWindow(Node):
    """Event-time windows: `start` and `end` columns, then those of the input (One SQL, extension 3).

    Durations are in microseconds. `size` is the length of the window (CUMULATE: maximum length) or the session's gap.
    `step` is the distance of starts (HOP) or of ends (CUMULATE). `partition` is the session's key. A NULL time gives no
    row.
    """

    input: Node
    kind: TimeWindowKind
    time: str
    size: int
    step: int = 0
    offset: int = 0
    partition: tuple[str, ...] = ()
    start: str = "wstart"
    end: str = "wend"
    until: str | None = field(default=None, repr=False)
    """Column with the time until which a row keeps its session open, if rows have gaps of their own (`size` is 0).

    A row that does not keep a session open is in none.
    """

    @cached_property
    def schema(self) -> Schema:
        bounds = tuple(Column(n, TIMESTAMP, nullable=False) for n in (self.start, self.end))
        key = self.input.schema.key
        if key is not None and self.kind in (TimeWindowKind.HOP, TimeWindowKind.CUMULATE):
            key += (self.end if self.kind is TimeWindowKind.CUMULATE else self.start,)
        return Schema(bounds + self.input.schema.columns, key)

    @property
    def text(self) -> str:
        words = [
            f"{self.kind.value} {self.time} " + (f"size {self.size}us" if self.until is None else f"until {self.until}")
        ]
        words += [f"step {self.step}us"] if self.step else []
        words += [f"offset {self.offset}us"] if self.offset else []
        words += [f"per [{', '.join(self.partition)}]"] if self.partition else []
        return " ".join(words)

    @property
    def is_linear(self) -> bool:
        return self.kind is not TimeWindowKind.SESSION

    @property
    def key_by_key(self) -> Partition | None:
        return Partition.by_columns(self.partition, self.input.schema) if self.partition else None

    def pruned(self, requested: frozenset[str]) -> Node:
        ends = (self.time,) if self.until is None else (self.time, self.until)
        return pruned_below(self, requested.union(ends, self.partition))

    @property
    def never_null(self) -> frozenset[str]:
        return self.input.never_null | {self.start, self.end, self.time}

    @property
    def holds(self) -> tuple[Expr, ...]:
        return self.input.holds

    def ways(self, known: Known) -> tuple[Bounds, ...]:
        """Return the bounds of starts and ends: those of the earliest windows that a row at the bound or later can be
        in."""
        if self.kind is TimeWindowKind.SESSION:
            # a row joins the sessions that end at its time or later, and changes their start and every row's columns
            below = self.input.bounds(known)
            bound = below.get(self.time)
            return (only(below, self.partition) | ({} if bound is None else {self.end: bound}),)
        return tuple(self._way(w) for w in self.input.ways(known))

    def _way(self, below: Bounds) -> Bounds:
        bound = below.get(self.time)
        if bound is None:
            return below
        if bound in (NEVER, FOREVER):
            return {**below, self.start: bound, self.end: bound}
        return {**below, self.start: self.first_start(bound), self.end: self.first_end(bound)}

    def grouping_columns(self, known: Known) -> frozenset[str]:
        below = self.input.grouping_columns(known)
        return below | {self.start, self.end} if self.time in self.input.event_times(known) else below

    def first_start(self, time: int) -> int:
        """Return the earliest start of a window of rows from this time on, in microseconds; a session has none."""
        if self.kind is TimeWindowKind.HOP:
            return floor(time - self.size, self.step, self.offset) + self.step
        return floor(time, self.size, self.offset)

    def first_end(self, time: int) -> int:
        """Return the earliest end of a window of rows from this time on, in microseconds."""
        start = self.first_start(time)
        if self.kind is TimeWindowKind.CUMULATE:
            return start + floor(time - start, self.step) + self.step
        return start + self.size
