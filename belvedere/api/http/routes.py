"""The URLs of the API, and the right that each needs: GraphQL, REST, `/streams`, descriptions, monitoring, the console.

In: the parts of an application. Out: routes with their endpoints. The gate checks rights before a route is called.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp

from belvedere.api.failures import AGAIN, BAD_REQUEST, NOT_ALLOWED, NOT_FOUND, RequestError
from belvedere.api.graphql.endpoint import GraphqlEndpoint
from belvedere.api.http.console_routes import console_routes
from belvedere.api.http.pushes import CLAIMS, problem_answer, push_routes
from belvedere.api.http.quarantine_retry import healing_routes
from belvedere.api.http.route_rights import Mount, Route, RouteNeed
from belvedere.api.http.served_api import ServedApi
from belvedere.api.http.status import STATE_FIGURES, state_figures
from belvedere.api.http.unexpected_errors import handled
from belvedere.api.http.view_metrics import view_metrics
from belvedere.api.live.sse import events_of, is_passing, no_events_yet, plain_events
from belvedere.catalog.access import Right
from belvedere.catalog.catalog import Catalog
from belvedere.errors import BelvedereError
from belvedere.store.protocol import EpochRow


def routes(served: ServedApi, graphql: GraphqlEndpoint, rest: ASGIApp, mcp: ASGIApp) -> list[Route | Mount]:
    """Return the routes of an application; `graphql`, `rest` and `mcp` answer all methods at their URLs."""
    limits = served.settings.limits
    return [
        Route("/graphql", graphql, right=RouteNeed.ASKED, methods=None),
        Mount("/rest", rest, right=Right.READ),
        Route("/mcp", mcp, right=Right.READ, methods=None),
        *_watched(served),
        *_described(served),
        *console_routes(served),
        Route("/streams/{name}/events", partial(_events, served, graphql), right=Right.READ, methods=["GET"]),
        *healing_routes(served),
        *push_routes(served.roles.view_of, served.ingest_service, limits.push, limits.push_rows),
    ]


def routed(of: Sequence[Route | Mount]) -> Starlette:
    """Return the application of these routes; errors are problem documents (RFC 9457).

    A URL with an extra slash is not found: a redirect would contain a host that the client chose.
    """
    handlers: Any = {RequestError: _failed, BelvedereError: _failed, HTTPException: _refused, Exception: handled}
    made = Starlette(routes=of, exception_handlers=handlers)
    made.router.redirect_slashes = False
    return made


async def _failed(request: Request, error: RequestError | BelvedereError) -> Response:
    return problem_answer(error)


async def _refused(request: Request, error: HTTPException) -> Response:
    """Return the answer to a request that Starlette rejects: an unknown URL, or a method that it does not accept."""
    headers = error.headers
    if error.status_code == 405:
        allowed = ", ".join(sorted((headers or {}).get("Allow", "").split(", ")))
        message = f"{request.url.path[:100]} does not accept {request.method[:20]}"
        return problem_answer(RequestError(BAD_REQUEST, message, f"use {allowed}", status=405, headers=headers))
    if error.status_code == 404:
        return problem_answer(not_there(request.url.path))
    return problem_answer(RequestError(BAD_REQUEST, error.detail, status=error.status_code, headers=headers))


def not_there(path: str) -> RequestError:
    """Return the error of an unknown URL."""
    hint = (
        f"ask {path[:100].rstrip('/')}" if path.endswith("/") and path.strip("/") else "`/openapi.json` lists all paths"
    )
    return RequestError(NOT_FOUND, f"there is no resource at {path[:100]}", hint, status=404)


def _watched(served: ServedApi) -> list[Route]:
    """Return the routes for monitoring."""

    async def health(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def ready(request: Request) -> Response:
        if served.metrics.is_standby:
            return PlainTextResponse("standby\n", 503, AGAIN)
        row = await served.store.last_epoch()
        if row is None:
            return PlainTextResponse("no epoch is committed yet\n", 503, AGAIN)
        return PlainTextResponse(f"epoch {row.epoch}\n")

    async def metrics(request: Request) -> Response:
        try:
            row = await served.store.last_epoch()
        except RequestError:  # the counters do not need the store
            row = None
        seen = await served.role_view(request)
        reported = await served.store.in_planner(lambda: served.status(row, seen.catalog))
        text = _metrics_text(served, row, seen.catalog) + view_metrics(reported, row)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def status(request: Request) -> Response:
        row, seen = await served.store.last_epoch(), await served.role_view(request)
        return JSONResponse(await served.store.in_planner(lambda: served.status(row, seen.catalog)))

    return [
        Route("/healthz", health, right=RouteNeed.WATCHED),
        Route("/readyz", ready, right=RouteNeed.WATCHED),
        Route("/metrics", metrics, right=Right.STATUS),
        Route("/status", status, right=Right.STATUS),
    ]


def _described(served: ServedApi) -> list[Route]:
    """Return the routes that describe the API."""
    introspection = served.settings.limits.introspection

    async def schema(request: Request) -> Response:
        if not introspection:
            return PlainTextResponse("introspection is switched off\n", 403)
        seen = await served.role_view(request)
        return PlainTextResponse(await served.store.in_planner(lambda: seen.schema_text))

    async def openapi(request: Request) -> Response:
        if not introspection:
            raise RequestError(NOT_ALLOWED, "introspection is switched off", status=403)
        seen = await served.role_view(request)
        return Response(await served.store.in_planner(lambda: seen.openapi_text), media_type="application/json")

    return [Route("/schema.graphql", schema, right=Right.READ), Route("/openapi.json", openapi, right=Right.READ)]


async def _events(served: ServedApi, graphql: GraphqlEndpoint, request: Request) -> Response:
    """Return the events of a subscription as server-sent events."""
    given, last = dict(request.query_params), request.headers.get("last-event-id")
    seen, claims = await served.role_view(request), request.scope.get(CLAIMS) or {}
    model, described = seen.api.model, seen.api.schema
    if described.subscription_type is None:
        raise RequestError("B6012", "the script has no subscription", status=404)
    asked, field = events_of(model, described, request.path_params["name"], given, last)
    asked = replace(asked, longs=served.longs(dict(request.scope["headers"])))
    try:
        reported = await graphql.answers(asked, claims, lambda: None)
    except RequestError as error:
        if is_passing(error, request.headers.get("accept", "").encode()):
            return no_events_yet()
        raise
    return plain_events(reported, field)


def _metrics_text(served: ServedApi, row: EpochRow | None, seen: Catalog) -> str:
    """Return this server's counters, the age of its last epoch, and the epoch's figures of the state; for a role only
    those that it may see.
    """
    committed = None if row is None or row.committed_at is None else row.committed_at.timestamp()
    freshness = None if committed is None else max(0.0, time.time() - committed)
    figures = {} if row is None or seen.access.grant is not None else state_figures(row)
    gauges = [(f"belvedere_state_{n}", STATE_FIGURES[n], value) for n, value in figures.items()]
    endpoints = None if seen.access.grant is None else seen.endpoints
    return served.metrics.text(None if row is None else row.epoch, freshness, gauges, endpoints)
