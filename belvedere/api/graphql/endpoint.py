"""`/graphql`: the ASGI application of GraphQL, over HTTP and WebSockets.

In: requests that the gate has admitted. Out: answers by the GraphQL-over-HTTP specification, event streams, sessions.
New operations are parsed, validated and planned in a thread, so that they do not block other requests.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from belvedere.api.access.callers import check_right
from belvedere.api.access.gate import Gate
from belvedere.api.failures import BAD_REQUEST, INTERNAL, NOT_READY, RequestError
from belvedere.api.graphql.api import Api
from belvedere.api.graphql.operations import Operation, Prepared
from belvedere.api.http import etags
from belvedere.api.http.client_disconnects import Departure
from belvedere.api.http.graphql_requests import JSON, GraphQLRequest, asked_of, errors_of, media_of, status_of_error
from belvedere.api.http.pushes import CLAIMS
from belvedere.api.http.served_api import ServedApi
from belvedere.api.live.event_streams import How, StreamMessage
from belvedere.api.live.sse import EVENTS, graphql_events, takes_events_alone
from belvedere.api.live.websockets import WebSocketSession
from belvedere.api.reads.role_view import RoleView
from belvedere.catalog.access import Right
from belvedere.intake.claims import Claims

Headers = Mapping[bytes, bytes]


class GraphqlEndpoint:
    """Answers GraphQL for one application. `page` answers a browser that sends no query."""

    def __init__(self, served: ServedApi, gate: Gate, page: ASGIApp):
        self._served, self._gate, self._page = served, gate, page
        self._sessions: set[WebSocketSession] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, headers, metrics = time.perf_counter(), dict(scope["headers"]), self._served.metrics
        media = media_of(headers)
        if scope["method"] == "OPTIONS":
            await Response(status_code=204, headers={"allow": "GET, POST, OPTIONS"})(scope, receive, send)
            return
        if scope["method"] == "GET" and not scope["query_string"] and b"text/html" in headers.get(b"accept", b""):
            await self._page(scope, receive, send)
            return
        outcome, events_alone = 0, takes_events_alone(headers.get(b"accept", b""))
        try:
            asked = await asked_of(scope, headers, receive, self._served.settings.limits.size)
            asked = replace(asked, longs=self._served.longs(headers))
            claims = scope[CLAIMS] or {}
            if events_alone:
                reported = await self.answers(asked, claims, lambda: self._check_push(scope, headers))
                metrics.count(0, time.perf_counter() - started)
                await graphql_events(reported)(scope, receive, send)
                return
            seen, operation, literals = await self._found(asked, claims)
            if operation.subscribes:
                events = await self._stream(seen, operation, literals, asked, claims, headers)
                metrics.count(0, time.perf_counter() - started)
                await events(scope, receive, send)
                return
            if operation.mutates:
                self._check_push(scope, headers)
                answer = Response(await self._pushed(seen, operation, asked, claims), media_type=media)
            else:
                known = headers.get(b"if-none-match")
                with Departure(receive) as client:
                    answer = await self._read(seen, operation, literals, asked, claims, media, known, scope["method"])
                if client.is_gone:
                    return
        except RequestError as error:
            if events_alone and error.status in (400, 403):
                answer = graphql_events(
                    _once(errors_of(error))
                )  # GraphQL over SSE: as an event, which a client can read
            else:
                answer = Response(errors_of(error), status_of_error(error, media), error.headers, media)
            outcome = 3 if error.code == NOT_READY else 2 if error.status >= 500 else 1
        except Exception:
            failed = RequestError(INTERNAL, "the request failed inside the server", status=500)
            answer, outcome = Response(errors_of(failed), 500, media_type=media), 2
        await answer(scope, receive, send)
        metrics.count(outcome, time.perf_counter() - started)

    async def session(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the operations of one WebSocket until it ends."""
        headers = dict(scope["headers"])
        longs = self._served.longs(headers) if b"prefer" in headers else None

        async def serve(asked: GraphQLRequest, claims: Claims) -> AsyncIterator[StreamMessage]:
            self._gate.count_operation(scope)
            asked = replace(asked, longs=longs if asked.longs is None else asked.longs)
            return await self.answers(asked, claims, lambda: self._check_push({**scope, "method": "POST"}, headers))

        session = WebSocketSession(scope, receive, send, lambda given: self._gate.admitted(scope, given), serve)
        self._sessions.add(session)
        try:
            await session.run()
        finally:
            self._sessions.discard(session)

    async def end(self) -> None:
        """End all sessions."""
        for session in list(self._sessions):
            with contextlib.suppress(RuntimeError):
                await session.end()

    async def answers(
        self, asked: GraphQLRequest, claims: Claims, may_push: Callable[[], None]
    ) -> AsyncIterator[StreamMessage]:
        """Yield the answers of an operation: one for a query or mutation, many for a subscription."""
        seen, operation, literals = await self._found(asked, claims)
        if operation.subscribes:
            return await self._events(seen, operation, literals, asked, claims)
        if operation.mutates:
            may_push()
            return _once(await self._pushed(seen, operation, asked, claims))
        answer = await self._read(seen, operation, literals, asked, claims, JSON, None, "POST")
        return _once(bytes(answer.body))

    async def first(self, asked: GraphQLRequest, claims: Claims) -> bytes:
        """Return the answer of a query."""
        return (await anext(await self.answers(asked, claims, lambda: None))).body

    async def _found(self, asked: GraphQLRequest, claims: Claims) -> tuple[RoleView, Operation, list[Any]]:
        """Return the caller's view of the model, and the operation. Raises if the caller has no right to it."""
        seen = await self._served.roles.view_of(claims)
        found = seen.api.known(asked.text, asked.name, asked.variables)
        if found is None:
            found = await self._served.store.in_planner(lambda: seen.api.find(asked.text, asked.name, asked.variables))
        operation, literals = found
        check_right(claims, Right.PUSH if operation.mutates else Right.READ)
        return seen, operation, literals

    def _how(self, asked: GraphQLRequest) -> How:
        return How(asked.whole, self._served.settings.longs if asked.longs is None else asked.longs)

    # mutations

    def _check_push(self, scope: Scope, headers: Headers) -> None:
        """Raise if a request may not push, by the same checks as `/streams`."""
        if scope["method"] != "POST":
            message = f"a mutation cannot be sent by {scope['method']}"
            raise RequestError(BAD_REQUEST, message, "use POST", status=405, headers={"allow": "POST"})
        self._gate.refuse_foreign(scope["method"], headers, self._served.settings.pushing)

    async def _pushed(self, seen: RoleView, operation: Operation, asked: GraphQLRequest, claims: Claims) -> bytes:
        longs = self._how(asked).longs
        return await seen.mutations.answer(operation.document, asked.name, asked.variables, claims, longs)

    # subscriptions

    async def _stream(
        self,
        seen: RoleView,
        operation: Operation,
        literals: list[Any],
        asked: GraphQLRequest,
        claims: Claims,
        headers: Headers,
    ) -> Response:
        if EVENTS.encode() not in headers.get(b"accept", b""):
            hint = f"send `Accept: {EVENTS}`, or ask with a query"
            raise RequestError(BAD_REQUEST, "a subscription is returned as a stream of events", hint, status=406)
        return graphql_events(await self._events(seen, operation, literals, asked, claims))

    async def _events(
        self, seen: RoleView, operation: Operation, literals: list[Any], asked: GraphQLRequest, claims: Claims
    ) -> AsyncIterator[StreamMessage]:
        await self._served.store.opened()
        streams, how = self._served.streams, self._how(asked)
        return await streams.stream(seen.api, operation, literals, asked.variables, claims, how)

    # queries

    async def _read(
        self,
        seen: RoleView,
        operation: Operation,
        literals: list[Any],
        asked: GraphQLRequest,
        claims: Claims,
        media: str,
        known: bytes | None,
        method: str,
    ) -> Response:
        """Return the answer of a query. Answers to GET have an entity tag; if the client has that answer, it is not
        read again."""
        api, store = seen.api, self._served.store
        if operation.introspects:
            api.check_introspection()
            body = await store.in_planner(lambda: api.introspect(operation, literals, asked.variables, claims))
            return Response(body, media_type=media)
        if not store.reader.is_open:
            await store.opened()
        prepared = await self._prepared(api, operation, literals, asked.variables, claims)
        if self._how(asked).longs:
            prepared = replace(prepared, longs=True)
        if method == "GET":
            return await self._tagged(prepared, known or b"", media, seen)
        return Response(await self._served.reads.body(prepared), media_type=media)

    async def _tagged(self, prepared: Prepared, known: bytes, media: str, seen: RoleView) -> Response:
        """Return the answer of a read with its entity tag, or 304 if the client has it.

        Tags differ between callers that see different rows.
        """
        api = seen.mark(prepared)
        if known and etags.matches(known, tag := etags.tag_of(await self._served.store.last_epoch(), api)):
            return Response(status_code=304, headers=etags.HEADERS | {"etag": tag or ""})
        answer = await self._served.reads.run(prepared)
        headers = etags.HEADERS | {"etag": etags.entity_tag(answer.epoch, answer.committed, api)}
        return Response(answer.body, headers=headers, media_type=media)

    async def _prepared(
        self, api: Api, operation: Operation, literals: list[Any], variables: Mapping[str, Any], claims: Claims
    ) -> Prepared:
        operations = api.operations
        known = operations.known_plan(operation, literals, variables, claims)
        if known is not None:
            return known
        prepared = await self._served.store.in_planner(
            lambda: operations.prepare(operation, literals, variables, claims)
        )
        self._served.metrics.missed(operations.misses)
        return prepared


async def _once(body: bytes) -> AsyncIterator[StreamMessage]:
    yield StreamMessage(body)
