"""The operators over time: event-time windows, EMIT, and SELECT STREAM (One SQL, extensions 3 to 7).

The same rules hold as for the nodes of `belvedere.plan.operators.nodes`; times are timestamps, durations are microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from belvedere.functions.calendar import floor
from belvedere.plan.cached_values import cached_property
from belvedere.plan.operators.nodes import Node
from belvedere.schema import TIMESTAMP, Column, Schema


class TimeWindowKind(StrEnum):
    TUMBLE = "tumble"
    HOP = "hop"
    CUMULATE = "cumulate"
    SESSION = "session"

    def determines_other(self, is_start: bool) -> bool:
        """Whether one end of a window, its start or the other, determines the other one."""
        return self in (TimeWindowKind.TUMBLE, TimeWindowKind.HOP) or (self is TimeWindowKind.CUMULATE and not is_start)


@dataclass(frozen=True)
class TimeWindow(Node):
    """Event-time windows: `start` and `end` columns, then those of the input (One SQL, extension 3).

    Durations in microseconds. `size` is the window's (CUMULATE: greatest) length or the session's gap, `step` the
    distance of starts (HOP) or of ends (CUMULATE). `partition` is the session's key. A NULL time gives no row.
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

    @cached_property
    def schema(self) -> Schema:
        bounds = tuple(Column(n, TIMESTAMP, nullable=False) for n in (self.start, self.end))
        key = self.input.schema.key
        if key is not None and self.kind in (TimeWindowKind.HOP, TimeWindowKind.CUMULATE):
            key += (self.end if self.kind is TimeWindowKind.CUMULATE else self.start,)
        return Schema(bounds + self.input.schema.columns, key)

    def first_start(self, time: int) -> int:
        """The earliest start of a window of rows from this time on, in microseconds; of a session there is none to be told."""
        if self.kind is TimeWindowKind.HOP:
            return floor(time - self.size, self.step, self.offset) + self.step
        return floor(time, self.size, self.offset)

    def first_end(self, time: int) -> int:
        """The earliest end of such a window."""
        start = self.first_start(time)
        if self.kind is TimeWindowKind.CUMULATE:
            return start + floor(time - start, self.step) + self.step
        return start + self.size


UNDO, PTIME, VERSION, SEQUENCE = "undo", "ptime", "ver", "_seq"
"""The columns that a changelog adds (One SQL, extension 4), and the hidden number of its rows."""


@dataclass(frozen=True)
class Emit(Node):
    """When the input's changes appear, and in which form (One SQL, extensions 4 to 7).

    `watermark`: a row once it is complete. `delay` in microseconds: the changes of a group that long after the first of them. Without
    `stream` the relation itself as it was last emitted; with it the changelog: rows in the order in which they were emitted.
    """

    input: Node
    stream: bool = False
    watermark: bool = False
    delay: int | None = None

    @cached_property
    def schema(self) -> Schema:
        if not self.stream:
            return self.input.schema
        added = (
            Column(UNDO, pa.bool_(), nullable=False),
            Column(PTIME, TIMESTAMP, nullable=False),
            Column(VERSION, pa.int64(), nullable=False),
            Column(SEQUENCE, pa.int64(), nullable=False, hidden=True),
        )
        return Schema(self.input.schema.visible + added, (SEQUENCE,))


@dataclass(frozen=True)
class InOrder(Node):
    """SELECT STREAM: rows that only arrive, in the order of the column `time`, as soon as no earlier one can come.

    With `within` (microseconds; ORDER BY ... WITHIN) rows wait for a time so much greater instead of a bound, and those that come
    after that are dropped. With `then` rows of equal time come in the order of these columns (name, descending, NULLs first), and so
    wait until no other row of their time can come.
    """

    input: Node
    time: str
    within: int | None = None
    then: tuple[tuple[str, bool, bool], ...] = ()

    @cached_property
    def schema(self) -> Schema:
        number = Column(SEQUENCE, pa.int64(), nullable=False, hidden=True)
        shown = tuple(c for c in self.input.schema if not c.hidden or c.name == self.time)
        return Schema((*shown, number), (SEQUENCE,))


@dataclass(frozen=True)
class Observed(Node):
    """The events of a subscription in batch: one for each row of the input that is new, changed or gone since the epoch before.

    `on` is add, change or delete; `events` are the columns of the events. The engine makes events of deltas, without this node.
    """

    input: Node
    on: str
    events: Schema

    @cached_property
    def schema(self) -> Schema:
        return self.events
