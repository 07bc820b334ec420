"""One writing connection: the few primitives that a store's algorithms need, and the SQL that they share.

In: layouts and flat batches (see `belvedere.store.layout`). Out: flat batches. `belvedere.store.write` holds everything
that dialects share; a session knows neither epochs nor leases. Large sets of keys are in a temporary table with one
column `k`.
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
"""Temporary table for the keys of one call."""
MARK = "_mark"
"""Column that marks which rows from other processes count."""


class Session(ABC):
    """One connection. Statements use `?` for their parameters; driver errors are raised as diagnostics."""

    dialect: Dialect
    url: str
    writes_late: bool = False
    """Whether its transaction opens only when an epoch's rows are ready, and changed tables are filled beside the old
    ones."""
    is_reached: bool = True
    """Whether processes on other machines can reach the database, as known so far."""

    @abstractmethod
    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run one statement and return its rows."""

    @abstractmethod
    def begin(self) -> None:
        """Start a transaction that can write."""

    def commit(self) -> None:
        self.execute("COMMIT")

    @abstractmethod
    def rollback(self) -> None: ...

    def patiently(self, work: Callable[[], None]) -> None:
        """Change tables and views in the open transaction without blocking their readers. `work` can be called again.

        Raises B7004 if a reader uses them for longer than the session waits.
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
        """Return flat rows with these flat keys."""

    def select_all(self, layout: Layout) -> Flat:
        """Return all flat rows."""
        return self.read(layout, f"{layout.name} AS t")

    def select_where(self, layout: Layout, where: str, parameters: Sequence[Any]) -> Flat:
        """Return flat rows of the table, called `t`, for which the SQL text is true; parameters in stored form."""
        return self.read(layout, f"{layout.name} AS t WHERE {where}", parameters)

    # changes

    @abstractmethod
    def insert(self, layout: Layout, batches: Iterable[pa.RecordBatch]) -> None:
        """Insert flat rows whose keys are new."""

    @abstractmethod
    def fill(self, layout: Layout, batches: Iterable[pa.RecordBatch]) -> None:
        """Insert any number of flat rows into an empty table."""

    @abstractmethod
    def upsert(self, layout: Layout, rows: pa.Table) -> None:
        """Insert flat rows, or overwrite those with the same key."""

    @abstractmethod
    def delete(self, layout: Layout, keys: pa.Array) -> None:
        """Delete the rows with these flat keys."""

    @abstractmethod
    def delete_where(self, sql: str, parameters: Sequence[Any]) -> int:
        """Run a DELETE statement and return the number of deleted rows."""

    # rows that other processes put in

    def stage(self, layout: Layout, weighted: bool = False) -> str | None:
        """Create a table that other processes fill with marked flat rows, `weighted` ones with their weights.

        Call it in a transaction of the session `alone` that holds the lease: it drops such tables of earlier runs.
        Returns its name; None if other processes cannot reach the database.
        """
        return None

    def unstage(self, stages: Collection[str]) -> None:
        """Drop staging tables that still exist, in a transaction of the session `alone`.

        Tables that tasks still fill are dropped later.
        """
        raise NotImplementedError

    def copy_to_stage(self, layout: Layout, stage: str, rows: pa.RecordBatch) -> set[tuple[str, ...]]:
        """Write flat rows with a mark into the staging table, and return the indexes of the table that cannot hold some
        of them."""
        raise NotImplementedError

    def take_stage(self, layout: Layout, stage: str, marks: Sequence[str], long: set[tuple[str, ...]]) -> None:
        """Move the rows with these marks into the table in the open transaction, and drop the staging table."""
        raise NotImplementedError

    def take_changes(self, layout: Layout, stage: str, marks: Sequence[str], long: set[tuple[str, ...]]) -> None:
        """Apply the weighted rows of these marks to the table, as `take_stage` does for new rows."""
        raise NotImplementedError

    # the rest

    @abstractmethod
    def place_of_views(self) -> ViewSchema | None:
        """Return the place of the views for other tools, or None if this user must not create any."""

    @abstractmethod
    def alone(self) -> Session:
        """Return the session for work that must not wait for a running transaction.

        A database with one writer returns this session.
        """

    @abstractmethod
    def bytes_of(self, tables: Sequence[str]) -> Mapping[str, int]:
        """Return bytes on disk per stored table name, including indexes."""

    @abstractmethod
    def process(self) -> str:
        """Return an identifier of this process, by which `gone` can later check whether the process is still
        running.
        """

    @abstractmethod
    def gone(self, process: str) -> bool:
        """Return whether the process with this identifier has certainly ended."""

    @abstractmethod
    def now(self) -> int:
        """Return microseconds since 1970 by the store's clock."""

    def other_clock(self) -> int | None:
        """Return microseconds since 1970 by the store's clock if it is on another machine, else None."""
        return None

    @abstractmethod
    def close(self) -> None: ...


def overwriting(layout: Layout) -> str:
    """Return the end of an INSERT that overwrites rows with the same key."""
    key = quoted(layout.key)  # setting it too would touch its index
    changes = ", ".join(f"{c} = excluded.{c}" for c in layout.quoted if c != key) or f"{key} = excluded.{key}"
    return f" ON CONFLICT ({key}) DO UPDATE SET {changes}"
