"""Connections that run statements on an event loop: a limited number, each for one statement at a time.

In: a function that connects, and statements. Out: rows. Callers wait in turn while all connections are busy. If a
caller is cancelled, its statement is cancelled in Postgres too. This module does not interpret errors.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from threading import Thread

from belvedere.errors import fail
from belvedere.store.dialects.postgres.postgres_statements import Row, StatementConnection

Turn = asyncio.Future[StatementConnection | None]
"""Result for a waiter: a connection, or permission to create one."""


class LoopConnections:
    """The connections of the first loop that uses them. If another loop uses them, they are closed and recreated."""

    def __init__(self, connect: Callable[[], StatementConnection], most: int):
        self._connect, self._most = connect, most
        self._idle: list[StatementConnection] = []
        self._waiting: deque[Turn] = deque()
        self._number = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    async def fetch(self, sql: str, parameters: Sequence[object]) -> list[Row]:
        """Return the rows of one statement."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._begin(loop)
        connection = self._idle.pop() if self._idle else await self._lent(loop)
        try:
            rows = await connection.fetch(sql, parameters)
        except asyncio.CancelledError:
            self._drop(connection, cancelled=True)
            raise
        except BaseException:
            self._give_back(connection)
            raise
        self._give_back(connection)
        return rows

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, idle = loop, self._idle
        self._idle, self._waiting, self._number = [], deque(), 0
        for connection in idle:
            connection.close()

    async def _lent(self, loop: asyncio.AbstractEventLoop) -> StatementConnection:
        """Return a connection when none is idle."""
        while not self._closed:
            if self._number < self._most:
                return await self._made(loop)
            turn: Turn = loop.create_future()
            self._waiting.append(turn)
            try:
                connection = await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():  # the waiter got its turn at the same time
                    self._pass_on(turn.result())
                raise
            if connection is not None:
                return connection
        raise fail("B7015", "this reader is closed")

    async def _made(self, loop: asyncio.AbstractEventLoop) -> StatementConnection:
        self._number += 1
        making = loop.run_in_executor(None, self._connect)
        try:
            connection = await asyncio.shield(making)
        except BaseException:
            self._number -= 1
            making.add_done_callback(_close_late)
            self._pass_on(None)
            raise
        connection.attach(loop, lambda: self._ended(connection))
        return connection

    def _give_back(self, connection: StatementConnection) -> None:
        if connection.is_attached and not self._closed:
            self._pass_on(connection)
        else:
            self._drop(connection)

    def _pass_on(self, connection: StatementConnection | None) -> None:
        """Pass a connection to the longest waiter. None: one connection less exists."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(connection)
                return
        if connection is not None:
            self._idle.append(connection)

    def _drop(self, connection: StatementConnection, cancelled: bool = False) -> None:
        self._number -= 1
        connection.detach()
        if cancelled:
            Thread(target=_cancel, args=(connection,), daemon=True).start()
        else:
            connection.close()
        self._pass_on(None)

    def _ended(self, connection: StatementConnection) -> None:
        """Handle the end of an idle connection by the server."""
        if connection in self._idle:
            self._idle.remove(connection)
            self._drop(connection)

    def forget(self) -> None:
        """Close idle connections."""
        while self._idle:
            self._drop(self._idle.pop())

    def close(self) -> None:
        """Close idle connections. Lent ones are closed when they are returned."""
        self._closed = True
        self.forget()
        while self._waiting:
            self._pass_on(None)


def _cancel(connection: StatementConnection) -> None:
    connection.cancel()
    connection.close()


def _close_late(making: asyncio.Future[StatementConnection]) -> None:
    """Close a connection that was made after its caller had gone."""
    if not making.cancelled() and making.exception() is None:
        making.result().close()
