"""Answers of GraphQL requests from a store: one statement per request, whose JSON is passed on as bytes.

In: a catalog, a reader, an operation's text and variables. Out: the answer as bytes (for programs: as a dict) with
`extensions: {epoch, asOf, freshnessMs}`. It does not depend on HTTP.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from graphql import GraphQLSchema, execute_sync

from belvedere.api.failures import (
    BAD_REQUEST,
    BAD_VALUE,
    INTERNAL,
    LIMIT_EXCEEDED,
    NOT_ALLOWED,
    NOT_READY,
    TIME_OUT,
    RequestError,
    no_cursor,
)
from belvedere.api.filling_views import filling_text, is_awaited
from belvedere.api.graphql.operations import Operation, Operations, Prepared, only_fields
from belvedere.api.graphql.types import schema_of
from belvedere.api.limits import Limits, check_variables
from belvedere.api.quarantined_answers import LastGoodEpochs, as_json, quarantined_in, quarantined_of, quarantined_sql
from belvedere.api.reads.entities import Model, model_of
from belvedere.api.reads.int64_as_text import with_long_texts
from belvedere.api.reads.role_catalog import role_catalog
from belvedere.catalog.access import Grant
from belvedere.catalog.catalog import Catalog
from belvedere.errors import BelvedereError
from belvedere.intake.claims import Claims
from belvedere.store.protocol import AnsweringReader, Reader
from belvedere.store.read.history import AsOf, check_known
from belvedere.store.stage_memory import Memories
from belvedere.store.stored_table import StoredTable
from belvedere.values.instants import instant

Fetch = Callable[[str, Sequence[Any]], Awaitable[list[tuple[Any, ...]]]]
QUICK = 0.003
"""Seconds: a plan whose last measured time is below this may run on the event loop."""
TIMED = 16
"""Number of executions of a plan between two measurements; the first is always measured.

Reading the clock takes longer than some plans.
"""
NOTHING: Mapping[str, Any] = MappingProxyType({})
_OPENED, _BESIDE = b'{"data":', b',"extensions":'


class Answer(NamedTuple):
    """An answer's bytes, its epoch, and the commit time of that epoch (microseconds since 1970)."""

    body: bytes
    epoch: int
    committed: int
    quarantined: Mapping[str, int | None] = NOTHING
    """Views of the answer that are in quarantine, with their last good epochs."""

    @property
    def data(self) -> bytes:
        """Return the data, without GraphQL's extensions."""
        return self.body[len(_OPENED) : self.body.rindex(_BESIDE)]


class Api:
    """The GraphQL API of one catalog over one store."""

    def __init__(self, catalog: Catalog, reader: AnsweringReader, limits: Limits | None = None):
        self.limits = limits or Limits()
        self.model: Model = model_of(catalog)
        self.schema: GraphQLSchema = schema_of(self.model, self.limits)
        self.reader = reader
        self.lenient = schema_of(self.model, self.limits, lenient=True) if self.model.pushes else self.schema
        self.operations = Operations(self.model, self.schema, reader, self.limits, self.lenient)
        self._shown: tuple[int, int, bytes] = (-1, 0, b"")
        self._catalog = catalog
        self._last_good: tuple[int, LastGoodEpochs] = (-1, {})
        """The epoch of the last answer, and the relations in quarantine at that epoch."""

    def answer(
        self, text: str, variables: Mapping[str, Any] | None = None, name: str | None = None, claims: Claims = NOTHING
    ) -> bytes:
        """Return the whole answer to a caller with these claims. Raises `RequestError`."""
        operation, literals = self.find(text, name, variables or {})
        if operation.mutates:
            raise RequestError(
                NOT_ALLOWED,
                "this API does not accept rows",
                "insert them by `Workbench.insert`, or send them to a server",
            )
        if operation.subscribes:
            raise RequestError(BAD_REQUEST, "subscriptions need a server", "ask with a query")
        if operation.introspects:
            self.check_introspection()
            return self.introspect(operation, literals, variables or {}, claims)
        return self.run(self.operations.prepare(operation, literals, variables or {}, claims))

    def find(
        self, text: str, name: str | None = None, variables: Mapping[str, Any] = NOTHING
    ) -> tuple[Operation, list[Any]]:
        """Return the operation of a text. Raises `RequestError` also if its variables exceed the limits."""
        self._check_sizes(text, variables)
        return self.operations.find(text, name)

    def known(self, text: str, name: str | None, variables: Mapping[str, Any]) -> tuple[Operation, list[Any]] | None:
        """Return what `find` returns if the operation is cached; None if it must be parsed and validated."""
        self._check_sizes(text, variables)
        return self.operations.known(text, name)

    def _check_sizes(self, text: str, variables: Mapping[str, Any]) -> None:
        if len(text) > self.limits.size:
            raise RequestError(LIMIT_EXCEEDED, f"the request has more than {self.limits.size} characters")
        check_variables(variables, self.limits)

    def run(self, prepared: Prepared) -> bytes:
        """Read the store once and return the whole answer."""
        return self.read(prepared).body

    def read(self, prepared: Prepared) -> Answer:
        """Return the answer like `run`, with its epoch."""
        plan = prepared.plan
        timed = plan.calls % TIMED == 0 or plan.last >= QUICK
        started = time.thread_time() if timed else 0.0
        try:
            rows = self.reader.execute(plan.statement.sql, prepared.parameters)
            if rows and rows[0][0] != self._last_good[0]:
                self._last_good = (
                    rows[0][0],
                    quarantined_in(self.reader.execute(quarantined_sql(self.reader.dialect), (rows[0][0],))),
                )
        except BelvedereError as error:
            raise _failure(prepared, error, self._catalog, self.reader) from error
        finally:
            plan.calls += 1
            if timed:
                plan.last = time.thread_time() - started
        return self._answer(prepared, rows)

    async def fetch(self, prepared: Prepared, fetch: Fetch) -> Answer:
        """Return the answer like `read`, on the event loop."""
        try:
            rows = await fetch(prepared.plan.statement.sql, prepared.parameters)
            if rows and rows[0][0] != self._last_good[0]:
                self._last_good = (
                    rows[0][0],
                    quarantined_in(await fetch(quarantined_sql(self.reader.dialect), (rows[0][0],))),
                )
        except BelvedereError as error:
            raise _failure(prepared, error, self._catalog, self.reader) from error
        return self._answer(prepared, rows)

    def _answer(self, prepared: Prepared, rows: list[tuple[Any, ...]]) -> Answer:
        if not rows:
            raise RequestError(
                NOT_READY, "no epoch is committed yet", "try again when `/readyz` returns 200", status=503
            )
        epoch, clock, committed, data, *document = rows[0]
        if document:
            self._check_instants(prepared, epoch, clock, document[0])
        content: bytes = data.encode() if isinstance(data, str) else data
        if prepared.longs:
            content = with_long_texts(content, prepared.plan.draft.read, prepared.own)
        if len(content) > self.limits.answer:
            hint = "use smaller limits"
            raise RequestError(LIMIT_EXCEEDED, f"the answer has more than {self.limits.answer} bytes", hint)
        known = self._last_good[1] if self._last_good[0] == epoch else {}
        quarantined = quarantined_of(prepared.plan.draft.read, known, self._catalog) if known else NOTHING
        beside = self._extensions(epoch, clock, committed)
        if quarantined:
            beside = b'%b,"quarantined":%b}' % (beside[:-1], as_json(quarantined))
        return Answer(b"%b%b%b%b}" % (_OPENED, content, _BESIDE, beside), epoch, committed, quarantined)

    @staticmethod
    def _check_instants(prepared: Prepared, epoch: int, clock: int, content: str | bytes) -> None:
        """Raise if a requested former state is not retained."""
        memories = Memories.of(json.loads(content)["extra"])
        for relation, value, by_time in prepared.instants:
            try:
                check_known(AsOf(time=value) if by_time else AsOf(epoch=value), relation, memories, epoch, clock)
            except BelvedereError as error:
                found = error.diagnostics[0]
                raise RequestError(BAD_VALUE, found.message, found.hint) from None

    def _extensions(self, epoch: int, clock: int, committed: int) -> bytes:
        known, when, text = self._shown
        if known != epoch or when != clock:
            as_of = instant(clock).isoformat().replace("+00:00", "Z")
            text = f'{{"epoch":{epoch},"asOf":"{as_of}","freshnessMs":'.encode()
            self._shown = (epoch, clock, text)
        return b"%b%d}" % (text, max(0, time.time_ns() // 1_000_000 - committed // 1000))

    def check_introspection(self) -> None:
        if not self.limits.introspection:
            raise RequestError(
                NOT_ALLOWED, "introspection is switched off", "the project file sets `introspection = false`"
            )

    def introspect(
        self, operation: Operation, literals: list[Any], variables: Mapping[str, Any], claims: Claims = NOTHING
    ) -> bytes:
        """Return an answer about the schema; other root fields of the same request are read from the store."""
        nodes = self.operations.root_fields(operation, variables)
        about = [n for found in nodes.values() for n in found if n.name.value in ("__schema", "__type")]
        result = execute_sync(self.schema, only_fields(operation, about), variable_values=dict(variables))
        if result.errors and result.data is None:
            raise RequestError(BAD_REQUEST, result.errors[0].message)
        described: dict[str, Any] = result.data or {}
        if len(described) == len(nodes):
            return json.dumps({"data": described}).encode()
        read = json.loads(self.run(self.operations.prepare(operation, literals, variables, claims)))
        read["data"] = {alias: described[alias] if alias in described else read["data"][alias] for alias in nodes}
        return json.dumps(read).encode()


def _failure(prepared: Prepared, error: BelvedereError, catalog: Catalog, reader: AnsweringReader) -> RequestError:
    """Return the error of a failed read, without details that a client must not see."""
    found = error.diagnostics[0]
    if prepared.plan.draft.cursors and found.code == "B7088":
        return no_cursor(prepared.plan.draft.cursors[0].name)
    if found.code == "B7086":
        return RequestError(TIME_OUT, "the read took too long", "request less data", status=503)
    if found.code == "B7087":
        return RequestError(LIMIT_EXCEEDED, "the request is nested too deeply for this store", "reduce the nesting")
    if found.code == "B7014":
        text = filling_text(catalog, reader)
        if text is not None:
            return RequestError(
                NOT_READY, text, "try again when the view is filled; the other views are up to date", status=503
            )
        if is_awaited(prepared.plan.draft.read, catalog, reader):
            hint = "try again after the next epoch, which stores it"
            return RequestError(NOT_READY, "a view or one of its columns is not stored yet", hint, status=503)
        return RequestError(INTERNAL, "the store could not answer the query", status=500)
    if found.code == "B7088":
        hint = "sum fewer rows, or sum a DECIMAL in a view"
        return RequestError(BAD_VALUE, "a number is beyond the range of its type", hint)
    return RequestError(INTERNAL, "the store could not answer the query", found.hint, status=500)


_APIS: list[tuple[Catalog, frozenset[str], str | None, Api]] = []
"""The most recent APIs, for programs that query one catalog many times."""


def execute_graphql(
    catalog: Catalog,
    tables: Mapping[str, StoredTable] | None,
    reader: Reader,
    text: str,
    variables: Mapping[str, Any] | None = None,
    name: str | None = None,
    claims: Claims | None = None,
    role: str | None = None,
) -> dict[str, Any]:
    """Answer one request in process: `{"data": ..., "extensions": ...}` or `{"errors": [...]}`.

    `tables`, if given, are the relations in the store; public relations that it lacks are not shown. `role` is the
    caller's role; None: the caller sees everything.
    """
    api = api_over(catalog, tables, reader, role)
    try:
        answer: dict[str, Any] = json.loads(api.answer(text, variables, name, claims or NOTHING))
    except RequestError as error:
        return {"errors": error.formatted()}
    return answer


def api_over(
    catalog: Catalog, tables: Mapping[str, StoredTable] | None, reader: Reader, role: str | None = None
) -> Api:
    """Return the API of a catalog over a reader for callers of a role, cached per catalog.

    With `role` None callers see everything.
    """
    api = copy(_api(catalog, tables, reader, role))
    api.reader = reader
    return api


def _api(catalog: Catalog, tables: Mapping[str, StoredTable] | None, reader: Reader, role: str | None) -> Api:
    stored = catalog.public if tables is None else catalog.public & tables.keys()
    for known, shown, whose, api in _APIS:
        if known is catalog and shown == stored and whose == role and api.reader.dialect == reader.dialect:
            return api
    public = replace(catalog, public=stored)
    api = Api(
        public if role is None else role_catalog(public, catalog.access.grants.get(role, Grant(role, frozenset()))),
        reader,
    )
    _APIS[:] = [*_APIS[-7:], (catalog, stored, role, api)]
    return api
