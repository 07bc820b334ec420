"""The ASGI application of a catalog: access checks, and the endpoint for each request. GraphQL and REST bypass
Starlette, other requests use it.

In: a catalog and a function that opens its store. Out: an ASGI application. It creates the parts that its routes share;
it starts no process and binds no port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from belvedere.api.access.gate import Gate, ServerSettings
from belvedere.api.agents.mcp_server import ModelContext
from belvedere.api.failures import ENDING, RequestError
from belvedere.api.graphql.endpoint import GraphqlEndpoint
from belvedere.api.http.compression import Compressed
from belvedere.api.http.cross_origin import CrossOrigin
from belvedere.api.http.graphql_requests import JSON, errors_of
from belvedere.api.http.metrics import Metrics
from belvedere.api.http.pushes import problem_answer
from belvedere.api.http.route_rights import Needed, Ways
from belvedere.api.http.routes import routed, routes
from belvedere.api.http.served_api import ServedApi
from belvedere.api.http.store_reads import StoreReads
from belvedere.api.http.unexpected_errors import guarded
from belvedere.api.live.event_streams import EventStreams
from belvedere.api.live.sse import is_passing, no_events_yet
from belvedere.api.reads.provenance import Provenance
from belvedere.api.reads.role_view import RoleViews
from belvedere.api.rest.endpoint import RestEndpoint
from belvedere.api.serving.lazy_reader import LazyReader
from belvedere.api.serving.served_store import ServedStore
from belvedere.catalog.access import Right
from belvedere.catalog.catalog import Catalog
from belvedere.intake.wire import IngestClient
from belvedere.store.protocol import AnsweringReader, Reader


class Application:
    """The ASGI application of one catalog. The store may be created after the application."""

    def __init__(
        self,
        catalog: Catalog,
        open_reader: Callable[[], AnsweringReader],
        settings: ServerSettings | None = None,
        metrics: Metrics | None = None,
        ingest_service: IngestClient | None = None,
        open_whole: Callable[[], Reader] | None = None,
        heals: bool = False,
    ):
        """`open_whole` opens a reader of tables; without it, requests for the origin of rows are rejected.

        `heals`: the process that started this one runs epochs, and retries views in quarantine on request.
        """
        settings = settings or ServerSettings()
        self._gate = Gate(settings, catalog.access.grants)
        self.served = served = _served(
            catalog, open_reader, settings, metrics, ingest_service, open_whole, heals, self._gate.is_closed
        )
        self._graphql, self._rest = GraphqlEndpoint(served, self._gate, self._page), RestEndpoint(served)
        self.routes = routes(served, self._graphql, self._rest, ModelContext(served, self._graphql.first))
        self._ways, self._others = Ways(self.routes), routed(self.routes)
        self._reading, self._pushing = (
            Compressed(CrossOrigin(guarded(self._respond), origins, settings.headers))
            for origins in (settings.origins, settings.pushing)
        )
        self._direct = Compressed(guarded(self._respond))
        self._ending = False
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("path") == "/graphql/":  # the form of many frameworks
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
        """Return the application that answers a request.

        Requests without Origin skip CORS. POST answers are not cached, so they need no Vary header.
        """
        if scope["method"] == "POST" and all(name != b"origin" for name, _ in scope["headers"]):
            return self._direct
        return self._pushing if self._needed(scope) in (Right.PUSH, Right.ADMIN) else self._reading

    def _needed(self, scope: Scope) -> Needed:
        """Return the right that a request needs; a CORS preflight needs what its request needs."""
        if scope.get("method") != "OPTIONS":
            return self._ways.needed(scope)
        asked = next((value for name, value in scope["headers"] if name == b"access-control-request-method"), b"GET")
        return self._ways.needed(scope, asked.decode("latin-1").upper())

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
            await self._rest(scope, receive, send)
        else:
            await self._others(scope, receive, send)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        await self._gate.look_for_key(headers)
        refused = _ends() if self._ending else self._gate.enter(scope, headers, self._ways.needed(scope))
        if refused is not None or scope["path"] != "/graphql":
            await send({"type": "websocket.close", "code": 1008})  # before it was accepted: answered with 403
            return
        await self._graphql.session(scope, receive, send)

    async def _page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the console's page."""
        await self._others({**scope, "path": "/", "raw_path": b"/"}, receive, send)

    @property
    def is_idle(self) -> bool:
        """Return whether no request is running."""
        return self._under_way == 0

    async def end(self, seconds: float) -> None:
        """Finish the running requests within `seconds`. New requests are rejected with 503, and streams end."""
        self._ending = True
        self.served.streams.end()
        await self._graphql.end()
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        await asyncio.sleep(0.05)  # connections that wait to be accepted get an answer, too
        while self._under_way and clock() < until:
            await asyncio.sleep(0.01)
        self.served.store.reader.close()
        self.served.provenance.close()


def _served(
    catalog: Catalog,
    open_reader: Callable[[], AnsweringReader],
    settings: ServerSettings,
    metrics: Metrics | None,
    ingest_service: IngestClient | None,
    open_whole: Callable[[], Reader] | None,
    heals: bool,
    closed: bool,
) -> ServedApi:
    """Return the parts that the routes share. `closed`: callers need a token."""
    metrics, ingest_service = metrics or Metrics(endpoints=catalog.endpoints), ingest_service or IngestClient(None)
    store = ServedStore(open_reader, settings.threads)
    roles = RoleViews(catalog, store, settings.limits, ingest_service.ask, closed, settings.longs)
    reads = StoreReads(store, roles.all.api, metrics)
    streams = EventStreams(store.last_epoch, reads.body, store.in_planner)
    whole = None if open_whole is None else LazyReader(open_whole)
    provenance = Provenance(catalog, roles.all.api.model, whole, store.in_thread)
    return ServedApi(catalog, settings, metrics, ingest_service, store, roles, reads, streams, provenance, heals)


def _ends() -> RequestError:
    return RequestError(ENDING, "this server is shutting down", "ask again a little later", status=503)


def _refused(scope: Scope, headers: Mapping[bytes, bytes], error: RequestError) -> Response:
    """Return a rejection in the media type that the client requested."""
    path = scope["path"]
    if scope["method"] == "GET" and path.endswith("/events") and is_passing(error, headers.get(b"accept", b"")):
        return no_events_yet()
    return (
        Response(errors_of(error), error.status, error.headers, JSON) if path == "/graphql" else problem_answer(error)
    )
