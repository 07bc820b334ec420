"""The protocol of stores, which SQLite and Postgres implement.

A store has one table per relation that people read (public views and inputs, events, histories), the epoch row, and
documents; the rows that operators look up are in `belvedere.state`. All work of an epoch happens in one transaction on
one writing connection; readers in other processes see only whole epochs. Rows cross this interface as Arrow record
batch readers in the *catalog's* types: each store has its own codec. A returned reader must be consumed or closed
before the next call.

Every stored row has `_key` (utf8, not null: canonical text of the key columns).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from belvedere.schema import KEY, WEIGHT
from belvedere.store.public_views import ShownView
from belvedere.store.read.as_of import AsOf
from belvedere.store.read.shared_sets import SharedSet
from belvedere.store.stored_table import StoredTable

CHUNK_BYTES = 64 << 20
"""Default maximum bytes of a table in memory."""

__all__ = ["CHUNK_BYTES", "KEY", "WEIGHT", "EpochRow", "Lease", "Reader", "Snapshot", "Store", "Transaction"]


@dataclass(frozen=True)
class EpochRow:
    """A committed epoch. `clock` is now(); `offsets` per source by name; `bounds` and `extra` are JSON documents."""

    epoch: int
    clock: datetime
    offsets: Mapping[str, Any] = field(default_factory=dict)
    bounds: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    committed_at: datetime | None = None


@dataclass(frozen=True)
class Lease:
    """The right to write: an owner's random name, and the time at which its lease ends unless renewed."""

    owner: str
    expires_at: datetime
    before: str | None = None
    """The former owner, if it did not return the lease."""


class Transaction(Protocol):
    """One epoch's changes. Nothing is visible to anybody else before `commit`; closing without it undoes everything."""

    @property
    def is_late(self) -> bool:
        """Whether the database has no transaction open before the first change: changes are to be made when all rows are there."""

    def lookup(self, table: str, keys: pa.Array | None = None) -> pa.RecordBatchReader:
        """Rows as they are now, in this transaction, whose `_key` is among `keys`; all for None.

        They stream: whatever their number, a batch at a time is in memory.
        """

    def lookup_range(self, table: str, column: str, above: Any, up_to: Any) -> pa.RecordBatchReader:
        """Rows with `above < column <= up_to`; None = unbounded on that side. NULLs never match."""

    def apply(self, table: str, delta: pa.RecordBatchReader) -> None:
        """Take out the rows of `_weight` -1 by `_key` and put in those of +1.

        Per `_key` at most one of each, the -1 first; what has no -1 is not in the table. Raises B7010 where it is.
        """

    def append(self, table: str, rows: pa.RecordBatchReader) -> None:
        """Put in rows whose `_key`s are new: the fast path for streams."""

    def append_apart(self, table: StoredTable, put: Callable[[Any], pa.Table], rows: int) -> Callable[[], None] | None:
        """Let tasks of other processes write `rows` new rows; return the function that then adds them to the table, or
        None. `put` runs a task's function over the rows.
        """

    def apply_apart(self, table: StoredTable, put: Callable[[Any], pa.Table], rows: int) -> Callable[[], None] | None:
        """Let tasks of other processes bring a delta of `rows` rows, as `append_apart` does new rows."""

    def delete_range(self, table: str, column: str, up_to: Any) -> int:
        """Drop rows with `column <= up_to` (state that is final); returns how many."""

    def clear(self, table: str) -> None:
        """Drop all rows."""

    def count(self, table: str) -> int:
        """How many rows the table has now."""

    def gained(self, table: str) -> int:
        """How many rows more the table has than at the transaction's begin; nothing is read for it."""

    def commit(self, row: EpochRow) -> None:
        """Insert the epoch row and commit. Refused unless the epoch before it is the last one and the lease is still ours."""

    def rollback(self) -> None:
        """Undo everything."""


Take = Callable[[pa.RecordBatchReader], None]


class AnsweringReader(Protocol):
    """A reader for requests: a read-only connection for statements. Thread-safe."""

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgres`."""

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one SELECT in its own snapshot. Placeholders: `?` for sqlite, `$1` for postgres."""

    def last_epoch(self) -> EpochRow | None: ...

    def document(self, name: str) -> str | None: ...

    def close(self) -> None: ...


@runtime_checkable
class LoopReader(AnsweringReader, Protocol):
    """One that reads on an event loop, too."""

    async def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """As `execute`; no thread waits. Texts come as the bytes of their UTF-8."""


class Reader(AnsweringReader, Protocol):
    """One that may live in any process, and reads whole tables, too."""

    def rows(self, table: StoredTable, as_of: AsOf | None = None) -> pa.Table:
        """All rows of a table in the catalog's types, as `StoredTable.arrow`; of a history those that held then."""

    def rows_together(
        self,
        tables: Sequence[StoredTable],
        sets: Sequence[SharedSet] = (),
        streams: Sequence[tuple[StoredTable, Take]] = (),
    ) -> tuple[EpochRow | None, list[pa.Table]]:
        """All rows of each table, and the epoch that all of them are of.

        `sets`: what their queries look values up in, by name. `streams`: tables of any size, with what takes their rows, of that epoch,
        too, a batch at a time; where a connection had died it is called again.
        """


class Store(Protocol):
    """A store opened for writing by one process."""

    dialect: str
    url: str

    def acquire(self, owner: str, seconds: float) -> Lease:
        """Take the writer's lease; raises a diagnostic naming the holder where somebody else has it."""

    def renew(self) -> Lease:
        """Prolong the lease. Another thread may call it. Raises B7007 if another owner has had it in the meantime."""

    def regain(self, owner: str, seconds: float) -> Lease:
        """Prolong the lease of an owner that lost its connection. Raises B7007 as `renew`."""

    def holder(self) -> str | None:
        """Return the owner of the lease; None if it is free, over, or its process has ended. Locks nothing."""

    def verify_lease(self) -> None:
        """Raise B7007 if this store had the lease and has lost it."""

    @property
    def renews_alone(self) -> bool:
        """Whether the lease can be renewed while an epoch is under way."""

    def release(self, owner: str) -> None: ...

    def last_epoch(self) -> EpochRow | None: ...

    def other_clock(self) -> int | None:
        """Microseconds since 1970 by the clock of the machine that the database is on; None where it is this one."""

    def tables(self) -> tuple[StoredTable, ...]:
        """The tables as they are stored now, with their fingerprints."""

    def create(self, tables: Sequence[StoredTable]) -> None:
        """Make missing tables and indexes, in one transaction. An existing table of the same name and definition is kept."""

    def drop(self, names: Sequence[str]) -> None: ...

    def show(self, views: Sequence[ShownView]) -> None:
        """Let other tools read these relations, and no others, as views of the database."""

    def set_document(self, name: str, text: str) -> None:
        """Keep a small document (the catalog for `serve`, the script's text)."""

    def set_documents(self, documents: Mapping[str, str]) -> None:
        """Keep several, all of them or none."""

    def document(self, name: str) -> str | None: ...

    def begin(self, chunk_bytes: int = CHUNK_BYTES) -> Transaction:
        """Start an epoch; each of its calls holds a few times `chunk_bytes` in memory at most."""

    def reader(self) -> Reader:
        """A reader that is safe in this process (for SQLite: through the same library)."""

    def size(self) -> Mapping[str, tuple[int, int]]:
        """Rows and bytes per table, for `explain --state`."""

    def close(self, gives_back: bool = True) -> None:
        """Close it; unless it `gives_back` the lease stays, to be regained."""


class Snapshot(Protocol):
    """A store as of one epoch, whatever others commit meanwhile. To be used in a process that does not write the store."""

    def last_epoch(self) -> EpochRow | None: ...

    def document(self, name: str) -> str | None: ...

    def write(self, folder: Path) -> None:
        """Write the database into files of an empty folder; they are synced by whoever asked."""

    def close(self) -> None: ...
