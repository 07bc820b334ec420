"""Connections of a serving process: how many there may be, how large a request's head, and how long a request may take to come.

In: bytes of a socket. Out: HTTP requests for uvicorn. A client that opens connections and says nothing is cut off, one too many is
answered with 503.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST = 2_000
"""Connections of a process."""
HEAD_SECONDS = 10.0
"""So long the head of a request may take to come, from when the connection was made or its first byte was read."""
BODY_SECONDS = 60.0
"""So long its body may take to come."""
HEAD_BYTES = 64_000
"""So many bytes a request's head has at most, or a little more where they come at once."""
IDLE_SECONDS = 30
"""So long a connection is kept without a request."""

_FULL = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_SLOW = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Connection(HttpToolsProtocol):
    """uvicorn's connection, bounded."""

    _head = 0
    _is_head = True
    _coming: float | None = HEAD_SECONDS
    """So long what is coming may take; None between two requests."""
    _waiting: float | None = None
    """The same, as far as there is a timer for it."""
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._coming = HEAD_SECONDS
        if len(self.connections) > MOST:
            self._refuse(_FULL)
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._coming = None
        self._wait()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._head += len(data) if self._is_head else 0
        super().data_received(data)
        if self._is_head and self._head > HEAD_BYTES:
            self._refuse(_LARGE)
        elif self._coming is not self._waiting:  # most requests come at once: no timer is made for them
            self._wait()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_head, self._coming = True, HEAD_SECONDS

    def on_headers_complete(self) -> None:
        self._is_head, self._coming = False, BODY_SECONDS
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_head, self._head, self._coming = True, 0, None
        if self._timer is not None:
            self._wait()

    def _wait(self) -> None:
        """Have a timer for what is coming, and no other."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if self._coming is None else self.loop.call_later(self._coming, self._refuse, _SLOW)
        self._waiting = self._coming

    def _refuse(self, answer: bytes) -> None:
        self._coming = None
        self._wait()
        if not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.close()
