"""What a store can do: the one protocol that SQLite and Postgres implement.

A store holds one table per maintained relation (public views, inputs, and hidden state of operators), the epoch row, and
documents. All of an epoch's work happens in one transaction on one writing connection; readers in other processes see whole
epochs only. Rows cross this line as Arrow record batch readers in the *catalog's* types: the codec of each store is its own
affair. A reader that was returned must be consumed or closed before the next call.

Every stored row has `_key` (utf8, not null: canonical text of the key columns, made in Spark) and, per access path, one hidden
int64 column that holds a hash of the path's expressions. A path may bring rows of other keys with the same hash along:
callers treat the hash itself as the key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pyarrow as pa

from belvedere.schema import KEY, WEIGHT, Schema

if TYPE_CHECKING:
    from belvedere.store.read.as_of import AsOf

CHUNK_BYTES = 64 << 20
"""So much of a table is held in memory at once where nothing else is said."""

LookupKeys: TypeAlias = pa.Array | pa.RecordBatchReader | None
"""Which rows: an array of keys, a stream of batches whose first column holds them, or None for all."""

__all__ = ["CHUNK_BYTES", "KEY", "WEIGHT", "EpochRow", "Lease", "LookupKeys", "Reader", "Store", "StoredTable", "Transaction"]


@dataclass(frozen=True)
class StoredTable:
    """How a relation is stored: `schema.columns`, then `_key`, then one int64 column per path.

    `paths` are indexed hash columns for keyed look-ups; `ranges` are columns of the schema indexed for `lookup_range`;
    `indexes` serve API reads (column names of the schema, in order) and look-ups by a path and a range.
    """

    name: str
    schema: Schema
    paths: tuple[str, ...] = ()
    ranges: tuple[str, ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    meaning: str = ""
    """A fingerprint of the plan behind the table: another meaning under the same name is another table. Part 3 names final times."""
    silent: tuple[str, ...] = ()
    """Columns for the engine alone: a row in which only these differ is written, and is no part of a delta."""

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of the rows that go in and come out."""
        fields = [pa.field(c.name, c.type, c.nullable) for c in self.schema.columns]
        fields.append(pa.field(KEY, pa.string(), nullable=False))
        fields += [pa.field(p, pa.int64(), nullable=False) for p in self.paths]
        return pa.schema(fields)

    @property
    def arrow_delta(self) -> pa.Schema:
        """The same with `_weight`: -1 for a row that goes, +1 for one that comes."""
        return self.arrow.append(pa.field(WEIGHT, pa.int64(), nullable=False))


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
    """Who may write: an owner's random name and when its right ends unless renewed."""

    owner: str
    expires_at: datetime


class Transaction(Protocol):
    """One epoch's changes. Nothing is visible to anybody else before `commit`; closing without it undoes everything."""

    def lookup(self, table: str, by: str | None, keys: LookupKeys) -> pa.RecordBatchReader:
        """Rows as they are now, in this transaction, whose `by` (a path or `_key`) is among `keys`; all for None.

        They stream: whatever their number, a batch at a time is in memory.
        """

    def lookup_range(self, table: str, column: str, above: Any, up_to: Any) -> pa.RecordBatchReader:
        """Rows with `above < column <= up_to`; None = unbounded on that side. NULLs never match."""

    def lookup_span(self, table: str, by: str, key: int, column: str, low: Any, high: Any) -> pa.RecordBatchReader:
        """Rows whose path `by` is `key` with `low <= column <= high`; None = unbounded, below with the NULLs."""

    def place(self, table: str, by: str, key: int, column: str, value: Any, count: int, after: bool) -> Any:
        """The `column` of the row that is `count` rows before (`after`: behind) all with `value`, of those whose `by` is `key`.

        None where there are not so many. NULLs do not count.
        """

    def replace(self, table: str, by: str | None, keys: LookupKeys, rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """Make `rows` the only rows whose `by` is among `keys` (all for None), and return what changed as a delta.

        The delta has the old stored row with weight -1 and the new with +1 for each `_key` whose row differs, and nothing
        for rows that stay as they are. Rows of `rows` must have distinct `_key`s. Many rows are replaced piece by piece while
        the delta is read; what nobody reads is done by the next call.
        """

    def apply(self, table: str, delta: pa.RecordBatchReader) -> None:
        """Take out the rows of weight -1 by `_key` and put in those of +1. Per `_key` at most one of each."""

    def append(self, table: str, rows: pa.RecordBatchReader) -> None:
        """Put in rows whose `_key`s are new: the fast path for streams."""

    def delete_range(self, table: str, column: str, up_to: Any) -> int:
        """Drop rows with `column <= up_to` (state that is final); returns how many."""

    def count(self, table: str) -> int:
        """How many rows the table has now."""

    def commit(self, row: EpochRow) -> None:
        """Insert the epoch row and commit. Refused unless the epoch before it is the last one and the lease is still ours."""

    def rollback(self) -> None:
        """Undo everything."""


class Reader(Protocol):
    """A read-only connection; may live in any process. Thread-safe."""

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgres`."""

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one SELECT in its own snapshot. Placeholders: `?` for sqlite, `$1` for postgres."""

    def rows(self, table: StoredTable, as_of: AsOf | None = None) -> pa.Table:
        """All rows of a table in the catalog's types, as `StoredTable.arrow`; of a history those that held then."""

    def last_epoch(self) -> EpochRow | None: ...

    def document(self, name: str) -> str | None: ...

    def close(self) -> None: ...


class Store(Protocol):
    """A store opened for writing by one process."""

    dialect: str
    url: str

    def acquire(self, owner: str, seconds: float) -> Lease:
        """Take or renew the writer's lease; raises a diagnostic naming the holder where somebody else has it."""

    def release(self, owner: str) -> None: ...

    def last_epoch(self) -> EpochRow | None: ...

    def other_clock(self) -> int | None:
        """Microseconds since 1970 by the clock of the machine that the database is on; None where it is this one."""

    def tables(self) -> tuple[StoredTable, ...]:
        """The tables as they are stored now, with their meanings."""

    def create(self, tables: Sequence[StoredTable]) -> None:
        """Make missing tables and indexes, in one transaction. An existing table of the same name and meaning is kept."""

    def drop(self, names: Sequence[str]) -> None: ...

    def set_document(self, name: str, text: str) -> None:
        """Keep a small document (the catalog for `serve`, the script's text)."""

    def document(self, name: str) -> str | None: ...

    def begin(self, chunk_bytes: int = CHUNK_BYTES) -> Transaction:
        """Start an epoch; each of its calls holds a few times `chunk_bytes` in memory at most."""

    def reader(self) -> Reader:
        """A reader that is safe in this process (for SQLite: through the same library)."""

    def size(self) -> Mapping[str, tuple[int, int]]:
        """Rows and bytes per table, for `explain --state`."""

    def close(self) -> None: ...
