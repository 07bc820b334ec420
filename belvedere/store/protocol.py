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
    """A committed epoch.

    `clock` is now(); `offsets` maps each source's name to its offset; `bounds` and `extra` are JSON documents.
    """

    epoch: int
    clock: datetime
    offsets: Mapping[str, Any] = field(default_factory=dict)
    bounds: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    committed_at: datetime | None = None


@dataclass(frozen=True)
class Lease:
    """The right to write: an owner's random name, and the time at which the lease ends unless renewed."""

    owner: str
    expires_at: datetime
    before: str | None = None
    """The former owner, if it did not return the lease."""


class Transaction(Protocol):
    """One epoch's changes. They are invisible to others before `commit`; closing without a commit rolls them back."""

    @property
    def is_late(self) -> bool:
        """Return whether the database has no open transaction before the first change.

        Changes should then start when all rows are ready.
        """

    def lookup(self, table: str, keys: pa.Array | None = None) -> pa.RecordBatchReader:
        """Return the rows whose `_key` is among `keys` as of now in this transaction; all rows for None.

        The result is streamed: only one batch at a time is in memory.
        """

    def lookup_range(self, table: str, column: str, above: Any, up_to: Any) -> pa.RecordBatchReader:
        """Return rows with `above < column <= up_to`; None = unbounded on that side. NULLs never match."""

    def apply(self, table: str, delta: pa.RecordBatchReader) -> None:
        """Delete the rows with `_weight` -1 by `_key`, and insert those with +1.

        There is at most one of each per `_key`, the -1 first. A row without -1 must not be in the table; B7010 is
        raised if it is.
        """

    def append(self, table: str, rows: pa.RecordBatchReader) -> None:
        """Insert rows whose `_key`s are new: the fast path for streams."""

    def append_apart(self, table: StoredTable, put: Callable[[Any], pa.Table], rows: int) -> Callable[[], None] | None:
        """Let tasks of other processes write `rows` new rows.

        Return the function that then adds them to the table, or None.

        `put` runs a task's function over the rows.
        """

    def apply_apart(self, table: StoredTable, put: Callable[[Any], pa.Table], rows: int) -> Callable[[], None] | None:
        """Let tasks of other processes write a delta of `rows` rows, as `append_apart` does for new rows."""

    def delete_range(self, table: str, column: str, up_to: Any) -> int:
        """Delete rows with `column <= up_to` (state that is final), and return their number."""

    def clear(self, table: str) -> None:
        """Delete all rows."""

    def count(self, table: str) -> int:
        """Return the number of rows in the table now."""

    def gained(self, table: str) -> int:
        """Return the increase in rows since the start of the transaction, without reading the table."""

    def commit(self, row: EpochRow) -> None:
        """Insert the epoch row and commit.

        Refused unless the previous epoch is the last one and this writer still holds the lease.
        """

    def rollback(self) -> None:
        """Roll back all changes."""


Take = Callable[[pa.RecordBatchReader], None]


class AnsweringReader(Protocol):
    """A reader for requests: a read-only connection for statements. Thread-safe."""

    @property
    def dialect(self) -> str:
        """Return `sqlite` or `postgres`."""

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one SELECT in its own snapshot. Placeholders: `?` for sqlite, `$1` for postgres."""

    def last_epoch(self) -> EpochRow | None: ...

    def document(self, name: str) -> str | None: ...

    def close(self) -> None: ...


@runtime_checkable
class LoopReader(AnsweringReader, Protocol):
    """A reader that can also read on an event loop."""

    async def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a SELECT as `execute` does, without a waiting thread. Texts are returned as UTF-8 bytes."""


class Reader(AnsweringReader, Protocol):
    """A reader that can run in any process, and can also read whole tables."""

    def rows(self, table: StoredTable, as_of: AsOf | None = None) -> pa.Table:
        """Return all rows of a table in the catalog's types, as `StoredTable.arrow`.

        For a history with `as_of`, return the rows that were valid then.
        """

    def rows_together(
        self,
        tables: Sequence[StoredTable],
        sets: Sequence[SharedSet] = (),
        streams: Sequence[tuple[StoredTable, Take]] = (),
    ) -> tuple[EpochRow | None, list[pa.Table]]:
        """Return all rows of each table, and the epoch to which all of them belong.

        `sets`: sets in which their queries look values up, by name. `streams`: tables of any size with a consumer, read
        from the same epoch a batch at a time. If a connection was lost, the consumer is called again.
        """


class Store(Protocol):
    """A store opened for writing by one process."""

    dialect: str
    url: str

    def acquire(self, owner: str, seconds: float) -> Lease:
        """Take the writer's lease. If another owner has it, raise a diagnostic that names the holder."""

    def renew(self) -> Lease:
        """Extend the lease. Another thread can call this. Raises B7007 if another owner has had it in the meantime."""

    def regain(self, owner: str, seconds: float) -> Lease:
        """Extend the lease of an owner that lost its connection. Raises B7007 as `renew`."""

    def holder(self) -> str | None:
        """Return the owner of the lease, or None if it is free, has expired, or its process has ended.

        Locks nothing.
        """

    def verify_lease(self) -> None:
        """Raise B7007 if this store had the lease and has lost it."""

    @property
    def renews_alone(self) -> bool:
        """Return whether the lease can be renewed while an epoch is running."""

    def release(self, owner: str) -> None: ...

    def last_epoch(self) -> EpochRow | None: ...

    def other_clock(self) -> int | None:
        """Return microseconds since 1970 by the clock of the database's machine, or None if it is this machine."""

    def tables(self) -> tuple[StoredTable, ...]:
        """Return the tables as they are stored now, with their fingerprints."""

    def create(self, tables: Sequence[StoredTable]) -> None:
        """Create missing tables and indexes in one transaction.

        An existing table with the same name and definition is kept.
        """

    def drop(self, names: Sequence[str]) -> None: ...

    def show(self, views: Sequence[ShownView]) -> None:
        """Make these relations, and no others, available to other tools as views of the database."""

    def set_document(self, name: str, text: str) -> None:
        """Store a small document (the catalog for `serve`, the script's text)."""

    def set_documents(self, documents: Mapping[str, str]) -> None:
        """Store several documents, all or none."""

    def document(self, name: str) -> str | None: ...

    def begin(self, chunk_bytes: int = CHUNK_BYTES) -> Transaction:
        """Start an epoch. Each of its calls holds at most a few times `chunk_bytes` in memory."""

    def reader(self) -> Reader:
        """Return a reader that is safe in this process (for SQLite: through the same library)."""

    def size(self) -> Mapping[str, tuple[int, int]]:
        """Return rows and bytes per table, for `explain --state`."""

    def close(self, gives_back: bool = True) -> None:
        """Close the store. Unless it `gives_back` the lease, the lease stays and can be regained."""


class Snapshot(Protocol):
    """A store as of one epoch, unaffected by later commits. Use it in a process that does not write the store."""

    def last_epoch(self) -> EpochRow | None: ...

    def document(self, name: str) -> str | None: ...

    def write(self, folder: Path) -> None:
        """Write the database into files of an empty folder. The caller syncs them."""

    def close(self) -> None: ...
