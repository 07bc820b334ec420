"""Gzip compression of answers, for clients that accept it (`Accept-Encoding`).

In: an ASGI application. Out: one that compresses complete bodies above a minimum size. Streams are not compressed: each
event is sent at once.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MIN_BYTES, MAX_BYTES_AT_ONCE = 1_000, 64_000
"""Bytes: shorter bodies are not compressed, longer ones are compressed in a thread."""
LEVEL = 4
_TEXT = (
    "text/",
    "application/json",
    "application/graphql-response+json",
    "application/problem+json",
    "application/openapi+json",
)
_REFUSED = re.compile(rb"gzip\s*;\s*q\s*=\s*0(\.0*)?\s*(,|$)")


class Compressed:
    """An application whose answers are compressed."""

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        accepted = next((value for name, value in scope.get("headers", ()) if name == b"accept-encoding"), b"")
        if scope["type"] != "http" or b"gzip" not in accepted or _REFUSED.search(accepted):
            await self._app(scope, receive, send)
            return
        held: list[Message] = []

        async def compressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                held.append(message)
                return
            for start in held:
                if not message.get("more_body") and _is_worth_it(start, message):
                    message = {**message, "body": await _gzip(message["body"])}
                    _set_headers(start, len(message["body"]))
                await send(start)
            held.clear()
            await send(message)

        await self._app(scope, receive, compressed)


def _is_worth_it(start: Message, message: Message) -> bool:
    headers = MutableHeaders(raw=start["headers"])
    kind = headers.get("content-type", "")
    return len(message.get("body", b"")) >= MIN_BYTES and kind.startswith(_TEXT) and "content-encoding" not in headers


def _set_headers(start: Message, length: int) -> None:
    headers = MutableHeaders(raw=start["headers"])
    headers["content-encoding"], headers["content-length"] = "gzip", str(length)
    headers.add_vary_header("accept-encoding")
    start["headers"] = headers.raw


async def _gzip(body: Any) -> bytes:
    return _deflated(body) if len(body) <= MAX_BYTES_AT_ONCE else await asyncio.to_thread(_deflated, body)


def _deflated(body: Any) -> bytes:
    made = zlib.compressobj(LEVEL, wbits=31)  # 31: the largest window, in gzip's frame
    return made.compress(body) + made.flush()
