"""64-bit integers as strings: JavaScript numbers hold 53 bits, and larger values are rounded silently.

In: the database's answer, and its read. Out: the same answer with every `Long` as a string, also within nested values.
Clients request it by `Prefer: longs=text` (RFC 7240) or `{"longs": "text"}` in `connection_init`; the project file by
`longs = "text"`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from belvedere.store.dialects.nested_json import has_text_keys, is_list
from belvedere.store.read.aggregates import aggregated_type
from belvedere.store.read.query import (
    AggregateField,
    Aggregation,
    ColumnField,
    Field,
    MemberField,
    Nested,
    ObjectField,
    Read,
    StoreQuery,
)
from belvedere.store.read.stored_values import is_long

TEXT, NUMBER = "text", "number"
APPLIED = {TEXT: "longs=text", NUMBER: "longs=number"}


def longs_asked(prefer: str, otherwise: bool) -> bool:
    """Return whether `Prefer` requests strings; `otherwise` if it does not mention them."""
    for each in prefer.replace(";", ",").split(","):
        name, _, value = each.strip().lower().partition("=")
        if name.strip() == "longs" and value.strip().strip('"') in APPLIED:
            return value.strip().strip('"') == TEXT
    return otherwise


def with_long_texts(data: bytes, read: Read, own: Iterable[str] = ()) -> bytes:
    """Return the answer with strings. `own` are internal pages: their total counts stay numbers."""
    found = json.loads(data)
    for item in read.fields:
        if isinstance(item, Nested):
            found[item.alias] = _of_query(item.query, found[item.alias], item.alias in own)
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()


def _of_query(query: StoreQuery, value: Any, own: bool = False) -> Any:
    if value is None:
        return None
    if query.page is not None:
        for alias, fields in query.page.nodes:
            value[alias] = [_row(fields, query, row) for row in value[alias]]
        return value | {alias: str(value[alias]) for alias in query.page.total_count if not own}
    return (
        [_row(query.fields, query, row) for row in value]
        if isinstance(value, list)
        else _row(query.fields, query, value)
    )


def _row(fields: Iterable[Field], query: StoreQuery, row: dict[str, Any]) -> dict[str, Any]:
    for item in fields:
        alias = item.alias
        if not is_client_name(alias):
            continue
        match item:
            case ColumnField():
                row[alias] = long_text(row[alias], query.schema[item.column].type)
            case MemberField():
                row[alias] = _member(item, query, row[alias])
            case AggregateField():
                row[alias] = long_text(row[alias], _type_of(item, query))
            case ObjectField():
                row[alias] = _row(item.fields, query, row[alias])
            case Nested():
                row[alias] = _of_query(item.query, row[alias])
    return row


def is_client_name(alias: str) -> bool:
    """Return whether a client can have chosen a name: internal names begin with a character that clients cannot use."""
    return not alias.startswith("~")


def _member(item: MemberField, query: StoreQuery, value: Any) -> Any:
    if value is None or not item.fields:
        return long_text(value, item.type)
    return _row(item.fields, query, value)


def _type_of(item: AggregateField, query: StoreQuery) -> pa.DataType:
    value = item.value
    counts = value.function in (Aggregation.ROWS, Aggregation.VALUES, Aggregation.DISTINCT)
    return pa.int64() if counts else aggregated_type(value.function, query.schema[value.column].type)


def long_text(value: Any, type_: pa.DataType) -> Any:
    """Return a value of the type with its 64-bit integers as strings, including intervals and times of day (`Long`)."""
    if value is None or isinstance(value, str):
        return value
    if (pa.types.is_integer(type_) and is_long(type_)) or pa.types.is_time(type_):
        return str(value)
    if pa.types.is_struct(type_) and isinstance(value, Mapping):
        return {f.name: long_text(value.get(f.name), f.type) for f in type_}
    if pa.types.is_map(type_):
        if has_text_keys(type_) and isinstance(value, Mapping):
            return {k: long_text(v, type_.item_type) for k, v in value.items()}
        return [[long_text(k, type_.key_type), long_text(v, type_.item_type)] for k, v in value]
    return [long_text(v, type_.value_type) for v in value] if is_list(type_) else value
