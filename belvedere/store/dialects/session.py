"""One writing connection: as few primitives as a store's algorithms need, and what their SQL has in common.

In: layouts and flat batches (see `belvedere.store.layout`). Out: flat batches. `belvedere.store.write` holds all that the dialects
share; a session knows neither epochs nor leases. Many keys lie in a temporary table of one column `k`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from belvedere.store.dialects.dialect import Dialect
from belvedere.store.identifiers import SYSTEM, quoted
from belvedere.store.layout import Layout
from belvedere.store.public_views import ViewGrant, ViewSchema

Row = tuple[Any, ...]
Flat = Iterator[pa.RecordBatch]

KEYS = f"{SYSTEM}keys"
"""The temporary table for the keys of one call."""
MARK = "_mark"
"""The column that says which rows count of those that other processes put in."""


class Session(ABC):
    """One connection. Statements are written with `?` for their parameters; driver errors come out as diagnostics."""

    dialect: Dialect
    url: str
    writes_late: bool = False
    """Whether its transaction opens once an epoch's rows are there, and changed tables are filled beside the old ones."""
    is_reached: bool = True
    """Whether processes of other machines reach the database, as far as is known."""

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

    def patiently(self, work: Callable[[], None]) -> None:
        """Change tables and views in the transaction that is open, without holding up those who read them; `work` may be called again.

        Raises B7004 where somebody reads them for longer than is waited for.
        """
        work()

    def grants_on(self, target: str) -> tuple[ViewGrant, ...]:
        """Return the grants on a table or view, whose name is given in SQL form."""
        return ()

    # reads

    @abstractmethod
    def read(self, layout: Layout, source: str, parameters: Sequence[Any] = ()) -> Flat:
        """Stream the flat rows of a FROM text, in which the table is `t`. Read or close them before the next call."""

    @abstractmethod
    def select(self, layout: Layout, keys: pa.Array) -> Flat:
        """Flat rows of these flat keys."""

    def select_all(self, layout: Layout) -> Flat:
        """All flat rows."""
        return self.read(layout, f"{layout.name} AS t")

    def select_where(self, layout: Layout, where: str, parameters: Sequence[Any]) -> Flat:
        """Flat rows of the table, called `t`, for which the SQL text is true; parameters in stored form."""
        return self.read(layout, f"{layout.name} AS t WHERE {where}", parameters)

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
    def delete(self, layout: Layout, keys: pa.Array) -> None:
        """Take out the rows of these flat keys."""

    @abstractmethod
    def delete_where(self, sql: str, parameters: Sequence[Any]) -> int:
        """Run a DELETE statement; returns how many rows it took out."""

    # rows that other processes put in

    def stage(self, layout: Layout, weighted: bool = False) -> str | None:
        """Make a table that other processes fill with marked flat rows, `weighted` ones with their weights.

        Call it in a transaction of the session `alone` that holds the lease: it drops such tables of earlier runs.
        Returns its name; None if other processes cannot reach the database.
        """
        return None

    def unstage(self, stages: Collection[str]) -> None:
        """Drop such tables that still exist, in a transaction of the session `alone`; what tasks still fill goes later."""
        raise NotImplementedError

    def copy_to_stage(self, layout: Layout, stage: str, rows: pa.RecordBatch) -> set[tuple[str, ...]]:
        """Put flat rows with a mark into it; the indexes of the table that cannot take some of them."""
        raise NotImplementedError

    def take_stage(self, layout: Layout, stage: str, marks: Sequence[str], long: set[tuple[str, ...]]) -> None:
        """Move the rows of these marks into the table, in the transaction that is open, and drop the other table."""
        raise NotImplementedError

    def take_changes(self, layout: Layout, stage: str, marks: Sequence[str], long: set[tuple[str, ...]]) -> None:
        """Apply the weighted rows of these marks to the table, as `take_stage` does for new rows."""
        raise NotImplementedError

    # the rest

    @abstractmethod
    def place_of_views(self) -> ViewSchema | None:
        """Where the views for other tools lie; None where this user may not make any."""

    @abstractmethod
    def alone(self) -> Session:
        """The session for what must not wait for a running transaction: itself where the database has one writer."""

    @abstractmethod
    def bytes_of(self, tables: Sequence[str]) -> Mapping[str, int]:
        """Bytes on disk per stored table name, indexes included."""

    @abstractmethod
    def process(self) -> str:
        """Return an identifier of this process, by which `gone` can later check whether it still lives."""

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


def overwriting(layout: Layout) -> str:
    """The end of an INSERT that overwrites rows of the same key."""
    key = quoted(layout.key)  # to set it too would touch its index
    changes = ", ".join(f"{c} = excluded.{c}" for c in layout.quoted if c != key) or f"{key} = excluded.{key}"
    return f" ON CONFLICT ({key}) DO UPDATE SET {changes}"
