"""Shared parts of the readers of all dialects: a pool of connections, and reads that need only SELECT.

In: SELECTs of one statement each, so each sees one epoch. Out: Python rows, or Arrow in the catalog's types.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import Any, TypeVar

import pyarrow as pa

from belvedere.errors import BelvedereError, fail
from belvedere.store.definitions import epoch_from_values
from belvedere.store.dialects.dialect import Dialect
from belvedere.store.dialects.faults import is_transient
from belvedere.store.layout import Layout
from belvedere.store.protocol import EpochRow, Take
from belvedere.store.read.as_of import AsOf
from belvedere.store.read.shared_sets import SharedSet
from belvedere.store.stored_table import StoredTable
from belvedere.store.system import DOCUMENT, LAST_EPOCH

Result = TypeVar("Result")

IDLE_CONNECTIONS = 8


class Pool:
    """Connections that are lent to one thread at a time: as many as there are threads, of which only a few are kept."""

    def __init__(self, connect: Callable[[], Any]):
        self._connect = connect
        self._idle: list[Any] = []
        self._lock = Lock()
        self._closed = False

    def use(self, work: Callable[[Any], Result]) -> Result:
        """Run the work with a connection and return its result. On failure the connection is closed."""
        if self._closed:
            raise fail("B7015", "this reader is closed")
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            result = work(connection)
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)
        return result

    def _give_back(self, connection: Any) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < IDLE_CONNECTIONS:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> bool:
        """Close idle connections; lent ones are closed when they are returned. Return whether the pool was open."""
        with self._lock:
            was_open, self._closed = not self._closed, True
        self.forget()
        return was_open

    def forget(self) -> None:
        """Close idle connections."""
        while True:
            try:
                self._idle.pop().close()
            except IndexError:
                return


class StatementReader(ABC):
    """A reader that runs statements on a pool of connections."""

    errors: tuple[type[Exception], ...]
    """Exceptions of the driver."""
    may_die: bool = False
    """Whether a connection may die while it is idle. A statement is then retried once on a new connection."""

    def __init__(self, dialect: Dialect, url: str, connect: Callable[[], Any]):
        self.dialect, self.url = dialect.name, url
        self._dialect = dialect
        self._pool = Pool(connect)

    @abstractmethod
    def run(self, connection: Any, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows of one statement."""

    def with_connection(self, work: Callable[[Any], Result]) -> Result:
        try:
            return self._with_connection(work)
        except BelvedereError as error:
            if not (self.may_die and is_transient(error)):
                raise
        self._pool.forget()
        return self._with_connection(work)

    def _with_connection(self, work: Callable[[Any], Result]) -> Result:
        try:
            return self._pool.use(work)
        except self.errors as error:
            raise self._dialect.fault(error, self.url) from error

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.with_connection(lambda connection: self.run(connection, sql, parameters))

    def last_epoch(self) -> EpochRow | None:
        rows = self.execute(LAST_EPOCH)
        return epoch_from_values(rows[0]) if rows else None

    def document(self, name: str) -> str | None:
        rows = self.execute(f"SELECT content FROM {DOCUMENT} WHERE name = {self._dialect.marker(1)}", (name,))
        return self._dialect.unescape(str(rows[0][0])) if rows else None

    def close(self) -> None:
        self._pool.close()


class PooledReader(StatementReader):
    """A `Reader`, which also reads tables as Arrow."""

    @abstractmethod
    def flat(self, connection: Any, layout: Layout, where: str) -> Iterator[pa.RecordBatch]:
        """Yield the stored rows of a relation, in the columns of the store, a batch at a time."""

    def rows(self, table: StoredTable, as_of: AsOf | None = None) -> pa.Table:
        layout = Layout(self._dialect, table)
        where = "" if as_of is None else f" WHERE {as_of.valid_versions(self._dialect)}"
        flat = self.with_connection(lambda connection: list(self.flat(connection, layout, where)))
        return pa.Table.from_batches([layout.restore(b) for b in flat], layout.arrow)

    def make(self, connection: Any, sets: Sequence[SharedSet]) -> None:
        """Create sets that last until the end of the transaction, outside the store.

        Does nothing for databases without printed sets.
        """

    def hold(self, connection: Any, layouts: Sequence[Layout]) -> None:
        """Prevent tables from being replaced during the open transaction, before it takes its snapshot."""

    def rows_together(
        self,
        tables: Sequence[StoredTable],
        sets: Sequence[SharedSet] = (),
        streams: Sequence[tuple[StoredTable, Take]] = (),
    ) -> tuple[EpochRow | None, list[pa.Table]]:
        layouts = [Layout(self._dialect, table) for table in tables]
        streamed = [Layout(self._dialect, table) for table, _ in streams]

        def read(connection: Any) -> tuple[list[tuple[Any, ...]], list[list[pa.RecordBatch]]]:
            self.run(connection, self._dialect.for_reads, ())
            self.hold(connection, [*layouts, *streamed])
            last = self.run(connection, LAST_EPOCH, ())
            self.make(connection, sets)
            found = [list(self.flat(connection, layout, "")) for layout in layouts]
            for layout, (_, take) in zip(streamed, streams, strict=True):
                batches = (layout.restore(b) for b in self.flat(connection, layout, ""))
                take(pa.RecordBatchReader.from_batches(layout.arrow, batches))
            self.run(connection, "ROLLBACK", ())  # only the sets were written
            return last, found

        last, flat = self.with_connection(read)
        rows = [
            pa.Table.from_batches([la.restore(b) for b in f], la.arrow) for la, f in zip(layouts, flat, strict=True)
        ]
        return (epoch_from_values(last[0]) if last else None), rows
