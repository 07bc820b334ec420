"""`/rest/rpc/<template>`: query templates called like PostgREST functions, by GET, or by POST with arguments in the
body.

In: a request's method, headers and body. Out: the template's name, and its arguments as in a query string.
`belvedere.api.rest.requests` interprets the arguments.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request

from belvedere.api.failures import BAD_REQUEST, NOT_FOUND, RequestError
from belvedere.api.http.pushes import check_encoding, read_body
from belvedere.api.reads.entities import Template
from belvedere.api.rest.requests import Source, name_of

RPC = "rpc"
SCHEMAS = ("", "public")
"""Names that PostgREST clients use for the only schema."""


def check_profile(headers: Mapping[str, str]) -> None:
    """Raise if a client requests a schema other than the default one."""
    for header in ("accept-profile", "content-profile"):
        asked = headers.get(header, "").strip()
        if asked not in SCHEMAS:
            hint = f"remove the header `{header}`, or set it to `public`"
            raise RequestError(
                BAD_REQUEST, f'there is no schema "{asked[:100]}": all relations are in `public`', hint, status=406
            )


def check_callable(source: Source) -> None:
    """Raise if the called endpoint is not a query template."""
    if not isinstance(source, Template):
        hint = f"read it: `/rest/{source.field}`"
        raise RequestError(
            NOT_FOUND, f"{name_of(source)} is not a query template and cannot be called", hint, status=404
        )


async def arguments_of(request: Request, most_bytes: int) -> bytes:
    """Return the named arguments in the body of a call as a query string. An absent argument is NULL."""
    check_encoding(dict(request.scope["headers"]))
    body = await read_body(request.receive, most_bytes)
    kind = request.headers.get("content-type", "application/json").split(";")[0].strip().lower()
    if body.strip() and kind != "application/json":
        raise RequestError(
            BAD_REQUEST, "the arguments must be JSON", "send `Content-Type: application/json`", status=415
        )
    try:
        given = json.loads(body, parse_float=Decimal) if body.strip() else {}
    except (ValueError, RecursionError):
        raise RequestError(BAD_REQUEST, "the body is not JSON", 'send the arguments by name: {"least": 5}') from None
    if not isinstance(given, dict):
        raise RequestError(BAD_REQUEST, "the arguments must be an object", 'send them by name: {"least": 5}')
    return urlencode([(name, _text(name, value)) for name, value in given.items() if value is not None]).encode()


def _text(name: str, value: Any) -> str:
    """Return a value in the form of a query string."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        raise RequestError(BAD_REQUEST, f"`{name[:100]}` takes one value", "give a text, a number or a boolean")
    try:
        str(value).encode()
    except UnicodeEncodeError:
        raise RequestError(BAD_REQUEST, f"`{name[:100]}` has a lone surrogate") from None
    return str(value)
