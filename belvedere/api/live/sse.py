"""Streams over HTTP: server-sent events, for GraphQL (GraphQL over SSE, distinct connections) and for
`/streams/<name>/events`.

In: messages of a stream. Out: texts of a `text/event-stream`. A request for plain events is a GraphQL subscription for
all columns.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from graphql import (
    GraphQLBoolean,
    GraphQLFloat,
    GraphQLInt,
    GraphQLObjectType,
    GraphQLSchema,
    GraphQLType,
    get_named_type,
    is_required_argument,
)
from starlette.responses import Response, StreamingResponse

from belvedere.api.failures import BAD_VALUE, RequestError
from belvedere.api.graphql.event_fields import AFTER, event_fields
from belvedere.api.http.graphql_requests import GraphQLRequest
from belvedere.api.live.event_streams import INTERRUPTED, StreamMessage
from belvedere.api.reads.entities import Entity, Model
from belvedere.syntax.wording import did_you_mean

EVENTS = "text/event-stream"
COME_AGAIN = b"retry: 1000\n\n"
"""Reconnection delay for an `EventSource`, in milliseconds."""
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}  # the latter: proxies pass each event on at once


def graphql_events(reported: AsyncIterator[StreamMessage]) -> StreamingResponse:
    """Return the answer of a GraphQL subscription."""

    async def texts() -> AsyncIterator[bytes]:
        async for each in reported:
            if each is INTERRUPTED:  # without `complete` clients reconnect
                return
            yield b"event: next\ndata: %b\n\n" % each.body if each.body else b":\n\n"
        yield b"event: complete\ndata:\n\n"

    return _response(texts())


def plain_events(reported: AsyncIterator[StreamMessage], field: str) -> StreamingResponse:
    """Return the answer of `/streams/<name>/events`: one event per row. A client resumes after its `id`
    (`Last-Event-ID`)."""

    before = json.dumps({"data": {field: 0}}, ensure_ascii=False).encode()[:-3]

    async def texts() -> AsyncIterator[bytes]:
        yield COME_AGAIN
        async for each in reported:
            if each is INTERRUPTED:
                return
            if not each.body:
                yield b":\n\n"
                continue
            if not each.body.startswith(before):
                yield b"event: error\ndata: %b\n\n" % json.dumps(json.loads(each.body)["errors"][0]).encode()
                return
            yield b"id: %d\ndata: %b\n\n" % (
                each.number or 0,
                each.body[len(before) : -2],
            )  # the unchanged row of the answer

    return _response(texts())


def is_passing(error: RequestError, accept: bytes) -> bool:
    """Return whether an `EventSource` received a temporary error, which `no_events_yet` replaces."""
    return error.status == 503 and takes_events_alone(accept)


def no_events_yet() -> Response:
    """Return an empty stream for an `EventSource`, which would stop for good at any status except 200."""
    return Response(COME_AGAIN, headers=_HEADERS, media_type=EVENTS)


def takes_events_alone(accept: bytes) -> bool:
    """Return whether a client accepts only a stream, like `EventSource` and the library graphql-sse."""
    kinds = [kind.partition(b";")[0].strip().lower() for kind in accept.split(b",")]
    return kinds == [EVENTS.encode()]


def events_of(
    model: Model, schema: GraphQLSchema, name: str, given: Mapping[str, str], last: str | None
) -> tuple[GraphQLRequest, str]:
    """Return the GraphQL subscription for all columns of a script's subscription, and its field.

    `given` are its arguments as in a query string; `last` is the number of the client's last event.
    """
    assert schema.subscription_type is not None
    names = {
        (s.name if isinstance(s, Entity) else s.template.name).casefold(): f for f, s in event_fields(model).items()
    }
    field = names.get(name.casefold())
    if field is None:
        hint = did_you_mean(name, sorted(names)) or "define it by CREATE SUBSCRIPTION or SUBSCRIBE"
        raise RequestError("B6012", f'the script has no subscription "{name}"', hint, status=404)
    arguments = {n: a for n, a in schema.subscription_type.fields[field].args.items() if n != "filter"}
    for unknown in [n for n in given if n not in arguments]:
        raise RequestError(BAD_VALUE, f"{name} has no argument `{unknown}`", f"its arguments: {', '.join(arguments)}")
    for missing in [n for n, a in arguments.items() if is_required_argument(a) and n not in given]:
        raise RequestError(BAD_VALUE, f"{name} needs `{missing}`", f"add `{missing}=...` to the URL")
    variables = {n: _value(n, v, arguments[n].type) for n, v in given.items()}
    if last:
        variables[AFTER] = last
    declared = ", ".join(f"${n}: {arguments[n].type}" for n in variables)
    passed = ", ".join(f"{n}: ${n}" for n in variables)
    row = get_named_type(schema.subscription_type.fields[field].type)
    columns = _selected(row, event_fields(model)[field].columns)
    text = f"subscription{f'({declared})' if declared else ''} {{ {field}{f'({passed})' if passed else ''} {columns} }}"
    return GraphQLRequest(text, variables, None, whole=True), field


def _selected(type_: GraphQLType, names: Iterable[str]) -> str:
    """Return the selection of columns, with all members of those that hold objects."""
    assert isinstance(type_, GraphQLObjectType)
    parts = []
    for name in names:
        inner = get_named_type(type_.fields[name].type)
        parts.append(f"{name} {_selected(inner, inner.fields)}" if isinstance(inner, GraphQLObjectType) else name)
    return f"{{ {' '.join(parts)} }}"


def _value(name: str, text: str, type_: GraphQLType) -> Any:
    named = get_named_type(type_)
    read: Any = {GraphQLInt: int, GraphQLFloat: float, GraphQLBoolean: {"true": True, "false": False}.__getitem__}
    try:
        return read.get(named, str)(text)
    except (ValueError, KeyError):
        raise RequestError(BAD_VALUE, f"`{name}` is not of type {named}") from None


def _response(texts: AsyncIterator[bytes]) -> StreamingResponse:
    return StreamingResponse(texts, media_type=EVENTS, headers=_HEADERS)
