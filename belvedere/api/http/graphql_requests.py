"""The GraphQL request in an HTTP request (GraphQL over HTTP, draft of 2025).

In: a scope, its headers, a body. Out: the operation's text, variables and name. Raises `RequestError`. It answers
nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from starlette.types import Receive, Scope

from belvedere.api.failures import BAD_REQUEST, NOT_ALLOWED, NOT_READY, RequestError
from belvedere.api.http.pushes import check_encoding, read_body
from belvedere.values.json_numbers import loads

JSON = "application/json"
GRAPHQL = "application/graphql-response+json"
NO_PERSISTED = "PersistedQueryNotSupported"
"""Message on which clients with Apollo's automatic persisted queries send the text instead of a hash."""


@dataclass(frozen=True)
class GraphQLRequest:
    """A GraphQL request, not yet validated."""

    text: str
    variables: dict[str, Any]
    name: str | None
    whole: bool = False
    """Whether a subscription returns objects in columns as stored, with the original names of their members."""
    longs: bool | None = None
    """Whether 64-bit integers are strings; None: the project's default."""


async def asked_of(scope: Scope, headers: Mapping[bytes, bytes], receive: Receive, most_bytes: int) -> GraphQLRequest:
    """Return the GraphQL request of a GET or POST."""
    if scope["method"] == "GET":
        return _from_query_string(scope["query_string"])
    if scope["method"] != "POST":
        message, allow = f"/graphql does not accept {scope['method']}", {"allow": "GET, POST, OPTIONS"}
        raise RequestError(BAD_REQUEST, message, "use POST or GET", status=405, headers=allow)
    check_encoding(headers)
    kind = headers.get(b"content-type", b"").decode("latin-1").split(";")[0].strip().lower()
    if kind not in (JSON, GRAPHQL):
        raise RequestError(BAD_REQUEST, "the body must be JSON", "send `Content-Type: application/json`", status=415)
    return checked(_json(await read_body(receive, most_bytes)))


def checked(asked: Any) -> GraphQLRequest:
    """Return the request in a JSON value."""
    if isinstance(asked, list):
        raise RequestError(BAD_REQUEST, "batched requests are not supported", "combine them into one `query`")
    if isinstance(asked, dict) and asked.get("query") is None and _is_persisted(asked.get("extensions")):
        raise RequestError(NOT_ALLOWED, NO_PERSISTED, "send the query's text as `query`")
    if not isinstance(asked, dict) or not isinstance(asked.get("query"), str):
        raise RequestError(BAD_REQUEST, "the body has no `query`", 'send `{"query": "{ ... }", "variables": {...}}`')
    variables, name = asked.get("variables"), asked.get("operationName")
    for member in ("variables", "extensions"):
        if not isinstance(asked.get(member), dict | None):
            raise RequestError(BAD_REQUEST, f"`{member}` is not an object")
    if name is not None and not isinstance(name, str):
        raise RequestError(BAD_REQUEST, "`operationName` is not a string")
    return GraphQLRequest(asked["query"], variables or {}, name)


def media_of(headers: Mapping[bytes, bytes]) -> str:
    """Return the media type of an answer."""
    return GRAPHQL if GRAPHQL.encode() in headers.get(b"accept", b"") else JSON


def status_of_error(error: RequestError, media: str) -> int:
    """Return the HTTP status of an error.

    The older media type requires 200 for all well-formed HTTP requests; the newer one has a status for each failure.
    """
    return 200 if media == JSON and error.code not in (BAD_REQUEST, NOT_READY) and error.status == 400 else error.status


def errors_of(error: RequestError) -> bytes:
    """Return an error as the body of an answer."""
    return json.dumps({"errors": error.formatted()}).encode()


def _from_query_string(text: bytes) -> GraphQLRequest:
    try:
        fields = parse_qs(text.decode("ascii"), keep_blank_values=True, max_num_fields=20, errors="strict")
    except ValueError:
        raise RequestError(BAD_REQUEST, "the query string cannot be read") from None
    asked: dict[str, Any] = {"query": fields["query"][0]} if "query" in fields else {}
    if fields.get("operationName", [""])[0]:
        asked["operationName"] = fields["operationName"][0]
    for member in ("variables", "extensions"):
        if fields.get(member, [""])[0]:
            asked[member] = _json(fields[member][0])
    if not asked.keys() & {"query", "extensions"}:
        raise RequestError(
            BAD_REQUEST, "the query string has no `query`", "write `/graphql?query={...}`, or send a POST"
        )
    return checked(asked)


def _is_persisted(extensions: Any) -> bool:
    return isinstance(extensions, dict) and "persistedQuery" in extensions


def _json(text: bytes | str) -> Any:
    try:
        return loads(text)
    except (ValueError, RecursionError):
        raise RequestError(BAD_REQUEST, "the body is not JSON", 'send `{"query": "{ ... }"}`') from None
