"""METADATA FROM 'timestamp' | 'uuid' | 'auth.claim': origin of the value of a column or a parameter.

In: the clause and the type beside it. Out: a `Metadata`, or an error at its position. `belvedere.time.arrival_columns`
and `belvedere.intake.claims` compute the values.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from belvedere.catalog.inputs import Metadata, MetadataKind
from belvedere.errors import fail
from belvedere.functions.spark_types import a_type
from belvedere.schema import TIMESTAMP
from belvedere.syntax.statement_tree import MetadataClause
from belvedere.syntax.wording import nearest_name

AUTH = "auth."
KNOWN = ("timestamp", "uuid")
_ROW = "declare it as a column without METADATA, and send it with the row"
OF_KAFKA = {
    "key": "name the columns of the key in PRIMARY KEY, or " + _ROW,
    "topic": _ROW,
    "partition": _ROW,
    "offset": "use `_uid`, which increases with each arrival; or " + _ROW,
    "headers": _ROW,
    "leader-epoch": _ROW,
    "timestamp-type": "remove it: METADATA FROM 'timestamp' is always the time of arrival",
}
"""Metadata of Kafka records in Flink SQL that pushed rows do not have, with replacements."""


def read_metadata(clause: MetadataClause, name: str, type_: pa.DataType, *, parameter: bool = False) -> Metadata:
    """Return the metadata that a clause defines for a column or parameter of a type."""
    found = _named(clause, name)
    if parameter and found.kind is not MetadataKind.CLAIM:
        hint = f"a parameter comes from the caller, or from the caller's token: {name} TYPE METADATA FROM 'auth.sub'"
        raise fail("B1033", f"parameter `{name}` cannot be {found.meaning}", span=clause.span, hint=hint)
    requested = {MetadataKind.TIMESTAMP: "TIMESTAMP", MetadataKind.UUID: "STRING"}.get(found.kind)
    if not _fits(found.kind, type_):
        hint = f"declare it as {name} {requested or 'STRING'} METADATA FROM '{clause.name}'"
        message = f"`{name}` is {a_type(type_)}, and `{clause.name}` gives {requested or 'texts, numbers and booleans'}"
        raise fail("B4040", message, span=clause.span, hint=hint)
    return found


def _named(clause: MetadataClause, name: str) -> Metadata:
    said = clause.name
    if said.casefold() in ("timestamp", "uuid"):
        return Metadata(MetadataKind(said.casefold()))
    path = tuple(said[len(AUTH) :].split(".")) if said.casefold().startswith(AUTH) else ()
    if path and all(path):
        return Metadata(MetadataKind.CLAIM, path)
    if said.casefold() in OF_KAFKA:
        message = f"`{name}` comes from METADATA `{said}`, which only Kafka records have, not pushed rows"
        raise fail("B1033", message, span=clause.span, hint=OF_KAFKA[said.casefold()])
    nearest = nearest_name(said, KNOWN)
    hint = (
        f"did you mean '{nearest}'?"
        if nearest
        else "write 'timestamp', 'uuid' or 'auth.claim', or send the value with the row"
    )
    raise fail("B1033", f"`{name}` comes from METADATA `{said}`, which is not known", span=clause.span, hint=hint)


def _fits(kind: MetadataKind, type_: Any) -> bool:
    if kind is MetadataKind.TIMESTAMP:
        return bool(type_ == TIMESTAMP)
    if kind is MetadataKind.UUID:
        return bool(pa.types.is_string(type_))
    return not (pa.types.is_nested(type_) or pa.types.is_binary(type_))
