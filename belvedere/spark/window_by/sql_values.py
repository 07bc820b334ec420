"""Values of a SQL++ query as Spark SQL text: a scalar with its MISSING flag, or an object field by field.

In: texts and Arrow types. Out: `Value`s and texts made of them. Expressions are translated in `native`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from belvedere.functions.types import is_interval, quote, type_text
from belvedere.functions.window_by import DURATION
from belvedere.lang.window_by.type_rules import field_index

DAY = 86_400_000_000


class Untranslatable(Exception):
    """Spark SQL has no text of the same sense."""


@dataclass(frozen=True)
class SqlValue:
    """A value as SQL text; `missing` is text of a condition, None for never. The text is NULL where the value is MISSING."""

    sql: str
    type: pa.DataType
    missing: str | None = None


@dataclass(frozen=True)
class Object:
    """An object known field by field; it is never NULL itself."""

    fields: Mapping[str, Value]
    missing: str | None = None

    @property
    def type(self) -> pa.DataType:
        return pa.struct([(n, f.type) for n, f in self.fields.items()])


Value = SqlValue | Object
NULL = SqlValue("NULL", pa.null())
MISSING_VALUE = SqlValue("NULL", pa.null(), "TRUE")


def quoted(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def name(text: str) -> str:
    """A quoted identifier."""
    return quote(text)


def sql_type(type_: pa.DataType) -> str:
    """Spark's name of an Arrow type (a duration is BIGINT here)."""
    if type_ == DURATION:
        return "BIGINT"
    if pa.types.is_list(type_):
        return f"ARRAY<{sql_type(type_.value_type)}>"
    if pa.types.is_struct(type_):
        return "STRUCT<" + ", ".join(f"{quote(f.name)}: {sql_type(f.type)}" for f in type_) + ">"
    if pa.types.is_map(type_) or is_interval(type_):
        raise Untranslatable(str(type_))
    return type_text(type_)


def any_of(*conditions: str | None) -> str | None:
    """The OR of conditions that are there."""
    found = list(dict.fromkeys(c for c in conditions if c is not None))
    return None if not found else found[0] if len(found) == 1 else "(" + " OR ".join(found) + ")"


def merge(value: Value) -> SqlValue:
    """One SQL text for the value; MISSING fields of an object become NULL."""
    if isinstance(value, SqlValue):
        return value
    members = ", ".join(f"{quoted(n)}, {merge(f).sql}" for n, f in value.fields.items())
    text = f"named_struct({members})"
    return SqlValue(text if value.missing is None else f"IF({value.missing}, NULL, {text})", value.type, value.missing)


def converted(value: SqlValue, type_: pa.DataType) -> str:
    """The text cast to another type that can hold the value."""
    if value.type == type_:
        return value.sql
    if pa.types.is_date(value.type) and pa.types.is_timestamp(type_):
        return f"timestamp_seconds(unix_date({value.sql}) * 86400L)"
    return f"CAST({value.sql} AS {sql_type(type_)})"


def micros(value: SqlValue) -> str:
    """A date, instant or duration as BIGINT microseconds."""
    if pa.types.is_date(value.type):
        return f"(CAST(unix_date({value.sql}) AS BIGINT) * {DAY}L)"
    if pa.types.is_timestamp(value.type):
        if value.type.tz is None:
            raise Untranslatable("timestamp without zone")
        return f"unix_micros({value.sql})"
    return value.sql


def field(value: Value, wanted: str) -> Value:
    """The field of an object; MISSING where there is none."""
    if isinstance(value, Object):
        names = list(value.fields)
        folded = [n for n in names if n.casefold() == wanted.casefold()]
        found = wanted if wanted in names else folded[0] if len(folded) == 1 else None
        return MISSING_VALUE if found is None else with_missing(value.fields[found], value.missing)
    if pa.types.is_null(value.type):
        return value
    if not pa.types.is_struct(value.type):
        if pa.types.is_map(value.type):
            raise Untranslatable("map")
        return SqlValue("NULL", pa.null(), any_of(value.missing, f"({value.sql}) IS NOT NULL"))
    index = field_index(value.type, wanted)
    if index < 0:
        return SqlValue("NULL", pa.null(), any_of(value.missing, f"({value.sql}) IS NOT NULL"))
    chosen = value.type.field(index)
    return SqlValue(f"{value.sql}.{name(chosen.name)}", chosen.type, value.missing)


def with_missing(value: Value, missing: str | None) -> Value:
    """The same value, MISSING also where `missing` holds."""
    if missing is None:
        return value
    if isinstance(value, Object):
        return Object(value.fields, any_of(value.missing, missing))
    return SqlValue(value.sql, value.type, any_of(value.missing, missing))
