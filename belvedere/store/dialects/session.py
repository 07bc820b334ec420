"""One writing connection: as few primitives as a store's algorithms need, and what their SQL has in common.

In: layouts and flat batches (see `belvedere.store.layout`). Out: flat batches. `belvedere.store.write` holds all that the dialects
share; a session knows neither epochs nor leases. Sets of keys lie in temporary tables of one column `k`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from belvedere.schema import KEY
from belvedere.store.identifiers import SYSTEM, quoted
from belvedere.store.layout import Layout
from belvedere.store.protocol import Reader

if TYPE_CHECKING:
    from belvedere.store.dialects.dialect import Dialect

Row = tuple[Any, ...]
Flat = Iterator[pa.RecordBatch]

KEYS = {pa.int64(): f"{SYSTEM}keys_integer", pa.string(): f"{SYSTEM}keys_text"}
"""The keys of one `select`."""
ASKED = {pa.int64(): f"{SYSTEM}asked_integer", pa.string(): f"{SYSTEM}asked_text"}
SEEN = f"{SYSTEM}seen"


class Session(ABC):
    """One connection. Statements are written with `?` for their parameters; driver errors come out as diagnostics."""

    dialect: Dialect
    url: str

    @abstractmethod
    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run one statement and return its rows."""

    @abstractmethod
    def begin(self) -> None:
        """Start a transaction that may write."""

    def commit(self) -> None:
        self.execute("COMMIT")

    @abstractmethod
    def rollback(self) -> None: ...

    # reads

    @abstractmethod
    def read(self, layout: Layout, source: str, parameters: Sequence[Any] = ()) -> Flat:
        """Flat rows of what stands behind FROM, in which the table is `t`, as they stream. To be read or closed before the next call."""

    @abstractmethod
    def select(self, layout: Layout, by: str, keys: pa.Array) -> Flat:
        """Flat rows whose `by` is among the flat `keys`."""

    @abstractmethod
    def among(self, layout: Layout, by: str, held: str) -> str:
        """What stands behind FROM for the rows whose `by` is in a set of keys; it ends within a WHERE."""

    def select_all(self, layout: Layout) -> Flat:
        """All flat rows."""
        return self.read(layout, f"{layout.name} AS t")

    def select_where(self, layout: Layout, where: str, parameters: Sequence[Any]) -> Flat:
        """Flat rows of the table, called `t`, for which the SQL text is true; parameters in stored form."""
        return self.read(layout, f"{layout.name} AS t WHERE {where}", parameters)

    @abstractmethod
    def ask(self, type_: pa.DataType, keys: Iterable[pa.Array]) -> None:
        """Hold flat keys of this type in the database for `select_asked`, `select_unseen` and `delete_unseen`."""

    def select_asked(self, layout: Layout, by: str) -> Flat:
        """Flat rows whose `by` is among the keys of the last `ask`."""
        return self.read(layout, self.among(layout, by, _asked(layout, by)))

    @abstractmethod
    def mark_seen(self, keys: pa.Array, first: bool) -> None:
        """Hold flat `_key`s; `first` forgets those before. Raises B7010 for one that is there already."""

    def select_unseen(self, layout: Layout, by: str | None) -> Flat:
        """Flat rows whose `_key` was not seen, and whose `by` is among the keys asked for (None: of all rows)."""
        source = f"{layout.name} AS t WHERE 1=1" if by is None else self.among(layout, by, _asked(layout, by))
        return self.read(layout, f"{source} AND {_UNSEEN}")

    def delete_unseen(self, layout: Layout, by: str | None) -> None:
        """Take out the rows that `select_unseen` gives."""
        asked = "" if by is None else f" AND t.{quoted(by)} IN (SELECT k FROM {_asked(layout, by)})"
        self.execute(f"DELETE FROM {layout.name} AS t WHERE {_UNSEEN}{asked}")

    # changes

    @abstractmethod
    def insert(self, layout: Layout, batches: Iterable[pa.RecordBatch]) -> None:
        """Put in flat rows whose keys are new."""

    @abstractmethod
    def fill(self, layout: Layout, batches: Iterable[pa.RecordBatch]) -> None:
        """Put flat rows into an empty table, however many."""

    @abstractmethod
    def upsert(self, layout: Layout, rows: pa.Table) -> None:
        """Put in flat rows or overwrite those of the same key."""

    @abstractmethod
    def update(self, layout: Layout, rows: pa.Table, columns: Sequence[str]) -> None:
        """Set these stored columns of rows that are there to those of flat rows."""

    @abstractmethod
    def delete(self, layout: Layout, keys: pa.Array) -> None:
        """Take out the rows of these flat keys."""

    @abstractmethod
    def delete_where(self, sql: str, parameters: Sequence[Any]) -> int:
        """Run a DELETE statement; returns how many rows it took out."""

    # the rest

    @abstractmethod
    def alone(self) -> Session:
        """The session for what must not wait for a running transaction: itself where the database has one writer."""

    @abstractmethod
    def reader(self) -> Reader:
        """A reader that is safe in this process."""

    @abstractmethod
    def bytes_of(self, tables: Sequence[str]) -> Mapping[str, int]:
        """Bytes on disk per stored table name, indexes included."""

    @abstractmethod
    def process(self) -> str:
        """Who this is, so that `gone` can tell later whether it still lives."""

    @abstractmethod
    def gone(self, process: str) -> bool:
        """Whether the process that gave itself this text has certainly ended."""

    @abstractmethod
    def now(self) -> int:
        """Microseconds since 1970 by the store's clock."""

    def other_clock(self) -> int | None:
        """The same where the store is on another machine; else None."""
        return None

    @abstractmethod
    def close(self) -> None: ...


_UNSEEN = f"NOT EXISTS (SELECT 1 FROM {SEEN} AS s WHERE s.k = t.{quoted(KEY)})"


def _asked(layout: Layout, by: str) -> str:
    return ASKED[layout.form_of(by).flat]


def overwriting(layout: Layout) -> str:
    """The end of an INSERT that overwrites rows of the same key."""
    key = quoted(KEY)  # to set it too would touch its index
    changes = ", ".join(f"{c} = excluded.{c}" for c in layout.quoted if c != key) or f"{key} = excluded.{key}"
    return f" ON CONFLICT ({key}) DO UPDATE SET {changes}"
