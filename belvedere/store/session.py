"""What a dialect must do for a store: one writing connection, as few primitives as the algorithms need.

In: layouts and flat batches (see `belvedere.store.layout`). Out: flat batches. `belvedere.store.transaction` and
`belvedere.store.database` hold all that the dialects share; a session knows neither epochs nor leases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from belvedere.store.layout import Layout
from belvedere.store.protocol import Reader

Row = tuple[Any, ...]
Flat = Iterator[pa.RecordBatch]


class Session(Protocol):
    """One connection. Statements are written with `?` for their parameters; driver errors come out as diagnostics."""

    dialect: str
    url: str

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run one statement and return its rows."""

    def begin(self) -> None:
        """Start a transaction that may write."""

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def select(self, layout: Layout, by: str | None, keys: pa.Array | None) -> Flat:
        """Flat rows whose `by` is among the flat `keys`; all for None. To be consumed or closed before the next call."""

    def ask(self, type_: pa.DataType, keys: Iterable[pa.Array]) -> None:
        """Hold flat keys of this type in the database for `select_asked`, `select_unseen` and `delete_unseen`."""

    def select_asked(self, layout: Layout, by: str) -> Flat:
        """Flat rows whose `by` is among the keys of the last `ask`."""

    def mark_seen(self, keys: pa.Array, first: bool) -> None:
        """Hold flat `_key`s; `first` forgets those before. Raises B7010 for one that is there already."""

    def select_unseen(self, layout: Layout, by: str | None) -> Flat:
        """Flat rows whose `_key` was not seen, and whose `by` is among the keys asked for (None: of all rows)."""

    def delete_unseen(self, layout: Layout, by: str | None) -> None:
        """Take out the rows that `select_unseen` gives."""

    def select_where(self, layout: Layout, where: str, parameters: tuple[Any, ...]) -> Flat:
        """Flat rows of the table, called `t`, for which the SQL text is true; parameters in stored form."""

    def insert(self, layout: Layout, batches: Iterable[pa.RecordBatch]) -> None:
        """Put in flat rows whose keys are new."""

    def upsert(self, layout: Layout, rows: pa.Table) -> None:
        """Put in flat rows or overwrite those of the same key."""

    def fill(self, layout: Layout, batches: Iterable[pa.RecordBatch]) -> None:
        """Put flat rows into an empty table, however many."""

    def update(self, layout: Layout, rows: pa.Table, columns: Sequence[str]) -> None:
        """Set these stored columns of rows that are there to those of flat rows."""

    def delete(self, layout: Layout, keys: pa.Array) -> None:
        """Take out the rows of these flat keys."""

    def delete_where(self, sql: str, parameters: Sequence[Any]) -> int:
        """Run a DELETE statement; returns how many rows it took out."""

    def alone(self) -> Session:
        """The session for what must not wait for a running transaction: for SQLite, which has one writer, itself."""

    def reader(self) -> Reader: ...

    def bytes_of(self, tables: Sequence[str]) -> Mapping[str, int]:
        """Bytes on disk per stored table name, indexes included."""

    def process(self) -> str:
        """Who this is, so that `gone` can tell later whether it still lives."""

    def gone(self, process: str) -> bool:
        """Whether the process that gave itself this text has certainly ended."""

    def now(self) -> int:
        """Microseconds since 1970 by the store's clock."""

    def other_clock(self) -> int | None:
        """The same where the store is on another machine; else None."""

    def close(self) -> None: ...
