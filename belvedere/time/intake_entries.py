"""Accepted entries of an intake: checked rows, and bounds, opens and closes of producers.

In: the decisions of an intake. Out: immutable entries that advance the clocks in the same way whenever they are
applied, also after a restart. An entry is never checked again, so the answer to its sender stays valid.
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
    """A row that its input cannot accept: its index in the call, its text and the reason."""

    index: int
    text: str
    reason: str


@dataclass(frozen=True)
class AcceptedRows:
    """The rows of one call on the input with id `table`: the used rows, the late rows and the malformed rows.

    `late` has the columns of `LATE(T)`; `now` is in microseconds since 1970.
    """

    table: str
    now: int
    producer: str | None
    rows: pa.Table
    late: pa.Table | None = None
    malformed: tuple[Malformed, ...] = ()
    ahead: int | None = None
    """Maximum microseconds by which a time may be after `now` and still advance a bound; None: no limit."""

    @property
    def given(self) -> int:
        """Return the number of rows in the call."""
        return int(self.rows.num_rows) + self.late_count + len(self.malformed)

    @property
    def late_count(self) -> int:
        """Return the number of late rows that are not used."""
        return 0 if self.late is None else int(self.late.num_rows)

    @property
    def nbytes(self) -> int:
        """Return the approximate memory of the entry in bytes."""
        texts = sum(len(m.text) + len(m.reason) + MALFORMED_BYTES for m in self.malformed)
        return int(self.rows.nbytes) + (0 if self.late is None else int(self.late.nbytes)) + texts

    def advanced(self, clocks: Clocks, catalog: Catalog) -> Clocks:
        """Return the clocks after this entry."""
        clocks = event_time.move_on(clocks, catalog.inputs[self.table], self.rows, self.now, self.producer, self.ahead)
        return clocks.counted(self.table, self.given, self.late_count, len(self.malformed))


class Act(StrEnum):
    BOUND = "bound"
    OPEN = "open"
    CLOSE = "close"


@dataclass(frozen=True)
class ProducerAct:
    """A bound, an open or a close of a producer of the input with id `table`. Times are microseconds since 1970."""

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
        """Return the clocks after this entry."""
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
    """A bound between rows: it comes after the first `position` rows."""

    position: int
    act: ProducerAct


Entry = AcceptedRows | ProducerAct
