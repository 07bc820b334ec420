"""Origin of a row, or why it is missing, for REST, agents and the console: `belvedere.provenance` over the served
store.

In: an entity, the values of its key or a filter. Out: a document with the names of the API. The database computes it on
request; parts that it cannot compute are listed as unknown. Rows of relations that are not served, and of internal
relations above them, are counted and not shown. Callers with a role are rejected, since rows below a view may belong to
others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from belvedere.api.failures import (
    BAD_REQUEST,
    BAD_VALUE,
    INTERNAL,
    NOT_ALLOWED,
    NOT_FOUND,
    NOT_READY,
    TIME_OUT,
    RequestError,
)
from belvedere.api.reads.entities import Entity, Model
from belvedere.api.serving.lazy_reader import LazyReader
from belvedere.catalog.catalog import Catalog
from belvedere.errors import BelvedereError, Diagnostic
from belvedere.store.protocol import Reader

if TYPE_CHECKING:
    from belvedere.provenance.plan_queries import QueryRunner

MAX_DEPTH, MAX_ROWS = 5, 100
"""Maximum number of views through which rows are traced, and maximum number of rows that are shown per relation."""
ROWS = 5
_MOMENT = {
    "type": ["object", "null"],
    "description": "an epoch and its clock; the epoch is null if the store no longer has its number",
    "properties": {"epoch": {"type": ["integer", "null"]}, "time": {"type": "string", "format": "date-time"}},
    "required": ["epoch", "time"],
}
SINCE: dict[str, Any] = {
    "type": "object",
    "description": "When the row appeared and last changed. If not exact: when the last of its input rows arrived.",
    "properties": {
        "words": {"type": "string"},
        "appeared": _MOMENT,
        "changed": _MOMENT,
        "exact": {"type": "boolean"},
        "versions": {"type": "array", "items": {"type": "object"}},
        "count": {"type": "integer"},
        "made_by": {"type": "array", "items": {"type": "object"}},
        "unknown": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["words", "appeared", "changed", "exact", "versions", "count", "made_by", "unknown"],
}
"""JSON Schema of `since` in an answer."""
WHY_NOT: dict[str, Any] = {
    "view": {"type": "string"},
    "sql": {"type": "string"},
    "condition": {"type": "string"},
    "epoch": {"type": ["integer", "null"]},
    "there": {"type": "integer", "description": "the number of rows that exist; if there are any, nothing is lost"},
    "lost": {
        "type": "array",
        "items": {"type": "object"},
        "description": "on each path down the first operator that drops the rows",
    },
}
"""JSON Schemas of the properties of an answer about missing rows."""


@dataclass(frozen=True)
class WhyRequest:
    """A question for the origin of a row; `key` has the names of the API, with values or their texts."""

    entity: Entity
    key: Mapping[str, Any]
    depth: int = 1
    rows: int = ROWS


@dataclass(frozen=True)
class WhyNotRequest:
    """A question for missing rows; `filter` is GraphQL's, with values and the names of the API."""

    entity: Entity
    filter: Mapping[str, Any]
    rows: int = ROWS


Question = WhyRequest | WhyNotRequest
InThread = Callable[[Callable[[], dict[str, Any]]], Awaitable[dict[str, Any]]]
"""Function that runs work which waits for the store."""


class Provenance:
    """Provenance for one catalog.

    `whole` is the reader for tables, which is separate from the reader of requests; without it questions are rejected.
    """

    def __init__(self, catalog: Catalog, model: Model, whole: LazyReader[Reader] | None, in_thread: InThread):
        self._catalog, self._entities, self._whole, self._in_thread = catalog, model.entities, whole, in_thread

    async def answer(self, seen: Catalog, asked: Question) -> dict[str, Any]:
        """Return the input rows of a row, or where it was dropped, for a caller who sees that catalog.

        Raises `RequestError`.
        """
        check_may_ask(seen)
        whole = self._whole
        if whole is None:
            raise RequestError(NOT_FOUND, "this server does not serve provenance", status=404)
        return await self._in_thread(lambda: self._read(whole, asked))

    def close(self) -> None:
        """Close the reader."""
        if self._whole is not None:
            self._whole.close()

    def _read(self, whole: LazyReader[Reader], asked: Question) -> dict[str, Any]:
        """Return the answer; the time depends on the number of rows that it shows."""
        try:
            return whole.reading(lambda reader: self._document(reader, asked))
        except BelvedereError as error:
            raise _refusal(error.diagnostics[0]) from error

    def _document(self, reader: Reader, asked: Question) -> dict[str, Any]:
        from belvedere.provenance.plan_queries import QueryRunner  # imported on demand: few processes need it
        from belvedere.store.read.history import readable_tables

        query_runner = QueryRunner(self._catalog, readable_tables(reader), reader)
        return self._why(query_runner, asked) if isinstance(asked, WhyRequest) else self._why_not(query_runner, asked)

    def _why(self, query_runner: QueryRunner, asked: WhyRequest) -> dict[str, Any]:
        from belvedere.provenance.document import document  # imported on demand: few processes need it
        from belvedere.provenance.key_tests import key_tests
        from belvedere.provenance.why.why import find_row, why

        id_ = asked.entity.id
        key = {asked.entity.columns[n].name: v for n, v in asked.key.items()}
        row, epoch = find_row(query_runner, id_, key_tests(self._catalog, id_, key))
        return document(
            self._catalog, why(query_runner, id_, row, epoch, depth=asked.depth, size=asked.rows), self._shown
        )

    def _why_not(self, query_runner: QueryRunner, asked: WhyNotRequest) -> dict[str, Any]:
        from belvedere.api.reads.why_not_filters import predicate_of_filter  # imported on demand: few processes need it
        from belvedere.provenance.document import why_not_document
        from belvedere.provenance.why_not.why_not import why_not

        requested = predicate_of_filter(asked.entity, asked.filter)
        shows = self._entities.__contains__
        return why_not_document(
            self._catalog, why_not(query_runner, asked.entity.id, requested, size=asked.rows, shows=shows), self._shown
        )

    def _shown(self, id_: str, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return a row with the API's names of its columns; None if its relation is not served."""
        entity = self._entities.get(id_)
        if entity is None:
            return None
        return {n: row[c.name] for n, c in entity.columns.items() if c.name in row}


def check_may_ask(seen: Catalog) -> None:
    """Raise if the caller sees only a part of the views or rows; `seen` is the catalog that the caller sees."""
    if seen.access.grant is not None:
        hint = "use a token without a role"
        raise RequestError(NOT_ALLOWED, "roles cannot read provenance: it may show rows of others", hint, status=403)


def asked_of(entity: Entity, key: Mapping[str, Any], depth: Any, rows: Any) -> WhyRequest:
    """Return the question, from numbers or their texts. Raises if the key or a number is not valid."""
    columns = entity.key or entity.columns
    if not key or any(n not in entity.columns for n in key):
        raise RequestError(
            BAD_VALUE, f"rows of {entity.name} are identified by {', '.join(columns)}", "give a value for each of them"
        )
    return WhyRequest(entity, key, _number("depth", depth, 1, MAX_DEPTH), _number("rows", rows, ROWS, MAX_ROWS))


def why_not_of(entity: Entity, filter_: Any, name: str, rows: Any) -> WhyNotRequest:
    """Return the question for missing rows; `name` is the name of the argument for the number of rows."""
    if not isinstance(filter_, Mapping):
        raise RequestError(BAD_VALUE, "`filter` must be an object", 'write {"column": {"eq": "value"}}')
    return WhyNotRequest(entity, filter_, _number(name, rows, ROWS, MAX_ROWS))


def _number(name: str, given: Any, otherwise: int, most: int) -> int:
    text = str(otherwise if given is None else given)
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        raise RequestError(BAD_VALUE, f"`{name}` must be a whole number from 1 to {most}", f"omit it for {otherwise}")
    return int(text)


def _refusal(found: Diagnostic) -> RequestError:
    """Return the error of a failed question, without details that a client must not see."""
    if found.code == "B8111":
        return RequestError(NOT_FOUND, found.message, "ask `why-not` where the row is dropped", status=404)
    if found.code == "B7086":
        return RequestError(TIME_OUT, "the read took too long", "request fewer rows or less depth", status=503)
    if found.code in ("B7014", "B7063"):
        return RequestError(
            NOT_READY, "its rows are not stored yet", "try again after the next epoch, which stores them", status=503
        )
    if found.code == "B8110":
        return RequestError(BAD_REQUEST, found.message, "use `belvedere why`, which can also use Spark", status=422)
    if found.code.startswith("B811") or found.code == "B2002":
        return RequestError(BAD_VALUE, found.message, found.hint)
    return RequestError(INTERNAL, "the store could not answer", found.hint, status=500)
