"""Values of a SQL++ query as Spark SQL text: a scalar with its MISSING flag, or an object field by field.

In: texts and Arrow types. Out: `Value`s and texts built from them. `native` translates expressions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

import pyarrow as pa

from belvedere.functions.spark_types import is_interval, quote, type_text
from belvedere.functions.sqlpp_functions import DURATION, unify
from belvedere.sqlpp.type_rules import RELATED, field_index, has_related, without_related

DAY = 86_400_000_000
NOTHING = "CAST(NULL AS STRING)"
"""NULL with the type of a column that contains only NULL."""
VARIABLE = re.compile(r"__[vw]\d+")
SIMPLE = re.compile(r"[`\w.]+")
NTZ_PARTS = (("DAY", DAY), ("HOUR", 3_600_000_000), ("MINUTE", 60_000_000), ("SECOND", 1_000_000))


class Untranslatable(Exception):
    """Spark SQL has no text with the same meaning."""


@dataclass(frozen=True)
class SqlValue:
    """A value as SQL text.

    `missing` is the text of a condition, None for never. The text is NULL if the value is MISSING.
    """

    sql: str
    type: pa.DataType
    missing: str | None = None


@dataclass(frozen=True)
class Object:
    """An object with known fields; it is never NULL itself."""

    fields: Mapping[str, Value]
    missing: str | None = None

    @property
    def type(self) -> pa.DataType:
        return pa.struct([(n, f.type) for n, f in self.fields.items()])


@dataclass(frozen=True)
class Array(SqlValue):
    """An array whose members may be MISSING, or are objects with fields that may be: `member` reads one from its text.

    It occurs only within one expression, and as the rows of a window. `whole` is the text of the array as stored in
    columns, if known.
    """

    whole: str | None = None
    member: Callable[[str], Value] = lambda text: SqlValue(text, pa.null())


Value = SqlValue | Object
NULL = SqlValue("NULL", pa.null())
MISSING_VALUE = SqlValue("NULL", pa.null(), "TRUE")


def quoted(text: str) -> str:
    """Return a string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def name(text: str) -> str:
    """Return a quoted identifier."""
    return quote(text)


def sql_type(type_: pa.DataType) -> str:
    """Return Spark's name of an Arrow type (a duration is BIGINT here)."""
    if type_ == DURATION:
        return "BIGINT"
    if pa.types.is_list(type_):
        return f"ARRAY<{sql_type(type_.value_type)}>"
    if pa.types.is_struct(type_):
        return "STRUCT<" + ", ".join(f"{quote(f.name)}: {sql_type(f.type)}" for f in type_) + ">"
    if pa.types.is_map(type_):
        return f"MAP<{sql_type(type_.key_type)}, {sql_type(type_.item_type)}>"
    if pa.types.is_null(type_):
        return "STRING"
    if is_interval(type_):
        raise Untranslatable(str(type_))
    return type_text(type_)


def any_of(*conditions: str | None) -> str | None:
    """Return the OR of the conditions that are not None; None if all are."""
    found = list(dict.fromkeys(c for c in conditions if c is not None))
    return None if not found else found[0] if len(found) == 1 else "(" + " OR ".join(found) + ")"


def merge(value: Value) -> SqlValue:
    """Return one SQL text for the value. MISSING fields of an object and MISSING members of an array become NULL."""
    if isinstance(value, Array):
        if value.whole is not None:
            return SqlValue(value.whole, value.type, value.missing)
        return SqlValue(each(value.sql, lambda x: merge(value.member(x)).sql), value.type, value.missing)
    if isinstance(value, SqlValue):
        return value
    members = ", ".join(f"{quoted(n)}, {merge(f).sql}" for n, f in value.fields.items())
    text = f"named_struct({members})"
    return SqlValue(text if value.missing is None else f"IF({value.missing}, NULL, {text})", value.type, value.missing)


def converted(value: SqlValue, type_: pa.DataType) -> str:
    """Cast the text to another type that can hold the value."""
    if value.type == type_:
        return value.sql
    if pa.types.is_null(type_):
        return NOTHING
    if pa.types.is_date(value.type) and pa.types.is_timestamp(type_):
        return f"timestamp_seconds(unix_date({value.sql}) * 86400L)"
    return f"CAST({value.sql} AS {sql_type(type_)})"


def unsortable(type_: pa.DataType) -> bool:
    """Return whether values of the type have no order: maps, and types that contain maps."""
    if pa.types.is_list(type_):
        return unsortable(type_.value_type)
    if pa.types.is_struct(type_):
        return any(unsortable(f.type) for f in type_)
    return bool(pa.types.is_map(type_))


def micros(value: SqlValue) -> str:
    """Return a date, instant or duration as BIGINT microseconds."""
    if pa.types.is_date(value.type):
        return f"(CAST(unix_date({value.sql}) AS BIGINT) * {DAY}L)"
    if pa.types.is_timestamp(value.type):
        if value.type.tz is None:
            since = f"({value.sql} - CAST('1970-01-01 00:00:00' AS TIMESTAMP_NTZ))"
            parts = (f"CAST(extract({unit} FROM {since}) * {size} AS BIGINT)" for unit, size in NTZ_PARTS)
            return "(" + " + ".join(parts) + ")"
        return f"unix_micros({value.sql})"
    return value.sql


def field(value: Value, requested: str) -> Value:
    """Return a field of an object; MISSING if it has no such field."""
    if isinstance(value, Object):
        names = list(value.fields)
        index = field_index(names, requested)
        return MISSING_VALUE if index < 0 else with_missing(value.fields[names[index]], value.missing)
    if pa.types.is_null(value.type):
        return value
    if not pa.types.is_struct(value.type):
        if pa.types.is_map(value.type):
            return entry(value, requested)
        return SqlValue("NULL", pa.null(), any_of(value.missing, f"({value.sql}) IS NOT NULL"))
    index = field_index([f.name for f in value.type], requested)
    if index < 0:
        return SqlValue("NULL", pa.null(), any_of(value.missing, f"({value.sql}) IS NOT NULL"))
    chosen = value.type.field(index)
    return SqlValue(f"{value.sql}.{name(chosen.name)}", chosen.type, value.missing)


def fields_of(value: Value) -> Mapping[str, Value]:
    """Return the fields of an object by name; empty for other values."""
    if isinstance(value, Object):
        return value.fields
    return {f.name: field(value, f.name) for f in value.type} if pa.types.is_struct(value.type) else {}


def with_missing(value: Value, missing: str | None) -> Value:
    """Return the value, MISSING also if `missing` is TRUE."""
    if missing is None:
        return value
    return replace(value, missing=any_of(value.missing, missing))


def entry(value: SqlValue, key: str) -> SqlValue:
    """Return a map's value: exact key first, then one that differs in case only; MISSING if there is none."""
    entries = f"transform_keys({value.sql}, ({(k := variable())}, {variable()}) -> CAST({k} AS STRING))"
    own, exact = quoted(key), f"array_contains(map_keys({entries}), {quoted(key)})"
    folded = f"map_values(map_filter({entries}, ({(a := variable())}, {variable()}) -> lower({a}) = lower({own})))"
    found = f"IF(size({folded}) = 1, try_element_at({folded}, 1), NULL)"
    missing = f"({value.sql} IS NOT NULL AND NOT {exact} AND size({folded}) <> 1)"
    text = f"IF({exact}, try_element_at({entries}, {own}), {found})"
    return SqlValue(text, value.type.item_type, any_of(value.missing, missing))


# -- arrays: texts of higher-order functions --

_numbers = count()


def variable() -> str:
    """Return a unique name for a lambda variable; `numbered` shortens it."""
    return f"__w{next(_numbers)}"


def numbered(text: str) -> str:
    """Return the text with lambda variables numbered in order of occurrence, so equal expressions give equal texts."""
    names: dict[str, str] = {}
    return VARIABLE.sub(lambda m: names.setdefault(m[0], f"__v{len(names)}"), text)


def each(array: str, body: Callable[[str], str], function: str = "transform") -> str:
    """Return a higher-order function over an array; the array itself if each member is mapped to itself."""
    x = variable()
    text = body(x)
    return array if text == x and function == "transform" else f"{function}({array}, {x} -> {text})"


def bound(text: str, body: Callable[[str], str]) -> str:
    """Return `body` of the text, which is evaluated once."""
    return body(text) if SIMPLE.fullmatch(text) else f"element_at({each(f'array({text})', body)}, 1)"


def may_miss(value: Value) -> bool:
    """Return whether the value, or a part of it, may be MISSING."""
    if isinstance(value, Object):
        return value.missing is not None or any(map(may_miss, value.fields.values()))
    return value.missing is not None or (isinstance(value, Array) and may_miss(value.member("x")))


def packed(value: Value) -> tuple[str, Callable[[str], Value]]:
    """Return one SQL text that keeps MISSING parts of the value, and a function that reads the value from such a
    text."""
    if not may_miss(value):
        whole = merge(value)
        return (NOTHING if pa.types.is_null(whole.type) else whole.sql), lambda t: SqlValue(t, whole.type)
    flag = f", 'm', {value.missing}" if value.missing is not None else ""
    if isinstance(value, Object):
        parts = {n: packed(f) for n, f in value.fields.items()}
        members = ", ".join(f"'f{i}', {text}" for i, (text, _) in enumerate(parts.values()))
        return f"named_struct({members}{flag})", lambda t: Object(
            {n: read(f"{t}.`f{i}`") for i, (n, (_, read)) in enumerate(parts.items())}, f"{t}.`m`" if flag else None
        )
    member = value.member if isinstance(value, Array) else None

    def plain(text: str, missing: str | None) -> Value:
        return SqlValue(text, value.type, missing) if member is None else Array(text, value.type, missing, None, member)

    if not flag:
        return value.sql, lambda t: plain(t, None)
    text = NOTHING if pa.types.is_null(value.type) else value.sql
    return f"named_struct('v', {text}{flag})", lambda t: plain(f"{t}.`v`", f"{t}.`m`")


def listed(array: str, read: Callable[[str], Value], missing: str | None = None) -> SqlValue:
    """Return an array whose members are read by `read`."""
    member = read("x")
    type_ = pa.list_(member.type)
    if member == SqlValue("x", member.type):
        return SqlValue(array, type_, missing)
    return Array(array, type_, missing, None, read)


def mapped(array: str, change: Callable[[str], Value]) -> SqlValue:
    """Return the array with `change` applied to each member's text."""
    x = variable()
    text, read = packed(change(x))
    return listed(array if text == x else f"transform({array}, {x} -> {text})", read)


def reader(array: SqlValue) -> Callable[[str], Value]:
    """Return the function that reads an element of the array from its text."""
    type_ = pa.null() if pa.types.is_null(array.type) else array.type.value_type
    return array.member if isinstance(array, Array) else lambda t: SqlValue(t, type_)


def is_known(value: Value) -> str:
    """Return the condition that a value is neither NULL nor MISSING."""
    if isinstance(value, Object):
        return "TRUE" if value.missing is None else f"NOT {value.missing}"
    return f"{merge(value).sql} IS NOT NULL"


def known_members(array: str, read: Callable[[str], Value]) -> str:
    """Return the array without members that are NULL or MISSING."""
    member = read("x")
    never = isinstance(member, Object) and member.missing is None
    return array if never else each(array, lambda x: is_known(read(x)), "filter")


def flat(value: Value) -> Value:
    """Return the value for use outside expressions: arrays as stored in columns, lambdas numbered."""
    missing = None if value.missing is None else numbered(value.missing)
    if isinstance(value, Object):
        return Object({n: flat(f) for n, f in value.fields.items()}, missing)
    whole = merge(value)
    return SqlValue(numbered(whole.sql), whole.type, missing)


def visible(value: Value) -> Value:
    """Return a stored value without the related rows that it has for paths."""
    if isinstance(value, Object):
        return replace(value, fields={n: visible(f) for n, f in value.fields.items() if not n.startswith(RELATED)})
    if not has_related(value.type):
        return value
    whole = merge(value)
    return SqlValue(numbered(_visible(whole.sql, whole.type)), without_related(whole.type), whole.missing)


def _visible(text: str, type_: pa.DataType) -> str:
    if not has_related(type_):
        return text
    if pa.types.is_list(type_):
        return each(text, lambda x: _visible(x, type_.value_type))
    kept = [f for f in type_ if not f.name.startswith(RELATED)]
    members = ", ".join(f"{quoted(f.name)}, {_visible(f'{text}.{name(f.name)}', f.type)}" for f in kept)
    return f"IF({text} IS NULL, NULL, named_struct({members}))"


# -- several values of one form --


def aligned(values: Sequence[Value]) -> list[Value]:
    """Return the values with the same fields and types, each with a MISSING flag if any has one."""
    flagged = any(v.missing is not None for v in values)
    flags = [(v.missing or "FALSE") if flagged else None for v in values]
    objects = [v for v in values if isinstance(v, Object)]
    if len(objects) == len(values) and all(list(o.fields) == list(objects[0].fields) for o in objects):
        columns = {n: aligned([o.fields[n] for o in objects]) for n in objects[0].fields}
        return [Object({n: c[i] for n, c in columns.items()}, flags[i]) for i in range(len(objects))]
    type_ = unify([v.type for v in values])
    if type_ is None:
        raise Untranslatable("values of several types")
    return [SqlValue(converted(merge(v), type_), type_, m) for v, m in zip(values, flags, strict=True)]


def chosen(conditions: Sequence[str], values: Sequence[Value]) -> Value:
    """Return CASE: the value of the first condition that is TRUE, else the last value."""
    return _chosen(conditions, aligned(values))


def _chosen(conditions: Sequence[str], values: Sequence[Value]) -> Value:
    flags = [v.missing for v in values]
    missing = None if flags[0] is None else _case(conditions, [str(f) for f in flags])
    first = values[0]
    if isinstance(first, Object):
        return Object(
            {n: _chosen(conditions, [v.fields[n] for v in values if isinstance(v, Object)]) for n in first.fields},
            missing,
        )
    return SqlValue(_case(conditions, [merge(v).sql for v in values]), first.type, missing)


def _case(conditions: Sequence[str], texts: Sequence[str]) -> str:
    if len(set(texts)) == 1:
        return texts[0]
    return (
        "CASE "
        + " ".join(f"WHEN {c} THEN {t}" for c, t in zip(conditions, texts, strict=False))
        + f" ELSE {texts[-1]} END"
    )
