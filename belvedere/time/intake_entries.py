"""Accepted entries of an intake, as facts: checked rows, and bounds, opens and closes of producers.

In: results of an intake's decisions. Out: immutable entries that move the clocks in the same way whenever they are
applied, also after a restart. An entry is never checked again: the answer to its sender stays true.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.time import event_time
from belvedere.time.event_time import Clocks

MALFORMED_BYTES = 200
"""Estimated bytes of a malformed row besides its text and the reason."""


@dataclass(frozen=True)
class Malformed:
    """A row of a call that its input cannot take: its place in the call, its text and why."""

    index: int
    text: str
    reason: str


@dataclass(frozen=True)
class AcceptedRows:
    """The rows of one call on input `table` (its id): those used, those of `LATE(T)`, and the malformed ones.

    `late` has the columns of `LATE(T)`; `now` is microseconds since 1970.
    """

    table: str
    now: int
    producer: str | None
    rows: pa.Table
    late: pa.Table | None = None
    malformed: tuple[Malformed, ...] = ()
    ahead: int | None = None
    """Microseconds by which a time may be ahead of `now` to move a bound; None: without limit."""

    @property
    def given(self) -> int:
        """How many rows the call had."""
        return int(self.rows.num_rows) + self.late_count + len(self.malformed)

    @property
    def late_count(self) -> int:
        """How many of them were late and are not used."""
        return 0 if self.late is None else int(self.late.num_rows)

    @property
    def nbytes(self) -> int:
        """About the memory that it holds."""
        texts = sum(len(m.text) + len(m.reason) + MALFORMED_BYTES for m in self.malformed)
        return int(self.rows.nbytes) + (0 if self.late is None else int(self.late.nbytes)) + texts

    def advanced(self, clocks: Clocks, catalog: Catalog) -> Clocks:
        """The clocks after it."""
        clocks = event_time.move_on(clocks, catalog.inputs[self.table], self.rows, self.now, self.producer, self.ahead)
        return clocks.counted(self.table, self.given, self.late_count, len(self.malformed))


class Act(StrEnum):
    BOUND = "bound"
    OPEN = "open"
    CLOSE = "close"


@dataclass(frozen=True)
class ProducerAct:
    """A producer of input `table` says a bound, comes or goes. Times are microseconds since 1970."""

    act: Act
    table: str
    now: int
    producer: str | None = None
    time: int | None = None
    column: str | None = None
    """The event-time column of a bound."""
    strict: bool = False

    nbytes = 100

    def advanced(self, clocks: Clocks, catalog: Catalog) -> Clocks:
        """The clocks after it."""
        table = catalog.inputs[self.table]
        if self.act is Act.OPEN:
            return event_time.open_producer(clocks, table, self.producer, self.time, self.now)
        if self.act is Act.CLOSE:
            return event_time.close_producer(clocks, table, self.producer, self.now)
        assert self.column is not None
        assert self.time is not None
        return event_time.send_bound(clocks, table, self.column, self.time, self.now, self.producer, self.strict)


@dataclass(frozen=True)
class BoundMark:
    """A bound among the rows: `position` rows come before it."""

    position: int
    act: ProducerAct


Entry = AcceptedRows | ProducerAct
