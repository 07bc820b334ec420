"""The HTTP side: an ASGI application for a catalog. GraphQL and REST take a short way, everything else goes through Starlette.

In: a catalog and how to open its store. Out: an ASGI application. What is parsed, validated or planned for the first time is so in a
thread: no request holds up the others. It starts no process and binds no port.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from belvedere.api.access.callers import check_right, grant_of
from belvedere.api.access.gate import Gate, ServerSettings
from belvedere.api.agents.mcp_server import ModelContext
from belvedere.api.failures import BAD_REQUEST, ENDING, INTERNAL, NOT_FOUND, NOT_READY, RequestError
from belvedere.api.graphql.endpoint import QUICK, Answer, Api
from belvedere.api.graphql.mutations import Mutations
from belvedere.api.graphql.operations import Operation, Prepared
from belvedere.api.http import etags
from belvedere.api.http.client_disconnects import Departure
from belvedere.api.http.compression import Compressed
from belvedere.api.http.cross_origin import CrossOrigin
from belvedere.api.http.graphql_requests import JSON, Asked, asked_of, errors_of, media_of, status_of_error
from belvedere.api.http.metrics import Metrics
from belvedere.api.http.pushes import CLAIMS, problem_answer
from belvedere.api.http.route_rights import Needed, Ways
from belvedere.api.http.routes import routed, routes
from belvedere.api.http.status import seen_status, status_of
from belvedere.api.http.unexpected_errors import guarded
from belvedere.api.live.event_streams import EventStreams, How, StreamMessage
from belvedere.api.live.sse import EVENTS, graphql_events, is_passing, no_events_yet, takes_events_alone
from belvedere.api.live.websockets import WebSocketSession
from belvedere.api.reads.long_texts import longs_asked
from belvedere.api.reads.provenance import Provenance, Question, check_may_ask
from belvedere.api.reads.role_catalog import seen_catalog
from belvedere.api.reads.role_view import Seen
from belvedere.api.rest.endpoint import RestEndpoint
from belvedere.api.serving.lazy_reader import LazyReader
from belvedere.catalog.catalog import Catalog, Grant, Right
from belvedere.errors import BelvedereError
from belvedere.intake.claims import Claims
from belvedere.intake.wire import DeskClient
from belvedere.store.definitions import epoch_from_values
from belvedere.store.dialects import DIALECTS
from belvedere.store.protocol import AnsweringReader, EpochRow, Reader
from belvedere.store.system import LAST_EPOCH

T = TypeVar("T")

CHOICE = "_choice"
"""The document in which a store keeps its views at read: that of `belvedere.pipeline.placement`, which is loaded when it is asked for."""

PLANNERS = 2
"""Threads that parse, validate and plan."""
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
__all__ = ["LOCAL_HOSTS", "Application", "ServerSettings"]


class Application:
    """The ASGI application of one catalog. The store may come to be after the application. `open_whole` opens a reader of tables; without
    it there is nobody to say where rows come from.
    """

    def __init__(
        self,
        catalog: Catalog,
        open_reader: Callable[[], AnsweringReader],
        settings: ServerSettings | None = None,
        metrics: Metrics | None = None,
        desk: DeskClient | None = None,
        open_whole: Callable[[], Reader] | None = None,
        heals: bool = False,
    ):
        """`heals`: the process that started this one runs epochs, and hears when views in quarantine are to be tried again."""
        self.heals, self.catalog = heals, catalog
        self.desk = desk or DeskClient(None)
        self.settings = settings or ServerSettings()
        self.metrics = metrics or Metrics(endpoints=catalog.endpoints)
        self._lazy = LazyReader(open_reader)
        self._catalog, self._gate = catalog, Gate(self.settings, catalog.grants)
        self._seen: dict[str | None, Seen] = {}
        self.api = self._see(None).api
        """All that there is; it reads for all."""
        self._whole = None if open_whole is None else LazyReader(open_whole)
        self.streams = EventStreams(self.last_epoch, self._body, self.in_planner)
        self._threads = ThreadPoolExecutor(self.settings.threads, thread_name_prefix="read")
        self._planners = ThreadPoolExecutor(PLANNERS, thread_name_prefix="plan")
        self.rest = RestEndpoint(self, self._run, self._opened)
        self._model_context = ModelContext(
            self.seen, self._first, self.why, self.settings.limits.size, self.in_planner, self.longs
        )
        self.routes = routes(self, catalog, self._graphql, self._model_context)
        self._ways, self._others = Ways(self.routes), routed(self.routes)
        self._reading, self._pushing = self._outer(self.settings.origins), self._outer(self.settings.pushing)
        self._direct = Compressed(guarded(self._respond))
        self._ending = False
        self._under_way = 0
        self._sessions: set[WebSocketSession] = set()

    def _outer(self, origins: tuple[str, ...]) -> ASGIApp:
        return Compressed(CrossOrigin(guarded(self._respond), origins, self.settings.headers))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("path") == "/graphql/":  # as many frameworks write their own
            scope = {**scope, "path": "/graphql", "raw_path": b"/graphql"}
        if scope["type"] != "http":
            await (self._websocket if scope["type"] == "websocket" else self._others)(scope, receive, send)
            return
        self._under_way += 1
        try:
            await self._way_in(scope)(scope, receive, send)
        finally:
            self._under_way -= 1

    def _way_in(self, scope: Scope) -> ASGIApp:
        """What answers a request. CORS is of no interest to who is no web page; no cache keeps the answer to a POST, so that it need not
        say that it varies.
        """
        if scope["method"] == "POST" and all(name != b"origin" for name, _ in scope["headers"]):
            return self._direct
        return self._pushing if self._needed(scope) in (Right.PUSH, Right.ADMIN) else self._reading

    def _needed(self, scope: Scope) -> Needed:
        """What a request needs; one that asks for leave needs what the request that it is about does."""
        if scope.get("method") != "OPTIONS":
            return self._ways.needed(scope)
        asked = next((value for name, value in scope["headers"] if name == b"access-control-request-method"), b"GET")
        return self._ways.needed(scope, asked.decode("latin-1").upper())

    @property
    def is_idle(self) -> bool:
        """Whether no request is under way."""
        return self._under_way == 0

    async def end(self, seconds: float) -> None:
        """Answer what is under way, at most so long; what comes now is refused with 503, and streams end."""
        self._ending = True
        self.streams.end()
        for session in list(self._sessions):
            with contextlib.suppress(RuntimeError):
                await session.end()
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        await asyncio.sleep(0.05)  # connections that wait to be accepted have their answer, too
        while self._under_way and clock() < until:
            await asyncio.sleep(0.01)
        self._lazy.close()
        if self._whole is not None:
            self._whole.close()

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        await self._gate.look_for_key(headers)
        refused = _ends() if self._ending else self._gate.enter(scope, headers, self._ways.needed(scope))
        if refused is not None or scope["path"] != "/graphql":
            await send({"type": "websocket.close", "code": 1008})  # before it was accepted: answered with 403
            return

        async def serve(asked: Asked, claims: Claims) -> AsyncIterator[StreamMessage]:
            self._gate.count_operation(scope)
            asked = replace(asked, longs=longs if asked.longs is None else asked.longs)
            return await self.told(asked, claims, lambda: self._check_push({**scope, "method": "POST"}, headers))

        longs = self.longs(headers) if b"prefer" in headers else None
        session = WebSocketSession(scope, receive, send, lambda given: self._gate.admitted(scope, given), serve)
        self._sessions.add(session)
        try:
            await session.run()
        finally:
            self._sessions.discard(session)

    async def told(self, asked: Asked, claims: Claims, may_push: Callable[[], None]) -> AsyncIterator[StreamMessage]:
        """What any operation answers, one by one: a query and a mutation once."""
        seen = await self.seen(claims)
        operation, literals = await self._found(asked, seen)
        check_right(claims, Right.PUSH if operation.mutates else Right.READ)
        if operation.subscribes:
            await self._opened()
            return await self.streams.stream(seen.api, operation, literals, asked.variables, claims, self._how(asked))
        if operation.mutates:
            may_push()
            return _once(
                await seen.mutations.answer(operation.document, asked.name, asked.variables, claims, self._how(asked).longs)
            )
        answer = await self._read(seen, operation, literals, asked, claims, JSON, None, {"method": "POST"})
        return _once(bytes(answer.body))

    def longs(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether a request wants whole numbers of 64 bits as texts."""
        return longs_asked(headers.get(b"prefer", b"").decode("latin-1"), self.settings.longs)

    def _how(self, asked: Asked) -> How:
        return How(asked.whole, self.settings.longs if asked.longs is None else asked.longs)

    async def why(self, seen: Seen, asked: Question) -> dict[str, Any]:
        """What a row was made of, or where it was lost."""
        check_may_ask(seen.catalog)
        if self._whole is None:
            raise RequestError(NOT_FOUND, "this server does not say where rows come from", status=404)
        provenance = Provenance(self._catalog, self.api.model, self._whole)
        return await self._in_thread(lambda: provenance.answer(asked))

    async def _first(self, asked: Asked, claims: Claims) -> bytes:
        """The answer of a query."""
        return (await anext(await self.told(asked, claims, lambda: None))).body

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        if self._gate.has_keys:
            await self._gate.look_for_key(headers)
        refused = _ends() if self._ending else self._gate.enter(scope, headers, self._needed(scope))
        if refused is not None:
            await _refused(scope, headers, refused)(scope, receive, send)
        elif scope["path"] == "/graphql":
            await self._graphql(scope, receive, send)
        elif f"{scope['path']}/".startswith("/rest/"):
            await self.rest(scope, receive, send)
        else:
            await self._others(scope, receive, send)

    # GraphQL over HTTP

    async def _graphql(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, headers = time.perf_counter(), dict(scope["headers"])
        media = media_of(headers)
        if scope["method"] == "OPTIONS":
            await Response(status_code=204, headers={"allow": "GET, POST, OPTIONS"})(scope, receive, send)
            return
        if scope["method"] == "GET" and not scope["query_string"] and b"text/html" in headers.get(b"accept", b""):
            await self._others({**scope, "path": "/", "raw_path": b"/"}, receive, send)
            return
        outcome, events_alone = 0, takes_events_alone(headers.get(b"accept", b""))
        try:
            asked = await asked_of(scope, headers, receive, self.settings.limits.size)
            asked = replace(asked, longs=self.longs(headers))
            claims = scope[CLAIMS] or {}
            if events_alone:
                told = await self.told(asked, claims, lambda: self._check_push(scope, headers))
                self.metrics.count(0, time.perf_counter() - started)
                await graphql_events(told)(scope, receive, send)
                return
            seen = await self.seen(claims)
            operation, literals = await self._found(asked, seen)
            check_right(claims, Right.PUSH if operation.mutates else Right.READ)
            if operation.subscribes:
                events = await self._stream(seen, operation, literals, asked, claims, headers)
                self.metrics.count(0, time.perf_counter() - started)
                await events(scope, receive, send)
                return
            if operation.mutates:
                self._check_push(scope, headers)
                body = await seen.mutations.answer(
                    operation.document, asked.name, asked.variables, claims, self._how(asked).longs
                )
                answer = Response(body, media_type=media)
            else:
                known = headers.get(b"if-none-match")
                with Departure(receive) as client:
                    answer = await self._read(seen, operation, literals, asked, claims, media, known, scope)
                if client.is_gone:
                    return
        except RequestError as error:
            if events_alone and error.status in (400, 403):
                answer = graphql_events(_once(errors_of(error)))  # GraphQL over SSE: as an event, which a client can read
            else:
                answer = Response(errors_of(error), status_of_error(error, media), error.headers, media)
            outcome = 3 if error.code == NOT_READY else 2 if error.status >= 500 else 1
        except Exception:
            failed = RequestError(INTERNAL, "the request failed inside the server", status=500)
            answer, outcome = Response(errors_of(failed), 500, media_type=media), 2
        await answer(scope, receive, send)
        self.metrics.count(outcome, time.perf_counter() - started)

    async def seen(self, claims: Claims) -> Seen:
        """What a caller sees."""
        grant = grant_of(self._catalog, claims)
        found = self._seen.get(None if grant is None else grant.role)
        return await self.in_planner(lambda: self._see(grant)) if found is None else found

    def _see(self, grant: Grant | None) -> Seen:
        catalog = self._catalog if grant is None else seen_catalog(self._catalog, grant)
        api = Api(catalog, self._lazy, self.settings.limits)
        mutations = Mutations(api.lenient, api.model.pushes, self.desk.ask, self.last_epoch)
        return self._seen.setdefault(
            None if grant is None else grant.role, Seen(catalog, api, mutations, self._gate.is_closed, self.settings.longs)
        )

    async def _found(self, asked: Asked, seen: Seen) -> tuple[Operation, list[Any]]:
        known = seen.api.known(asked.text, asked.name, asked.variables)
        if known is not None:
            return known
        return await self.in_planner(lambda: seen.api.find(asked.text, asked.name, asked.variables))

    def _check_push(self, scope: Scope, headers: Mapping[bytes, bytes]) -> None:
        """Raise where a request may not push, as under `/streams`."""
        if scope["method"] != "POST":
            message = f"a mutation cannot be sent by {scope['method']}"
            raise RequestError(BAD_REQUEST, message, "use POST", status=405, headers={"allow": "POST"})
        self._gate.refuse_foreign(scope["method"], headers, self.settings.pushing)

    async def _stream(
        self,
        seen: Seen,
        operation: Operation,
        literals: list[Any],
        asked: Asked,
        claims: Claims,
        headers: Mapping[bytes, bytes],
    ) -> Response:
        if EVENTS.encode() not in headers.get(b"accept", b""):
            hint = f"send `Accept: {EVENTS}`, or ask with a query"
            raise RequestError(BAD_REQUEST, "a subscription is answered as a stream of events", hint, status=406)
        await self._opened()
        told = await self.streams.stream(seen.api, operation, literals, asked.variables, claims, self._how(asked))
        return graphql_events(told)

    async def _read(
        self,
        seen: Seen,
        operation: Operation,
        literals: list[Any],
        asked: Asked,
        claims: Claims,
        media: str,
        known: bytes | None,
        scope: Scope,
    ) -> Response:
        """The answer of a query. That of a GET has a tag; where the client has it already, it is not read again."""
        api = seen.api
        if operation.introspects:
            api.check_introspection()
            body = await self.in_planner(lambda: api.introspect(operation, literals, asked.variables, claims))
            return Response(body, media_type=media)
        if not self._lazy.is_open:
            await self._opened()
        prepared = await self._prepared(api, operation, literals, asked.variables, claims)
        if self._how(asked).longs:
            prepared = replace(prepared, longs=True)
        if scope["method"] == "GET":
            return await self.tagged(prepared, known or b"", media, seen)
        return Response((await self._run(prepared)).body, media_type=media)

    async def tagged(self, prepared: Prepared, known: bytes, media: str, seen: Seen) -> Response:
        """The answer of a read with its entity tag, or that a client has it. What another caller would be told has another tag."""
        api = seen.mark(prepared)
        if known and etags.matches(known, tag := etags.tag_of(await self.last_epoch(), api)):
            return Response(status_code=304, headers=etags.HEADERS | {"etag": tag or ""})
        answer = await self._run(prepared)
        headers = etags.HEADERS | {"etag": etags.entity_tag(answer.epoch, answer.committed, api)}
        return Response(answer.body, headers=headers, media_type=media)

    async def _prepared(
        self, api: Api, operation: Operation, literals: list[Any], variables: Mapping[str, Any], claims: Claims
    ) -> Prepared:
        operations = api.operations
        known = operations.known_plan(operation, literals, variables, claims)
        if known is not None:
            return known
        prepared = await self.in_planner(lambda: operations.prepare(operation, literals, variables, claims))
        self.metrics.missed(operations.misses)
        return prepared

    async def _run(self, prepared: Prepared) -> Answer:
        plan, started = prepared.plan, time.perf_counter()
        if self._lazy.is_on_loop:
            answer = await self.api.fetch(prepared, self._lazy.fetch)
        elif plan.calls and plan.last < QUICK and DIALECTS[self._lazy.dialect].near:
            answer = self.api.read(prepared)
        else:
            answer = await self._in_thread(lambda: self.api.read(prepared))
        self.metrics.read(plan.endpoints, time.perf_counter() - started)
        return answer

    async def _body(self, prepared: Prepared) -> bytes:
        return (await self._run(prepared)).body

    async def _opened(self) -> None:
        if not self._lazy.is_open:
            await self._in_thread(lambda: self._lazy.dialect)

    def status(self, row: EpochRow | None, seen: Catalog) -> dict[str, Any]:
        """The status after an epoch, as far as a caller with that catalog may see it."""
        found = status_of(self._catalog, row, self.desk.is_open)
        return seen_status(found | {"store": "away" if self._lazy.is_away else "here"}, seen)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def in_planner(self, work: Callable[[], T]) -> T:
        """Do what takes this process's time alone where it holds nobody up."""
        return await asyncio.get_running_loop().run_in_executor(self._planners, work)

    async def last_epoch(self) -> EpochRow | None:
        """The last committed epoch, or None while there is none; raises `RequestError` where the store is away."""
        try:
            if not self._lazy.is_on_loop:
                return await self._in_thread(self._lazy.last_epoch)
            rows = await self._lazy.fetch(LAST_EPOCH)
            return epoch_from_values(rows[0]) if rows else None
        except BelvedereError:
            return None
        except RequestError as error:
            if error.code != NOT_READY:
                raise
            return None

    async def choice(self) -> str | None:
        """The store's document of what the database computes when it is read; None where it has none, or there is no store yet."""
        try:
            return await self._in_thread(lambda: self._lazy.document(CHOICE))
        except RequestError as error:
            if error.code != NOT_READY:
                raise
            return None


async def _once(body: bytes) -> AsyncIterator[StreamMessage]:
    yield StreamMessage(body)


def _ends() -> RequestError:
    return RequestError(ENDING, "this server ends", "ask again a little later", status=503)


def _refused(scope: Scope, headers: Mapping[bytes, bytes], error: RequestError) -> Response:
    """A refusal in the form of what was asked."""
    path = scope["path"]
    if scope["method"] == "GET" and path.endswith("/events") and is_passing(error, headers.get(b"accept", b"")):
        return no_events_yet()
    return Response(errors_of(error), error.status, error.headers, JSON) if path == "/graphql" else problem_answer(error)
