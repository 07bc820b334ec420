"""The reader of a Postgres store in API processes: prepared statements through libpq, on the event loop.

In: SELECTs of one statement each, so each sees one epoch. Out: Python rows. Processes that run epochs read through
`belvedere.store.dialects.postgres.postgres_reader`, which returns Arrow. This reader does not load the ADBC driver,
which saves 30 MB per process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import Error

from belvedere.errors import BelvedereError
from belvedere.store.dialects.connection_retry import keep_trying
from belvedere.store.dialects.dialect import Dialect
from belvedere.store.dialects.faults import is_transient
from belvedere.store.dialects.postgres.postgres_loop import LoopConnections
from belvedere.store.dialects.postgres.postgres_settings import OWN_SCHEMA, UNHURRIED
from belvedere.store.dialects.postgres.postgres_statements import Row, StatementConnection, StatementError
from belvedere.store.dialects.reader import StatementReader

ERRORS = (StatementError, Error, OSError)


class ServedPostgresReader(StatementReader):
    """The reader of one process. `execute` is for threads, `fetch` for the loop; each has its own connections."""

    errors = ERRORS
    may_die = True

    def __init__(self, dialect: Dialect, url: str, settings: Sequence[str], seconds: float | None, connections: int):
        def connect() -> StatementConnection:
            return keep_trying(lambda: self._connect_once(settings, seconds))

        super().__init__(dialect, url, connect)
        self._on_loop = LoopConnections(connect, connections)
        self.last_epoch()

    def _connect_once(self, settings: Sequence[str], seconds: float | None) -> StatementConnection:
        with self._dialect.guarded(self.url, ERRORS):
            return StatementConnection(self.url, (OWN_SCHEMA, UNHURRIED, *settings), seconds)

    def run(self, connection: Any, sql: str, parameters: Sequence[Any]) -> list[Row]:
        return list(connection.run(sql, parameters))

    async def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run a statement as `execute` does, without a thread.

        Texts are returned as bytes. If the connection turns out to be dead, retry once.
        """
        try:
            return await self._fetch(sql, parameters)
        except BelvedereError as error:
            if not is_transient(error):
                raise
        self._on_loop.forget()
        return await self._fetch(sql, parameters)

    async def _fetch(self, sql: str, parameters: Sequence[Any]) -> list[Row]:
        try:
            return await self._on_loop.fetch(sql, parameters)
        except ERRORS as error:
            raise self._dialect.fault(error, self.url) from error

    def close(self) -> None:
        super().close()
        self._on_loop.close()
