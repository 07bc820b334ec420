"""Connections of a reader, lent to one thread at a time.

In: a function that connects. Out: connections. It runs no SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, LifoQueue
from threading import Lock
from typing import Any

from belvedere.errors import fail

IDLE_CONNECTIONS = 8


class Pool:
    """Connections that are lent to one thread at a time: as many as there are threads, few of them kept."""

    def __init__(self, connect: Callable[[], Any]):
        self._connect = connect
        self._idle: LifoQueue[Any] = LifoQueue(IDLE_CONNECTIONS)
        self._lock = Lock()
        self._closed = False

    @contextmanager
    def lend(self) -> Iterator[Any]:
        if self._closed:
            raise fail("B7015", "this reader is closed")
        try:
            connection = self._idle.get_nowait()
        except Empty:
            connection = self._connect()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)

    def _give_back(self, connection: Any) -> None:
        with self._lock:
            if not self._closed and not self._idle.full():
                self._idle.put_nowait(connection)
                return
        connection.close()

    def close(self) -> bool:
        """Close what is idle; what is lent closes when it comes back. Returns whether it was open."""
        with self._lock:
            was_open, self._closed = not self._closed, True
        self.forget()
        return was_open

    def forget(self) -> None:
        """Close what is idle."""
        while True:
            try:
                self._idle.get_nowait().close()
            except Empty:
                return
