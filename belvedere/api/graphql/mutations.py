"""GraphQL mutations: push rows to the ingest service of the run, like `POST /streams`.

In: a valid operation, its variables, and functions that call the ingest service and read the last epoch. Out: the
answer as bytes. graphql-core runs the root fields of the operation one after another; a field that fails is null, with
an error. The caller's rights are checked before.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from graphql import (
    DocumentNode,
    ExecutionResult,
    GraphQLError,
    GraphQLResolveInfo,
    GraphQLSchema,
    execute,
    get_named_type,
)
from graphql.pyutils import is_awaitable

from belvedere.api.access.callers import own_key
from belvedere.api.failures import BAD_REQUEST, BAD_VALUE, INTERNAL, LIMIT_EXCEEDED, InvalidDocument, RequestError
from belvedere.api.graphql.push_fields import DROPPED, REFUSED, TAKEN, PushField
from belvedere.api.graphql.scalars import LONG
from belvedere.api.http.pushes import sender_name
from belvedere.api.reads.int64_as_text import long_text
from belvedere.errors import BelvedereError
from belvedere.intake.claims import NO_ONE, Claims
from belvedere.intake.ingest_service import OFFSET, REPORTED, Reply, Request
from belvedere.intake.request_rows import Pushed, read_rows
from belvedere.store.dialects.float32 import shortest_single
from belvedere.store.dialects.nested_json import plain_values
from belvedere.store.protocol import EpochRow

WAIT_SECONDS = 30.0
"""Maximum seconds that a request waits for its epoch."""
LOOK_SECONDS = 0.05
"""Seconds between two polls of the last epoch."""
Ask = Callable[[Request], Awaitable[Reply]]
"""Function that sends rows to the ingest service in the process that runs epochs."""


@dataclass(frozen=True)
class _MutationCaller:
    """The caller of a mutation, and whether 64-bit integers are returned as strings."""

    claims: Claims
    longs: bool


class Mutations:
    """Runs the mutations of one API. `ask` sends a request to the ingest service, `last_epoch` reads the store's last
    epoch."""

    def __init__(
        self,
        schema: GraphQLSchema,
        fields: Mapping[str, PushField],
        ask: Ask,
        last_epoch: Callable[[], Awaitable[EpochRow | None]],
    ):
        self._schema, self._fields, self._ask, self._last_epoch = schema, fields, ask, last_epoch

    async def answer(
        self,
        document: DocumentNode,
        name: str | None,
        variables: Mapping[str, Any],
        claims: Claims = NO_ONE,
        longs: bool = False,
    ) -> bytes:
        """Return the whole answer to a caller with these claims; with `longs` 64-bit integers are strings.

        Raises `RequestError` if the request is not valid, or if its only field fails.
        """
        found: Any = execute(
            self._schema,
            document,
            context_value=_MutationCaller(claims, longs),
            variable_values=dict(variables),
            operation_name=name,
            field_resolver=self._resolve,
        )
        result: ExecutionResult = await found if is_awaitable(found) else found
        errors = result.errors or []
        if result.data is None:
            raise InvalidDocument(BAD_VALUE, errors)
        if errors and not any(result.data.values()):
            raise _failure(errors[0])
        body: dict[str, Any] = {"data": result.data}
        if errors:
            body["errors"] = [{**_failure(e).formatted()[0], "path": e.path} for e in errors]
        return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")

    def _resolve(self, source: Any, info: GraphQLResolveInfo[Any], **arguments: Any) -> Any:
        if info.parent_type is self._schema.mutation_type:
            return self._push(self._fields[info.field_name], info.context, **arguments)
        value = source[info.field_name]
        is_number = info.context.longs and isinstance(value, int) and get_named_type(info.return_type) is LONG
        return str(value) if is_number else value

    async def _push(
        self,
        field: PushField,
        asked: _MutationCaller,
        rows: list[Any],
        producer: str | None = None,
        key: str | None = None,
        wait: bool | None = False,
    ) -> dict[str, Any]:
        if len(rows) > REPORTED:
            hint = f"send them in several requests, or to `POST /streams/{field.table.name}`"
            raise RequestError(LIMIT_EXCEEDED, f"more than {REPORTED} rows in one mutation", hint, status=413)
        producer, key = sender_name(producer, "producer"), own_key(asked.claims, sender_name(key, "key"))
        try:
            pushed = await asyncio.to_thread(
                read_rows, field.table, [_by_column(field, row) for row in rows], asked.claims
            )
        except BelvedereError as error:
            reported = error.diagnostics[0]
            raise RequestError(reported.code, reported.message, reported.hint, status=403) from None
        reply = await self._ask(Request(field.table.id, pushed, producer, key, _digest(field, producer, rows)))
        if reply.status >= 300:
            body = reply.body
            raise RequestError(str(body["code"]), str(body["title"]), body.get("hint"), status=reply.status)
        answer = _reported(field, pushed, reply.body, len(rows))
        if asked.longs:
            _make_long_texts(field, answer)
        return answer | {"epoch": await self._epoch(reply) if wait else None}

    async def _epoch(self, reply: Reply) -> int | None:
        """Wait for the epoch that contains a request's rows and return it; None after a timeout."""
        if reply.sequence is None:
            return None
        end = asyncio.get_running_loop().time() + WAIT_SECONDS
        last: EpochRow | None = None
        while asyncio.get_running_loop().time() < end:
            with contextlib.suppress(RequestError):  # the rows are accepted anyway
                last = await self._last_epoch()
            if last is not None and last.offsets.get(OFFSET, {}).get("sequence", 0) >= reply.sequence:
                return last.epoch
            await asyncio.sleep(LOOK_SECONDS)
        return None


def _by_column(field: PushField, row: Any) -> Any:
    """Return a row with the names of columns in place of their GraphQL names."""
    if not isinstance(row, dict):
        return row
    return {field.columns[n].name if n in field.columns else n: value for n, value in row.items()}


def _reported(field: PushField, pushed: Pushed, body: Mapping[str, Any], given: int) -> dict[str, Any]:
    """Return the answer of a push: the outcome of each row."""
    taken = _as_taken(field, pushed)
    for made in body.get("made", ()):
        taken[made["index"]] |= {n: made[c.name] for n, c in field.shown.items() if c.name in made}
    results = [
        {"index": n, "status": TAKEN, "row": taken.get(n), "code": None, "reason": None, "bound": None}
        for n in range(given)
    ]
    for refusal in body["refusals"]:
        results[refusal["index"]] |= {"status": REFUSED, "row": None, "bound": None, **refusal}
    for place in body.get("dropped_at", ()):
        results[place] |= {"status": DROPPED, "row": None}
    return {n: body[n] for n in ("taken", "dropped", "refused")} | {"results": results}


def _make_long_texts(field: PushField, reported: dict[str, Any]) -> None:
    """Convert the 64-bit integers of reported rows to strings, also within values that have no GraphQL type."""
    for row in (r["row"] for r in reported["results"] if r["row"] is not None):
        row |= {n: long_text(row[n], c.type) for n, c in field.shown.items()}


def _as_taken(field: PushField, pushed: Pushed) -> dict[int, dict[str, Any]]:
    """Return the accepted rows by position, with values in the API's form."""
    columns = {}
    for name, column in field.shown.items():
        if column.name not in pushed.rows.schema.names:  # the ingest service fills it
            continue
        values = plain_values(pushed.rows[column.name])
        if str(column.type) == "float":
            values = [None if v is None or isinstance(v, str) else float(shortest_single(v)) for v in values]
        elif str(column.type) == "double":  # NaN and infinities are null in answers
            values = [None if isinstance(v, str) else v for v in values]
        columns[name] = values
    nothing = dict.fromkeys(field.shown)
    return {place: nothing | {n: values[i] for n, values in columns.items()} for i, place in enumerate(pushed.places)}


def _digest(field: PushField, producer: str | None, rows: list[Any]) -> str:
    """Return a digest that distinguishes requests with the same key."""
    text = json.dumps([field.table.id, producer, rows], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def _failure(error: GraphQLError) -> RequestError:
    """Return the error of a failed field, without details that a client must not see."""
    cause = error.original_error
    if isinstance(cause, RequestError):
        return cause
    if cause is None:
        return RequestError(BAD_REQUEST, error.message)
    return RequestError(INTERNAL, "the push failed inside the server", status=500)
