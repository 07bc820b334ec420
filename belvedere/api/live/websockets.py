"""GraphQL over WebSocket: the protocol `graphql-transport-ws` of the library graphql-ws.

In: a WebSocket, and a function that runs an operation. Out: its messages. Web pages cannot send headers with a
WebSocket, so the token may also come in `connection_init`, as `{"authorization": "Bearer TOKEN"}`. When the token
expires, the connection is closed with 4403, and clients reconnect with a new token.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from belvedere.api.failures import BAD_REQUEST, INTERNAL, NOT_ALLOWED, RequestError
from belvedere.api.http.graphql_requests import GraphQLRequest, checked
from belvedere.api.live.event_streams import INTERRUPTED, StreamMessage
from belvedere.api.reads.int64_as_text import NUMBER, TEXT
from belvedere.intake.claims import Claims
from belvedere.values.json_numbers import loads

PROTOCOL = "graphql-transport-ws"
INIT_SECONDS = 10.0
"""Maximum seconds until `connection_init` arrives."""
MAX_LEEWAY_SECONDS = 600.0
"""Maximum seconds that a token is accepted after its expiry (`leeway_seconds`); such a token is checked again at each
operation.
"""
MAX_OPERATIONS = 100
"""Maximum number of running operations of one connection."""
INVALID, NO_TOKEN, OVER, NO_PROTOCOL, LATE, TAKEN, TWICE, GOING = 4400, 4401, 4403, 4406, 4408, 4409, 4429, 1001

Admit = Callable[[str | None], Claims | None]
"""Function from a token to its claims, or to None if it is not valid. Without a token: the claims of the handshake."""
Serve = Callable[[GraphQLRequest, Claims], Awaitable[AsyncIterator[StreamMessage]]]


class _Closed(Exception):
    """A violation of the protocol by the client."""

    def __init__(self, code: int, reason: str):
        super().__init__(reason)
        self.code, self.reason = code, reason


class WebSocketSession:
    """One connection."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, admit: Admit, serve: Serve):
        self._socket = WebSocket(scope, receive, send)
        self._admit, self._serve = admit, serve
        self._claims: Claims | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._expiring: asyncio.Task[None] | None = None
        self._longs: bool | None = None

    async def run(self) -> None:
        """Serve until the client or the server ends it."""
        spoken = PROTOCOL in self._socket.scope.get("subprotocols", ())
        await self._socket.accept(PROTOCOL if spoken else None)
        try:
            if not spoken:
                raise _Closed(NO_PROTOCOL, "Subprotocol not acceptable")
            try:
                first = await asyncio.wait_for(self._message(), INIT_SECONDS)
            except TimeoutError:
                raise _Closed(LATE, "Connection initialisation timeout") from None
            await self._begin(first)
            while True:
                await self._handle(await self._message())
        except _Closed as closed:
            await self._socket.close(closed.code, closed.reason)
        except (WebSocketDisconnect, RuntimeError):  # it was closed while something was sent
            pass
        finally:
            for task in (*self._tasks.values(), *([self._expiring] if self._expiring is not None else [])):
                task.cancel()

    async def end(self) -> None:
        """Notify the client that this server is shutting down."""
        await self._socket.close(GOING, "Going away")

    async def _begin(self, message: Mapping[str, Any]) -> None:
        if message["type"] != "connection_init":
            raise _Closed(NO_TOKEN, "Unauthorized")
        payload = message.get("payload") or {}
        given = payload.get("authorization") or payload.get("Authorization") if isinstance(payload, dict) else None
        wish = payload.get("longs") if isinstance(payload, dict) else None
        self._longs = wish == TEXT if wish in (TEXT, NUMBER) else None
        self._claims = self._admit(given if isinstance(given, str) else None)
        if self._claims is None:
            raise _Closed(NO_TOKEN, "Unauthorized")
        await self._send({"type": "connection_ack"})
        expires = self._claims.get("exp")
        if isinstance(expires, int | float):
            self._expiring = asyncio.create_task(
                self._expire(expires if expires > time.time() else expires + MAX_LEEWAY_SECONDS)
            )

    async def _expire(self, when: float) -> None:
        """Wait until the token expires, then end the operations and the connection."""
        while (left := when - time.time()) > 0:
            await asyncio.sleep(min(left, 3600.0))
        for name, task in list(self._tasks.items()):
            task.cancel()
            await self._fail(
                name,
                RequestError(NOT_ALLOWED, "the token of this connection has expired", "connect again with a new one"),
            )
        await self._socket.close(OVER, "Forbidden")

    async def _message(self) -> dict[str, Any]:
        try:
            found = loads(await self._socket.receive_text())
        except (ValueError, RecursionError, KeyError):
            found = None
        if not isinstance(found, dict) or not isinstance(found.get("type"), str):
            raise _Closed(INVALID, "Invalid message received")
        return found

    async def _handle(self, message: Mapping[str, Any]) -> None:
        kind, name = message["type"], message.get("id")
        if kind == "ping":
            await self._send({"type": "pong"} | ({"payload": message["payload"]} if message.get("payload") else {}))
        elif kind == "connection_init":
            raise _Closed(TWICE, "Too many initialisation requests")
        elif kind == "complete" and isinstance(name, str):
            if name in self._tasks:
                self._tasks.pop(name).cancel()
        elif kind == "subscribe" and isinstance(name, str) and name:
            if name in self._tasks:
                raise _Closed(TAKEN, f"Subscriber for {name[:50]} already exists")
            self._tasks[name] = asyncio.create_task(self._answer(name, message.get("payload")))
        elif kind != "pong":
            raise _Closed(INVALID, "Invalid message received")

    async def _answer(self, name: str, payload: Any) -> None:
        try:
            if len(self._tasks) > MAX_OPERATIONS:
                raise RequestError(
                    BAD_REQUEST, f"more than {MAX_OPERATIONS} operations on one connection", "wait until some end"
                )
            asked = replace(checked(payload), longs=self._longs)
            async for reported in await self._serve(asked, self._claims or {}):
                if reported is INTERRUPTED:  # the connection is closed
                    return
                if reported.body:  # passed on unchanged from the database
                    await self._socket.send_text(
                        f'{{"id":{json.dumps(name)},"type":"next","payload":{reported.body.decode()}}}'
                    )
            self._tasks.pop(name, None)
            await self._send({"id": name, "type": "complete"})
        except RequestError as error:
            await self._fail(name, error)
            if error.status == 401:  # the token is no longer valid: its key was removed
                await self._socket.close(OVER, "Forbidden")
        except (WebSocketDisconnect, RuntimeError):
            self._tasks.pop(name, None)
        except Exception:
            await self._fail(name, RequestError(INTERNAL, "the request failed inside the server"))

    async def _fail(self, name: str, error: RequestError) -> None:
        self._tasks.pop(name, None)
        await self._send({"id": name, "type": "error", "payload": error.formatted()})

    async def _send(self, message: Mapping[str, Any]) -> None:
        await self._socket.send_text(json.dumps(message))
