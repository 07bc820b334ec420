"""The console at `/` and its own endpoints: `/lineage`, `/lineage/<id>` and `/status/events`.

In: the served application. Out: routes. The console is a folder of files that load nothing from other hosts, which a
Content-Security-Policy enforces. It reads rows by GraphQL, like every other client.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

import belvedere.console
from belvedere.api.failures import RequestError
from belvedere.api.http.lineage import definition_of, explanations_of, lineage_of
from belvedere.api.http.pushes import CLAIMS
from belvedere.api.http.route_rights import Mount, Route, RouteNeed
from belvedere.api.http.served_api import ServedApi
from belvedere.api.live.status_events import status_events
from belvedere.catalog.access import Right
from belvedere.intake.claims import Claims
from belvedere.store.protocol import EpochRow

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
}
"""HTTP headers of the console's files."""
SERVED = (".css", ".html", ".js", ".svg", ".txt")
"""File name extensions that are served. Python files and the editor's sources in the same folder are not."""


def console_routes(served: ServedApi) -> list[Route | Mount]:
    """Return the routes of the console."""
    folder = belvedere.console.__path__[0]
    explained: dict[str | None, Mapping[str, dict[str, Any]]] = {}
    explaining = asyncio.Lock()

    async def page(request: Request) -> Response:
        return await _Files(directory=folder).get_response("index.html", request.scope)

    async def lineage(request: Request) -> Response:
        seen = await served.role_view(request)
        return JSONResponse(await served.store.in_planner(lambda: lineage_of(seen.catalog, seen.api.model)))

    async def definition(request: Request) -> Response:
        id_ = request.path_params["id"]
        seen = await served.role_view(request)
        found = await served.store.in_planner(lambda: definition_of(seen.catalog, id_))
        if found is None:
            raise RequestError(
                "B2001", f'the script defines no "{id_}"', "`/lineage` lists what it defines", status=404
            )
        if seen.catalog.access.grant is not None:  # how views are computed and maintained reveals what they read
            return JSONResponse(found | {"kept": None})
        choice = await served.store.choice()
        async with explaining:  # concurrent requests wait for the same explanation
            if choice not in explained:
                explained.clear()
                explained[choice] = await served.store.in_planner(lambda: explanations_of(served.catalog, choice))
        return JSONResponse(found | {"kept": explained[choice].get(id_)})

    async def events(request: Request) -> Response:
        claims: Claims = request.scope.get(CLAIMS) or {}
        seen = await served.roles.view_of(claims)

        async def status(row: EpochRow | None) -> Mapping[str, Any]:
            return await served.store.in_planner(lambda: served.status(row, seen.catalog))

        return status_events(served.streams, served.store.last_epoch, status, claims)

    return [
        Route("/", page, right=RouteNeed.OPEN),
        Route("/lineage", lineage, right=Right.READ),
        Route("/lineage/{id:path}", definition, right=Right.READ),
        Route("/status/events", events, right=Right.STATUS, methods=["GET"]),
        Mount("/console", _Files(directory=folder), right=RouteNeed.OPEN),
    ]


class _Files(StaticFiles):
    """The console's files, with the headers of `HEADERS`."""

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        return super().lookup_path(path) if path.endswith(SERVED) else ("", None)

    def file_response(self, full_path: Any, stat_result: Any, scope: Scope, status_code: int = 200) -> Response:
        answer = super().file_response(full_path, stat_result, scope, status_code)
        answer.headers.update(HEADERS)
        return answer
