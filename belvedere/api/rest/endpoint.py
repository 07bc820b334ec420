"""`/rest`: the ASGI application of REST.

In: GET and HEAD of `/rest/<view>`, `/rest/<view>/<key>`, `/rest/<view>/<key>/why`, `/rest/<view>/why-not` and
`/rest/<template>`; GET and POST of `/rest/rpc/<template>`. Out: rows with the entity tag of their epoch, the origin of
a row or where it was dropped, or a problem document (RFC 9457). The gate checks rights before. Planning and other slow
work run in threads.
"""

from __future__ import annotations

import time
from dataclasses import replace
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from belvedere.api.failures import BAD_REQUEST, INTERNAL, NOT_FOUND, NOT_READY, RequestError
from belvedere.api.graphql.operations import Prepared
from belvedere.api.http import etags
from belvedere.api.http.pushes import CLAIMS, problem_answer
from belvedere.api.http.served_api import ServedApi
from belvedere.api.quarantined_answers import as_header
from belvedere.api.reads.provenance import Question
from belvedere.api.reads.role_view import RoleView
from belvedere.api.rest.answers import CSV, JSON, body_of, headers_of, media_of, rows_of, status_of
from belvedere.api.rest.parameters import range_of
from belvedere.api.rest.requests import ROWS, SHORT, RestRequest
from belvedere.api.rest.rpc import RPC, arguments_of, check_callable, check_profile
from belvedere.intake.claims import Claims

METHODS = "GET, HEAD, OPTIONS"
WHY, WHY_NOT = "/why", "why-not"
EPOCH, HELD = "belvedere-epoch", "belvedere-quarantined"
HEADERS = etags.HEADERS
_COUNTS = ("count=exact", "count=planned", "count=estimated")


class RestEndpoint:
    """Answers REST for one application."""

    def __init__(self, served: ServedApi):
        self._served = served

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, outcome = time.perf_counter(), 0
        try:
            answer = await self._answer(Request(scope, receive))
        except RequestError as error:
            answer = problem_answer(error)
            outcome = 3 if error.code == NOT_READY else 2 if error.status >= 500 else 1
        except Exception:
            answer = problem_answer(RequestError(INTERNAL, "the request failed inside the server", status=500))
            outcome = 2
        await answer(scope, receive, send)
        self._served.metrics.count(outcome, time.perf_counter() - started)

    async def _answer(self, request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(status_code=204, headers={"allow": METHODS})
        check_profile(request.headers)
        name, _, key = request.scope["path"].removeprefix("/rest").removeprefix("/").partition("/")
        called = bool(key) and name == RPC
        if request.method not in ("GET", "HEAD") and not (called and request.method == "POST"):
            message = f"rows cannot be changed by {request.method}"
            raise RequestError(
                BAD_REQUEST,
                message,
                "push rows to an input: POST /streams/NAME",
                status=405,
                headers={"allow": METHODS},
            )
        if not name:
            raise RequestError(NOT_FOUND, "the URL names no view", "`/openapi.json` lists all paths", status=404)
        media = media_of(request.headers.get("accept", ""))
        claims: Claims = request.scope.get(CLAIMS) or {}
        seen, query = await self._served.roles.view_of(claims), request.scope["query_string"]
        if called and not seen.requests.has(RPC):
            name, key = key, ""
            check_callable(seen.requests.source(name))
            if request.method == "POST":
                query = b"&".join(filter(None, (await arguments_of(request, self._served.settings.limits.size), query)))
        elif request.method == "POST":
            message = "POST is for query templates, not for rows"
            raise RequestError(BAD_REQUEST, message, "use GET", status=405, headers={"allow": METHODS})
        ranged = b"" if key else range_of(request.headers.get("range-unit", ""), request.headers.get("range", ""))
        query = b"&".join(filter(None, (query, ranged)))
        if key == WHY_NOT:
            return await self._reported(seen, seen.requests.why_not(name, request.scope["query_string"]))
        if key and _ends_in(request, f"/{WHY_NOT}"):
            raise seen.requests.why_not_of_row(name, key.removesuffix(f"/{WHY_NOT}"))
        if key and _ends_in(request, WHY):
            return await self._reported(
                seen, seen.requests.why(name, key.removesuffix(WHY), request.scope["query_string"])
            )
        is_long = len(query) + len(key) > SHORT
        if is_long:
            asked = await self._served.store.in_planner(lambda: seen.requests.asked(name, key or None, query))
        else:
            asked = seen.requests.asked(name, key or None, query)
        if _counts(request):
            asked = replace(asked, counted=not asked.one)
        if ranged:
            asked = replace(asked, ranged=True)
        await self._served.store.opened()
        prepared = None if is_long else seen.reads.known(asked, claims)
        if prepared is None:
            prepared = await self._served.store.in_planner(lambda: seen.reads.prepare(asked, claims))
        if self._served.longs(dict(request.scope["headers"])):
            prepared = replace(prepared, longs=True, own=(ROWS,))
        return await self._tagged(request, asked, prepared, media, seen.mark(prepared))

    async def _reported(self, seen: RoleView, asked: Question) -> Response:
        """Return the input rows of a row, or where it was dropped. Answers are not cached."""
        return JSONResponse(
            await self._served.provenance.answer(seen.catalog, asked), headers={"cache-control": "no-store"}
        )

    async def _tagged(
        self, request: Request, asked: RestRequest, prepared: Prepared, media: str, mark: str
    ) -> Response:
        """Return the answer with its entity tag, or 304 if the client has it; `mark` distinguishes it from answers to
        other roles.
        """
        store = self._served.store
        known = request.headers.get("if-none-match", "").encode()
        print_ = f"{mark}-{_suffix(media)}"
        if known and etags.matches(known, tag := etags.tag_of(await store.last_epoch(), print_)):
            return Response(status_code=304, headers=HEADERS | {"etag": tag or ""})
        found = await self._served.reads.run(prepared)
        rows = rows_of(found.data)
        json = media == JSON
        body = body_of(asked, rows, media) if json else await store.in_planner(lambda: body_of(asked, rows, media))
        headers = HEADERS | headers_of(quote(request.scope["path"]), asked, rows)
        headers |= {"etag": etags.entity_tag(found.epoch, found.committed, print_), EPOCH: str(found.epoch)}
        headers |= {HELD: as_header(found.quarantined)} if found.quarantined else {}
        return Response(body, status_of(asked, rows), headers, f"{media}; charset=utf-8" if media == CSV else media)


def _ends_in(request: Request, ending: str) -> bool:
    """Return whether the URL is a row's URL with this suffix; a key with such an ending is written with `%2F`."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    return raw.endswith(ending.encode()) and raw.count(b"/") > 3


def _suffix(media: str) -> str:
    return media.rpartition("/")[2][:3]


def _counts(request: Request) -> bool:
    """Return whether `Prefer` requests the total number of rows (RFC 7240), which is always exact."""
    asked = (
        p.strip().lower() for value in request.headers.getlist("prefer") for p in value.replace(";", ",").split(",")
    )
    return any(p in _COUNTS for p in asked)
