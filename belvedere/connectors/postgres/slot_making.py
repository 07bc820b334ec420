"""Creation of a slot, for which Postgres waits until each open transaction ends.

In: a server. Out: the slot's first position, once it exists; until then a diagnostic that names the transaction waited
for. The statement runs in a thread, over a separate connection, so nothing else waits. Closing it also ends the
statement on the server.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import psycopg

from belvedere.connectors.postgres.server import Server
from belvedere.errors import BelvedereError, fail

PATIENCE_SECONDS = 1.0
"""Seconds that a look waits for the slot before it reports what the slot waits for."""
LOST_CLIENT = "SET client_connection_check_interval = '2s'"
"""Setting by which the server ends the statement if this process is killed."""
_BLOCKING = """
SELECT b.pid, a.usename, date_trunc('second', a.xact_start)::text, a.datname
FROM unnest(pg_blocking_pids(%s)) AS b(pid) LEFT JOIN pg_stat_activity a ON a.pid = b.pid LIMIT 1
"""


class SlotMaking:
    """The creation of a slot."""

    def __init__(self, server: Server):
        self.server = server
        self._connection = server.connect()
        with contextlib.suppress(psycopg.Error):  # not every system supports it
            self._connection.execute(LOST_CLIENT)
        self._made: int | None = None
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._make, daemon=True)
        self._thread.start()

    def _make(self) -> None:
        text = "SELECT (lsn - '0/0')::int8 FROM pg_create_logical_replication_slot(%s, 'pgoutput')"
        try:
            with self.server.explaining_failures():
                ((position,),) = self._connection.execute(text, (self.server.slot,)).fetchall()
                self._made = int(position)
        except Exception as error:  # raised when the slot is requested
            self._failure = error
        finally:
            self._connection.close()

    def position(self) -> int:
        """Return the slot's first position.

        Raises B6227 while it waits, and the server's error if the creation failed.
        """
        self._thread.join(PATIENCE_SECONDS)
        if self._failure is not None:
            raise self._failure
        if self._made is None:
            raise self._waiting()
        return self._made

    @property
    def is_done(self) -> bool:
        """Return whether it no longer waits: the slot exists, or another attempt is due."""
        return self._failure is not None or self._made is not None

    def _waiting(self) -> BelvedereError:
        source, slot = self.server.source, self.server.slot
        for pid, user, since, database in self.server.ask(_BLOCKING, self._pid()):
            who = (
                f'process {pid} (user "{user}", database "{database}", since {since})'
                if pid
                else "a prepared transaction"
            )
            hint = f"it continues when that transaction ends; to end it: SELECT pg_terminate_backend({pid})"
            hint = hint if pid else "it continues when that transaction ends: SELECT gid FROM pg_prepared_xacts"
            return fail("B6227", f'source "{source}": slot "{slot}" waits for an open transaction of {who}', hint=hint)
        return fail("B6227", f'source "{source}": slot "{slot}" waits for open transactions to end')

    def _pid(self) -> Any:
        return self._connection.info.backend_pid

    def cancel(self) -> None:
        """Cancel the creation."""
        with contextlib.suppress(psycopg.Error, OSError):
            self._connection.cancel_safe(timeout=5)
        self._thread.join(5)
