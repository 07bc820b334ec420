"""The HTTP side: `/graphql`, `/streams`, `/status`, `/healthz`, `/readyz`, `/metrics`, `/schema.graphql` and the console at `/`.

In: a catalog and how to open its store. Out: an ASGI application. GraphQL requests take a short way of their own (GraphQL over
HTTP, draft of 2025); everything else goes through Starlette. It starts no process and binds no port.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import parse_qs

from graphql import print_schema
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

import belvedere.console
from belvedere.api.event_streams import EventStreams
from belvedere.api.failures import BAD_REQUEST, INTERNAL, NOT_ALLOWED, NOT_READY, RequestError
from belvedere.api.graphql import Api
from belvedere.api.lazy_reader import LazyReader
from belvedere.api.limits import Limits
from belvedere.api.metrics import Metrics
from belvedere.api.mutations import Mutations
from belvedere.api.origins import is_foreign
from belvedere.api.pushes import AGAIN, CLAIMS, problem_answer, push_routes, read_body
from belvedere.api.status import STATE_FIGURES, state_figures, status_of
from belvedere.api.tokens import TokenRules, TokenVerifier
from belvedere.catalog import Catalog
from belvedere.errors import BelvedereError
from belvedere.intake.claims import Claims
from belvedere.intake.wire import DeskClient
from belvedere.store.dialects import DIALECTS
from belvedere.store.protocol import EpochRow, Reader

T = TypeVar("T")

JSON = "application/json"
EVENTS = "text/event-stream"
GRAPHQL = "application/graphql-response+json"
PROTECTED = ("/graphql", "/metrics", "/schema.graphql", "/streams", "/status")
"""Paths that need the token, where there is one."""
GUARDED = ("/graphql", "/streams")
"""Paths that foreign web pages may not ask."""
QUICK = 0.003
"""Seconds: a plan that last took less runs where the request was read, any other in a thread."""
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})


@dataclass(frozen=True)
class ServerSettings:
    """How to serve. `hosts`, where given, are the only names in `Host` that are answered: on a loopback address this
    refuses foreign web pages (DNS rebinding). `token`, where given, must come as `Authorization: Bearer`, or one
    that counts by the rules of `tokens`.
    """

    limits: Limits = field(default_factory=Limits)
    token: str | None = None
    origins: tuple[str, ...] = ()
    hosts: frozenset[str] | None = None
    threads: int = 8
    tokens: TokenRules | None = None

    @property
    def pushing(self) -> tuple[str, ...]:
        """The origins whose pages may push: only those that the project file names."""
        return tuple(o for o in self.origins if o != "*")


class Application:
    """The ASGI application of one catalog. The store may come to be after the application."""

    def __init__(
        self,
        catalog: Catalog,
        open_reader: Callable[[], Reader],
        settings: ServerSettings | None = None,
        metrics: Metrics | None = None,
        desk: DeskClient | None = None,
    ):
        self.desk = desk or DeskClient(None)
        self.settings = settings or ServerSettings()
        self.metrics = metrics or Metrics()
        self._lazy = LazyReader(open_reader)
        self.api = Api(catalog, self._lazy, self.settings.limits)
        self._mutations = Mutations(self.api.lenient, self.api.model.pushes, self.desk.ask, self.last_epoch)
        self._streams = EventStreams(
            self.api, self.last_epoch, lambda prepared: self._in_thread(lambda: self.api.run(prepared))
        )
        self._threads = ThreadPoolExecutor(self.settings.threads, thread_name_prefix="read")
        self._token = self.settings.token.encode() if self.settings.token else None
        self._verifier = TokenVerifier(self.settings.tokens) if self.settings.tokens else None
        self._others = _routes(self, catalog)
        self._reading, self._pushing = self._cross_origin(self.settings.origins), self._cross_origin(self.settings.pushing)

    def _cross_origin(self, origins: tuple[str, ...]) -> CORSMiddleware:
        named = ("authorization", "content-type", "idempotency-key")
        return CORSMiddleware(self._respond, origins, ("GET", "POST"), named, expose_headers=("retry-after",))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._others(scope, receive, send)
        elif scope["path"].startswith("/streams"):
            await self._pushing(scope, receive, send)
        else:
            await self._reading(scope, receive, send)

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        scope[CLAIMS] = self._claims(headers)
        refused = self._refusal(scope, headers)
        if refused is not None:
            await _refused(scope["path"], refused)(scope, receive, send)
        elif scope["path"] == "/graphql":
            await self._graphql(scope, headers, receive, send)
        else:
            await self._others(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Mapping[bytes, bytes]) -> RequestError | None:
        settings = self.settings
        if settings.hosts is not None and _host(headers.get(b"host", b"")) not in settings.hosts:
            hint = "use localhost or 127.0.0.1 in the URL"
            return RequestError(NOT_ALLOWED, "this server answers to its own names only", hint, status=421)
        if scope["method"] == "OPTIONS":
            return None
        if scope["path"].startswith(GUARDED):
            allowed = settings.origins if scope["path"] == "/graphql" else settings.pushing
            try:
                self._refuse_foreign(scope["method"], headers, allowed)
            except RequestError as error:
                return error
        closed = self._token is not None or self._verifier is not None
        if closed and scope[CLAIMS] is None and scope["path"].startswith(PROTECTED):
            hint = "send the header `Authorization: Bearer TOKEN`"
            return RequestError(NOT_ALLOWED, "this request carries no valid token", hint, status=401)
        return None

    def _claims(self, headers: Mapping[bytes, bytes]) -> Mapping[str, Any] | None:
        """What the caller's token says: nothing for the token of `[api]`; None for a caller without a valid one."""
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        if self._token is not None and hmac.compare_digest(given, self._token):
            return {}
        return None if self._verifier is None else self._verifier.claims(given.decode("latin-1"))

    # GraphQL over HTTP

    async def _graphql(self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        media = GRAPHQL if GRAPHQL.encode() in headers.get(b"accept", b"") else JSON
        if scope["method"] == "OPTIONS":
            await Response(status_code=204)(scope, receive, send)
            return
        if scope["method"] == "GET" and not scope["query_string"] and b"text/html" in headers.get(b"accept", b""):
            await self._others({**scope, "path": "/", "raw_path": b"/"}, receive, send)
            return
        outcome = 0
        try:
            text, variables, name = await self._asked(scope, headers, receive)
            claims = scope[CLAIMS] or {}
            if self.api.find(text, name, variables)[0].subscribes:
                events = await self._stream(text, variables, name, claims, headers)
                self.metrics.count(0, time.perf_counter() - started)
                await events(scope, receive, send)
                return
            body, status = await self._answer(text, variables, name, claims, lambda: self._may_push(scope, headers)), 200
        except RequestError as error:
            body = _errors(error)
            # the older media type says 200 for what is well-formed HTTP; the newer one has a status for each failure
            status = (
                200 if media is JSON and error.code not in (BAD_REQUEST, NOT_READY) and error.status == 400 else error.status
            )
            outcome = 3 if error.code == NOT_READY else 2 if error.status >= 500 else 1
        except Exception:
            body, status, outcome = _errors(RequestError(INTERNAL, "the request failed inside the server")), 500, 2
        await Response(body, status, AGAIN if status == 503 else None, media)(scope, receive, send)
        self.metrics.count(outcome, time.perf_counter() - started)

    async def _asked(
        self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive
    ) -> tuple[str, dict[str, Any], str | None]:
        if scope["method"] == "GET":
            return _from_query_string(scope["query_string"])
        if scope["method"] != "POST":
            raise RequestError(BAD_REQUEST, f"/graphql does not take {scope['method']}", "use POST or GET", status=405)
        kind = headers.get(b"content-type", b"").decode("latin-1").split(";")[0].strip().lower()
        if kind not in (JSON, GRAPHQL):
            raise RequestError(BAD_REQUEST, "the body must be JSON", "send `Content-Type: application/json`", status=415)
        return _checked(_json(await read_body(Request(scope, receive), self.settings.limits.size)))

    def _may_push(self, scope: Scope, headers: Mapping[bytes, bytes]) -> None:
        """Raise where a request may not push, as under `/streams`."""
        if scope["method"] != "POST":
            raise RequestError(BAD_REQUEST, f"a mutation cannot be sent by {scope['method']}", "use POST", status=405)
        self._refuse_foreign(scope["method"], headers, self.settings.pushing)

    @staticmethod
    def _refuse_foreign(method: str, headers: Mapping[bytes, bytes], allowed: tuple[str, ...]) -> None:
        if "*" not in allowed and is_foreign(method, headers, allowed):
            hint = "name the page's origin in `cors_origins` under `[api]`"
            raise RequestError(NOT_ALLOWED, "this request comes from a foreign web page", hint, status=403)

    async def _stream(
        self, text: str, variables: dict[str, Any], name: str | None, claims: Claims, headers: Mapping[bytes, bytes]
    ) -> Response:
        if EVENTS.encode() not in headers.get(b"accept", b""):
            hint = f"send `Accept: {EVENTS}`, or ask with a query"
            raise RequestError(BAD_REQUEST, "a subscription is answered as a stream of events", hint, status=406)
        operation, literals = self.api.find(text, name, variables)
        await self._in_thread(lambda: self._lazy.dialect)
        events = await self._streams.stream(operation, literals, variables, claims)
        return StreamingResponse(events, media_type=EVENTS, headers={"cache-control": "no-store"})

    async def _answer(
        self, text: str, variables: dict[str, Any], name: str | None, claims: Claims, may_push: Callable[[], None]
    ) -> bytes:
        api = self.api
        operation, literals = api.find(text, name, variables)
        if operation.mutates:
            may_push()
            return await self._mutations.answer(operation.document, name, variables, claims)
        if operation.introspects:
            api.check_introspection()
            return await self._in_thread(lambda: api.introspect(operation, literals, variables, claims))
        if not self._lazy.is_open:
            await self._in_thread(lambda: self._lazy.dialect)
        prepared = api.operations.prepare(operation, literals, variables, claims)
        self.metrics.missed(api.operations.misses)
        plan = prepared.plan
        if plan.calls and plan.last < QUICK and DIALECTS[api.reader.dialect].near:
            return api.run(prepared)
        return await self._in_thread(lambda: api.run(prepared))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def last_epoch(self) -> EpochRow | None:
        """The last committed epoch, or None while there is none; raises `RequestError` where the store is away."""
        try:
            return await self._in_thread(self._lazy.last_epoch)
        except BelvedereError:
            return None
        except RequestError as error:
            if error.code != NOT_READY:
                raise
            return None


def _from_query_string(text: bytes) -> tuple[str, dict[str, Any], str | None]:
    try:
        fields = parse_qs(text.decode("ascii"), keep_blank_values=True, max_num_fields=20, errors="strict")
    except ValueError:
        raise RequestError(BAD_REQUEST, "the query string cannot be read") from None
    if "query" not in fields:
        raise RequestError(BAD_REQUEST, "the query string has no `query`", "write `/graphql?query={...}`, or send a POST")
    asked: dict[str, Any] = {"query": fields["query"][0]}
    if fields.get("operationName", [""])[0]:
        asked["operationName"] = fields["operationName"][0]
    if fields.get("variables", [""])[0]:
        asked["variables"] = _json(fields["variables"][0])
    return _checked(asked)


def _json(text: bytes | str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise RequestError(BAD_REQUEST, "the body is not JSON", 'send `{"query": "{ ... }"}`') from None


def _checked(asked: Any) -> tuple[str, dict[str, Any], str | None]:
    if isinstance(asked, list):
        raise RequestError(BAD_REQUEST, "several requests in one body are not answered", "ask for all in one `query`")
    if not isinstance(asked, dict) or not isinstance(asked.get("query"), str):
        raise RequestError(BAD_REQUEST, "the body has no `query`", 'send `{"query": "{ ... }", "variables": {...}}`')
    variables, name = asked.get("variables"), asked.get("operationName")
    if variables is not None and not isinstance(variables, dict):
        raise RequestError(BAD_REQUEST, "`variables` is not an object")
    if name is not None and not isinstance(name, str):
        raise RequestError(BAD_REQUEST, "`operationName` is not a string")
    return asked["query"], variables or {}, name


def _errors(error: RequestError) -> bytes:
    return json.dumps({"errors": error.formatted()}).encode()


def _refused(path: str, error: RequestError) -> Response:
    """A refusal in the form of what was asked."""
    return problem_answer(error) if path.startswith("/streams") else Response(_errors(error), error.status, media_type=JSON)


def _host(header: bytes) -> str:
    text = header.decode("latin-1")
    return text.rpartition(":")[0] if ":" in text and not text.endswith("]") else text


# everything but GraphQL


def _routes(application: Application, catalog: Catalog) -> Starlette:
    folder = belvedere.console.__path__[0]
    limits = application.settings.limits

    async def health(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def ready(request: Request) -> Response:
        row = await application.last_epoch()
        if row is None:
            return PlainTextResponse("no epoch was committed yet\n", 503, AGAIN)
        return PlainTextResponse(f"epoch {row.epoch}\n")

    async def metrics(request: Request) -> Response:
        try:
            row = await application.last_epoch()
        except RequestError:  # the counts are known all the same
            row = None
        committed = None if row is None or row.committed_at is None else row.committed_at.timestamp()
        freshness = None if committed is None else max(0.0, time.time() - committed)
        figures = {} if row is None else state_figures(row)
        gauges = [(f"belvedere_state_{n}", STATE_FIGURES[n], value) for n, value in figures.items()]
        text = application.metrics.text(None if row is None else row.epoch, freshness, gauges)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def status(request: Request) -> Response:
        return JSONResponse(status_of(catalog, await application.last_epoch(), application.desk.is_open))

    async def failed(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestError | BelvedereError)
        return problem_answer(error)

    async def schema(request: Request) -> Response:
        if not limits.introspection:
            return PlainTextResponse("this API does not describe itself\n", 403)
        return PlainTextResponse(print_schema(application.api.schema) + "\n")

    async def console(request: Request) -> Response:
        return await StaticFiles(directory=folder).get_response("index.html", request.scope)

    return Starlette(
        routes=[
            Route("/", console),
            Route("/healthz", health),
            Route("/readyz", ready),
            Route("/metrics", metrics),
            Route("/schema.graphql", schema),
            Route("/status", status),
            *push_routes(catalog, application.desk, limits.push, limits.push_rows),
            Mount("/console", StaticFiles(directory=folder)),
        ],
        exception_handlers={RequestError: failed, BelvedereError: failed},
    )
