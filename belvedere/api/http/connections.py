"""Connections of a serving process: limits on their number, on the size of a request's header, and on the time of a
request.

In: bytes of a socket. Out: HTTP requests for uvicorn. A silent client is disconnected, and a connection above the limit
is answered with 503. Rejections are problem documents (RFC 9457), as everywhere else.
"""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from belvedere.api.failures import BAD_REQUEST, LIMIT_EXCEEDED
from belvedere.intake.ingest_service import problem

MAX_CONNECTIONS = 2_000
"""Maximum number of connections of a process."""
HEAD_SECONDS = 10.0
"""Maximum seconds until a request's header is complete, from the connection or from its first byte."""
BODY_SECONDS = 60.0
"""Maximum seconds until a request's body is complete."""
HEAD_BYTES = 64_000
"""Maximum bytes of a request's header: its URL and header fields."""
LINE_BYTES = 8_000
"""Maximum bytes of the URL or of a header field in a WebSocket handshake."""
IDLE_SECONDS = 30
"""Seconds after which an idle connection is closed."""
LINGER_SECONDS = 1.0
"""Maximum seconds to read and discard a client's input after a rejection: otherwise its system may discard the answer
unread.
"""


def _refusal(status: int, code: str, message: str, hint: str | None = None, more: bytes = b"") -> bytes:
    body = json.dumps(problem(status, code, message, hint)).encode()
    return (
        b"HTTP/1.1 %d %b\r\ncontent-type: application/problem+json\r\n%bcontent-length: %d\r\nconnection: "
        b"close\r\n\r\n%b" % (status, HTTPStatus(status).phrase.encode(), more, len(body), body)
    )


_FULL = _refusal(503, LIMIT_EXCEEDED, "too many connections", "ask again a little later", b"retry-after: 1\r\n")
_LARGE = _refusal(
    431, LIMIT_EXCEEDED, f"the request's header has more than {HEAD_BYTES} bytes", "send fewer or shorter headers"
)
_LONG = _refusal(414, LIMIT_EXCEEDED, "the request's URL is too long", "send the query in the body of a POST")
_SLOW = _refusal(408, LIMIT_EXCEEDED, "the request did not arrive in time")
_UNREADABLE = _refusal(400, BAD_REQUEST, "the request is not HTTP")


class Connection(HttpToolsProtocol):
    """uvicorn's connection with these limits."""

    _head = 0
    """Bytes read of an incomplete header."""
    _whole = 0
    """Bytes of the header up to its last complete field."""
    _is_head = True
    _coming: float | None = HEAD_SECONDS
    """Seconds left for the input that is expected; None between two requests."""
    _waiting: float | None = None
    """The value of `_coming` for which the timer is set."""
    _timer: asyncio.TimerHandle | None = None
    _is_refused = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._coming = HEAD_SECONDS
        if len(self.connections) > MAX_CONNECTIONS:
            self._refuse(_FULL, 0.0)
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._coming = None
        self._wait()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:  # input that arrives after the rejection
            return
        self._head += len(data) if self._is_head else 0
        super().data_received(data)
        if self._is_head and self._head > HEAD_BYTES:
            self._refuse_head()
        elif self._coming is not self._waiting:  # most requests arrive in one piece and need no timer
            self._wait()

    def eof_received(self) -> None:
        if self._is_refused:
            self.transport.close()
        else:
            super().eof_received()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_head, self._whole, self._coming = True, 0, HEAD_SECONDS

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._whole += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._whole += len(name) + len(value) + 4

    def on_headers_complete(self) -> None:
        self._is_head, self._coming = False, BODY_SECONDS
        if self._whole > HEAD_BYTES or self._is_long_handshake():
            self._refuse_head()
        if not self._is_refused:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._is_refused:
            super().on_message_complete()
            self._is_head, self._head, self._coming = True, 0, None
        if self._timer is not None:
            self._wait()

    def handle_websocket_upgrade(self) -> None:
        if not self._is_refused:
            super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        self._refuse(_UNREADABLE)

    def _is_long_handshake(self) -> bool:
        """Return whether this is a WebSocket handshake with a line too long for the WebSocket library."""
        if not (self.parser.should_upgrade() and self._should_upgrade()):
            return False
        return len(self.url) > LINE_BYTES or any(len(name) + len(value) > LINE_BYTES for name, value in self.headers)

    def _refuse_head(self) -> None:
        self._refuse(_LONG if len(self.url) > LINE_BYTES and len(self.url) > self._whole / 2 else _LARGE)

    def _wait(self) -> None:
        """Set a timer for the expected input, and cancel the one before."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if self._coming is None else self.loop.call_later(self._coming, self._refuse, _SLOW)
        self._waiting = self._coming

    def _refuse(self, answer: bytes, linger: float = LINGER_SECONDS) -> None:
        self._coming = None
        self._wait()
        if self._is_refused or self.transport.is_closing():
            return
        self._is_refused = True
        self.transport.write(answer)
        if not linger:
            self.transport.close()
            return
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()
        self.loop.call_later(linger, self.transport.close)
