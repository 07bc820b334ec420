"""`POST /streams/<name>`: clients send rows, bounds and producer messages to the ingest service of the run.

In: HTTP requests with JSON bodies. Out: the answers of the ingest service; an error is a JSON object with title,
status, code and hint (RFC 9457). The serving process parses and validates rows; the ingest service decides which are
late or duplicates.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive

from belvedere.api.access.callers import own_key
from belvedere.api.failures import AGAIN, BAD_REQUEST, LIMIT_EXCEEDED, RequestError
from belvedere.api.http.push_bodies import JSON_TYPES, LINES_TYPES, rows_of
from belvedere.api.http.route_rights import Route
from belvedere.catalog.access import Right
from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import Input
from belvedere.errors import BelvedereError
from belvedere.intake.claims import MISSING, Claims
from belvedere.intake.ingest_service import Reply, problem
from belvedere.intake.ingest_service import Request as Push
from belvedere.intake.request_rows import find_input, read_act
from belvedere.intake.wire import IngestClient
from belvedere.time.intake_entries import Act, ProducerAct

CLAIMS = "belvedere.claims"
"""Key in a request's scope of the claims of the caller's token."""
MAX_NAME_LENGTH = 200
ACT_BYTES = 10_000
"""Maximum size in bytes of a producer message; it is parsed on the event loop."""


class Sees(Protocol):
    """The part of the model that a caller sees."""

    @property
    def catalog(self) -> Catalog: ...


See = Callable[[Claims], Awaitable[Sees]]


def push_routes(seen: See, ingest_service: IngestClient, most_bytes: int, most_rows: int) -> list[Route]:
    """Return the routes below `/streams`.

    `most_bytes` and `most_rows` limit a body; `seen` returns the part of the model that a caller sees.
    """

    async def rows(request: Request) -> Response:
        claims = request.scope.get(CLAIMS) or {}
        table = _input((await seen(claims)).catalog, request)
        body = await _body(request, most_bytes, (*JSON_TYPES, *LINES_TYPES))
        producer, key = sender_name(request.query_params.get("producer"), "producer"), _key(request)
        pushed = await asyncio.to_thread(rows_of, table, body, _media(request), most_rows, claims)
        digest = await asyncio.to_thread(_digest, request, body)
        return _answer(await ingest_service.ask(Push(table.id, pushed, producer, key, digest)))

    def act(kind: Act) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            table = _input((await seen(request.scope.get(CLAIMS) or {})).catalog, request)
            body = await _body(request, min(most_bytes, ACT_BYTES), JSON_TYPES, needed=kind is Act.BOUND)
            content = _act(kind, table, body, request.query_params.get("producer"))
            return _answer(
                await ingest_service.ask(
                    Push(table.id, content, content.producer, _key(request), _digest(request, body))
                )
            )

        return handle

    acts = [Route(f"/streams/{{name}}/{kind.value}", act(kind), right=Right.PUSH, methods=["POST"]) for kind in Act]
    return [Route("/streams/{name}", rows, right=Right.PUSH, methods=["POST"]), *acts]


def problem_answer(error: RequestError | BelvedereError) -> Response:
    """Return an error as a problem document (RFC 9457)."""
    if isinstance(error, RequestError):
        reported = problem(error.status, error.code, error.message, error.hint)
        answer = _answer(
            Reply(error.status, reported | {"message": error.message})
        )  # the form that PostgREST clients expect
        answer.headers.update(error.headers)
        return answer
    found = error.diagnostics[0]
    return _answer(Reply.of_error({"B6012": 404, MISSING: 403}.get(found.code, 422), found))


def _answer(reply: Reply) -> Response:
    media = "application/json" if reply.status < 300 else "application/problem+json"
    body = json.dumps(reply.body, ensure_ascii=False).encode("utf-8", "replace")
    return Response(body, reply.status, AGAIN if reply.status == 503 else None, media)


def _input(catalog: Catalog, request: Request) -> Input:
    table = find_input(catalog, request.path_params["name"])
    if table.source is not None:
        hint = f"declare an input for pushes: CREATE STREAM {table.name} (...)"
        message = f'"{table.name}" reads the source "{table.source.source}" and accepts no pushes'
        raise RequestError("B8035", message, hint, status=409)
    return table


async def _body(request: Request, most: int, media: tuple[str, ...], needed: bool = True) -> bytes:
    check_encoding(dict(request.scope["headers"]))
    body = await read_body(request.receive, most)
    if (needed or body) and _media(request) not in media:
        hint = "send `Content-Type: application/json`, or `application/x-ndjson` for a row a line"
        raise RequestError(BAD_REQUEST, "the body must be JSON", hint, status=415)
    return body


def check_encoding(headers: Mapping[bytes, bytes]) -> None:
    """Raise if a body is compressed: its decompressed size would be unbounded."""
    encoding = headers.get(b"content-encoding", b"identity").decode("latin-1").strip().lower()
    if encoding not in ("", "identity"):
        reported = {"accept-encoding": "identity"}
        raise RequestError(
            BAD_REQUEST,
            f"the body is encoded as {encoding[:50]}",
            "send it without Content-Encoding",
            status=415,
            headers=reported,
        )


async def read_body(receive: Receive, most: int) -> bytes:
    """Return the body of a request. Raises `RequestError` if it has more than `most` bytes or is incomplete.

    `belvedere.api.http.connections` limits the time.
    """
    body, goes_on = b"", True
    parts = bytearray()
    while goes_on:
        message = await receive()
        if message["type"] != "http.request":
            raise RequestError(BAD_REQUEST, "the connection was closed")
        body, goes_on = message.get("body", b""), message.get("more_body", False)
        if len(parts) + len(body) > most:
            raise RequestError(LIMIT_EXCEEDED, f"the body has more than {most} bytes", "split the request", status=413)
        if parts or goes_on:
            parts += body
    return bytes(parts) or body


def _media(request: Request) -> str:
    return request.headers.get("content-type", "").split(";")[0].strip().lower()


def _act(kind: Act, table: Input, body: bytes, producer: str | None) -> ProducerAct:
    try:
        given = json.loads(body) if body.strip() else {}
    except (ValueError, RecursionError):
        raise RequestError(BAD_REQUEST, "the body is not JSON", 'send {"at": "2020-01-01T08:05:00Z"}') from None
    act = read_act(kind, table, given, producer)
    sender_name(act.producer, "producer")
    return act


def _key(request: Request) -> str | None:
    """Return the idempotency key of a request, or None."""
    given = request.headers.get("idempotency-key") or request.query_params.get("id")
    return own_key(request.scope.get(CLAIMS) or {}, sender_name(given, "key"))


def sender_name(value: Any, what: str) -> str | None:
    """Return a name that the sender gave, or None if it is empty."""
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > MAX_NAME_LENGTH or not value.isprintable():
        message = f"the {what} must be at most {MAX_NAME_LENGTH} printable characters"
        raise RequestError(BAD_REQUEST, message, status=422)
    return value


def _digest(request: Request, body: bytes) -> str:
    """Return a digest that distinguishes requests with the same key."""
    found = hashlib.sha256(f"{request.url.path}?{request.query_params.get('producer', '')}\n".encode())
    found.update(body)
    return found.hexdigest()[:32]
