"""A connection to Postgres through libpq that runs prepared statements: in a thread that waits, or on an event loop
without waiting.

In: SELECTs with `$1`, `$2` ..., and values in stored form. Out: rows. A text is prepared when the connection runs it a
second time; Postgres replans prepared statements when their tables change. It has no pool, and retries only a statement
that Postgres has forgotten.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from psycopg import OperationalError
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, PGconn
from psycopg.pq.abc import PGresult

Row = tuple[Any, ...]
Send = Callable[[], None]

MAX_PREPARED = 256
"""Maximum number of statements that a connection keeps prepared. The least recently used one is dropped."""
GRACE = 2.0
"""Seconds beyond a statement's own time limit after which its connection counts as dead."""
_FORGOTTEN = ("26000", "0A000")
"""SQLSTATEs after which a prepared statement must be prepared again: it is missing, or its columns have changed."""
_QUIET = "no connection: the server does not answer"
_DECODED: Mapping[int, Callable[[bytes], Any]] = {
    **dict.fromkeys((20, 21, 23, 26), int),
    **dict.fromkeys((700, 701), float),
    1700: lambda text: Decimal(text.decode()),
    16: lambda text: text == b"t",
    17: lambda text: bytes.fromhex(text[2:].decode()),
}
"""Decoders of text values by the number of the Postgres type."""


class StatementError(Exception):
    """An error of Postgres or libpq, with the SQLSTATE if there is one."""

    def __init__(self, message: str, state: str = ""):
        super().__init__(f"{message} SQLSTATE: {state}" if state else message)
        self.state = state


class StatementConnection:
    """One connection. It runs one statement at a time, in a thread (`run`) or on a loop (`attach`, then `fetch`)."""

    def __init__(self, url: str, settings: Sequence[str], seconds: float | None = None):
        self._libpq = PGconn.connect(url.encode())
        self._seconds = seconds
        self._names: OrderedDict[str, bytes] = OrderedDict()
        """Prepared name of each text; empty for a text that was run once."""
        self._made = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._descriptor = -1
        """Descriptor for the loop. It is a duplicate, since libpq closes its own when the server is gone."""
        self._answered: asyncio.Future[None] | None = None
        self._results: list[PGresult] = []
        self._on_end: Callable[[], None] | None = None
        if self._libpq.status != ConnStatus.OK:
            message = self._libpq.get_error_message()
            self._libpq.finish()
            raise StatementError(message)
        try:
            self._checked(self._libpq.exec_("; ".join(settings).encode()))
        except BaseException:
            self._libpq.finish()
            raise

    # in a thread

    def run(self, sql: str, parameters: Sequence[Any]) -> list[Row]:
        """Return the rows of a statement; the calling thread waits. Texts are returned as `str`."""
        values = [_bound(v) for v in parameters]
        found = self._checked(self._libpq.exec_params(sql.encode(), values))
        return list(_rows(found, lambda text: text.decode()))

    # on an event loop

    def attach(self, loop: asyncio.AbstractEventLoop, on_end: Callable[[], None]) -> None:
        """Run on this loop from now on. `on_end` is called if the server ends the connection."""
        self._loop, self._on_end = loop, on_end
        self._libpq.nonblocking = 1
        self._descriptor = os.dup(self._libpq.socket)
        loop.add_reader(self._descriptor, self._receive)

    async def fetch(self, sql: str, parameters: Sequence[Any]) -> list[Row]:
        """Return the rows of a statement. Texts are returned as the received UTF-8 bytes."""
        values = [_bound(v) for v in parameters]
        name = self._names.get(sql)
        if name is None:
            found = await self._sent(lambda: self._libpq.send_query_params(sql.encode(), values))
            await self._remember(sql)
            return list(_rows(found, bytes))
        self._names.move_to_end(sql)
        try:
            prepared = name or await self._prepare(sql)
            return list(_rows(await self._sent(lambda: self._libpq.send_query_prepared(prepared, values)), bytes))
        except StatementError as error:
            if error.state not in _FORGOTTEN:
                raise
        again = await self._prepare(sql)
        return list(_rows(await self._sent(lambda: self._libpq.send_query_prepared(again, values)), bytes))

    async def _prepare(self, sql: str) -> bytes:
        self._made += 1
        name = b"s%d" % self._made
        await self._sent(lambda: self._libpq.send_prepare(name, sql.encode()))
        self._names[sql] = name
        return name

    async def _remember(self, sql: str) -> None:
        """Record a text that was run. If there are too many, drop one."""
        self._names[sql] = b""
        if len(self._names) > MAX_PREPARED:
            _, name = self._names.popitem(last=False)
            if name:
                await self._sent(lambda: self._libpq.send_query(b"DEALLOCATE " + name))

    async def _sent(self, send: Send) -> PGresult:
        """Return the result of the request that `send` sends."""
        assert self._loop is not None
        answered = self._answered = self._loop.create_future()
        timer = None if self._seconds is None else self._loop.call_later(self._seconds + GRACE, self._fail, _QUIET)
        try:
            send()
            self._flush()
            await answered
        except OperationalError as error:
            raise StatementError(str(error)) from error
        finally:
            self._answered = None
            if timer is not None:
                timer.cancel()
        results, self._results = self._results, []
        return self._checked(results[0])

    def _flush(self) -> None:
        """Send pending data; send the rest when the socket accepts it."""
        assert self._loop is not None
        if self._libpq.flush():
            self._loop.add_writer(self._descriptor, self._send_rest)

    def _send_rest(self) -> None:
        try:
            if self._libpq.flush():
                return
        except OperationalError as error:
            self._fail(str(error))
        if self._loop is not None:
            self._loop.remove_writer(self._descriptor)

    def _receive(self) -> None:
        """Read from the socket: the end of the running statement, or of the connection."""
        try:
            self._libpq.consume_input()
            while not self._libpq.is_busy():
                found = self._libpq.get_result()
                if found is not None:
                    self._results.append(found)
                    continue
                if self._answered is not None and not self._answered.done() and self._results:
                    self._answered.set_result(None)
                return
        except OperationalError as error:
            self._fail(str(error))

    def _fail(self, message: str) -> None:
        """Mark the connection as unusable."""
        on_end = self._on_end
        self.detach()
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(StatementError(message))
        elif on_end is not None:
            on_end()

    # the end

    def cancel(self) -> None:
        """Cancel the running statement on the server; the calling thread waits for the confirmation."""
        with contextlib.suppress(OperationalError):  # the server is gone, and the statement with it
            self._libpq.get_cancel().cancel()

    def detach(self) -> None:
        """Leave the loop. The connection runs no more statements there."""
        if self._loop is not None:
            self._loop.remove_reader(self._descriptor)
            self._loop.remove_writer(self._descriptor)
            os.close(self._descriptor)
        self._loop = self._on_end = None

    @property
    def is_attached(self) -> bool:
        """Return whether the connection can run another statement on its loop, as known so far."""
        return self._loop is not None

    def close(self) -> None:
        """Close the connection. It may be closed already."""
        self.detach()
        self._libpq.finish()

    def _checked(self, result: PGresult) -> PGresult:
        if result.status in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
            return result
        state = result.error_field(DiagnosticField.SQLSTATE)
        raise StatementError(result.get_error_message(), (state or b"").decode())


def _rows(result: PGresult, text: Callable[[bytes], Any]) -> Iterator[Row]:
    decoders = [_DECODED.get(result.ftype(i), text) for i in range(result.nfields)]
    for row in range(result.ntuples):
        found = ((result.get_value(row, i), d) for i, d in enumerate(decoders))
        yield tuple(None if v is None else d(v) for v, d in found)


def _bound(value: Any) -> bytes | None:
    """Return a stored value in Postgres's text form. The statement determines its type."""
    match value:
        case None:
            return None
        case bool():
            return b"true" if value else b"false"
        case str():
            return value.encode()
        case int():
            return b"%d" % value
        case float():
            return repr(value).encode()
        case bytes():
            return b"\\x" + value.hex().encode()
    raise TypeError(f"a value of {type(value).__name__} cannot be bound")
