"""Protobuf: each message has a type of the project's descriptor set, or of a registry's schema that the message names.

With a registry a message begins with the schema's id and the message index. Fields go to the columns of the same names.
An absent field is NULL if its schema distinguishes absence from a default (`optional`, members of a `oneof`, messages),
else its default. The default in proto2 is the declared one, if any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from operator import attrgetter
from typing import Any, TypeAlias

import pyarrow as pa

from belvedere.connectors.kafka.formats.decoded_rows import Decoded, Sample
from belvedere.connectors.kafka.formats.descriptors import ProtobufSchema, library, of_file, of_registry, unframed
from belvedere.connectors.kafka.formats.payload_values import RefusedMessage, rows_of
from belvedere.connectors.kafka.formats.registry import NOT_FRAMED, newest_known, number_of, of_message
from belvedere.errors import fail
from belvedere.schema import TIMESTAMP, Column
from belvedere.values.rejections import Reason, RejectionKind

Get: TypeAlias = Callable[[Any], Any]
DURATION = pa.duration("us")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WIDE = pa.decimal128(20, 0)
"""Type that holds unsigned 64-bit numbers."""
INT, LONG, DOUBLE, FLOAT = pa.int32(), pa.int64(), pa.float64(), pa.float32()
SCALARS: tuple[pa.DataType, ...] = (
    *(pa.null(), DOUBLE, FLOAT, LONG, WIDE, INT, WIDE, LONG, pa.bool_(), pa.string()),
    *(pa.null(), pa.null(), pa.binary(), LONG, pa.string(), INT, LONG, INT, LONG),
)
"""Types by their number in a descriptor: 1 is double, 18 sint64; 10 and 11 are messages, 14 is an enum."""
ENUM = 14
WRAPPERS = {
    f"google.protobuf.{n}Value"
    for n in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
JSON = {f"google.protobuf.{n}" for n in ("Struct", "Value", "ListValue")}
MAX_NANOS = 1_000_000_000
AWAY_TIME = "has a time outside the years 1 to 9999"


def columns(table: str, sample: Sample, options: Mapping[str, Any]) -> pa.Schema:
    """Return the fields of the message type as columns; with a registry that of the newest message. Raises B6205."""
    if "schema" in options:
        kind = of_file(options["schema"]).named(options.get("message"))
    elif "registry" in options:
        kind = newest_known(table, sample(), lambda value: _Framed(options).kind(value)[0])
    else:
        hint = (
            'write `schema = "order.desc"` under [sources.NAME.tables.TABLE], '
            'or `registry = "http://localhost:8081"` in the source'
        )
        raise fail("B6205", "messages of Protobuf need a schema", hint=hint)
    return pa.schema([pa.field(f.name, _arrow(f, (kind.full_name,))) for f in kind.fields])


def decode(values: Sequence[bytes], columns: Sequence[Column], options: Mapping[str, Any]) -> Decoded:
    """Return the rows. A message that cannot be parsed as its type, or whose values do not fit, is rejected."""
    names, what = tuple(c.name for c in columns), "Protobuf of its schema"
    if "registry" in options:
        framed = _Framed(options)

        def read(value: bytes) -> Mapping[str, Any]:
            kind, rest = framed.kind(value)
            return _read(_reader(kind, names), rest)

        return rows_of(values, read, columns, what)
    if "schema" not in options:
        raise fail("B6205", "messages of Protobuf need a schema", hint='write `schema = "order.desc"` under the table')
    reader = _reader(of_file(options["schema"]).named(options.get("message")), names)
    return rows_of(values, lambda value: _read(reader, value), columns, what)


class _Framed:
    """Messages that name their schema and type. A descriptor set of the project replaces the registry's schemas."""

    def __init__(self, options: Mapping[str, Any]):
        self.address, self.message = str(options["registry"]), options.get("message")
        self.own: ProtobufSchema | None = of_file(options["schema"]) if "schema" in options else None
        self.only = None if self.own is None else self.own.named(self.message)
        self.kinds: dict[tuple[int, tuple[int, ...]], Any] = {}

    def kind(self, value: bytes) -> tuple[Any, bytes]:
        """Return the type of a message, and its bytes without the header that names it. Raises RefusedMessage."""
        number = number_of(value)
        if number is None:
            raise RefusedMessage(NOT_FRAMED)
        path, rest = unframed(value)
        if (number, path) not in self.kinds:
            self.kinds[number, path] = self._found(number, path)
        kind = self.kinds[number, path]
        if self.message is not None and kind.full_name != self.message:
            raise RefusedMessage(Reason(f"is a {kind.full_name}, not a {self.message}"))
        return kind, rest

    def _found(self, number: int, path: tuple[int, ...]) -> Any:
        schema = self.own or of_message(number, self.address, of_registry)
        try:
            return schema.at(schema.files[-1] if self.only is None else self.only.file.name, path)
        except IndexError:
            raise RefusedMessage(Reason(f"names a message type that schema {number} does not have")) from None


def _read(reader: tuple[Any, tuple[tuple[str, Get], ...]], value: bytes) -> Mapping[str, Any]:
    class_, getters = reader
    message = class_.FromString(value)
    if not message.IsInitialized():
        raise RefusedMessage(Reason(f"lacks {', '.join(message.FindInitializationErrors())}"[:300]))
    return {name: get(message) for name, get in getters}


@cache
def _reader(kind: Any, names: tuple[str, ...]) -> tuple[Any, tuple[tuple[str, Get], ...]]:
    """Return the class of a message type, and getters of the fields with these names."""
    fields = kind.fields_by_name
    return library().GetMessageClass(kind), tuple((n, _getter(fields[n])) for n in names if n in fields)


@cache
def _getter(field: Any) -> Get:
    """Return the function that reads a field of a message."""
    name = field.name
    if _is_map(field):
        one = _value(field.message_type.fields_by_name["value"])
        return lambda m: {k: one(v) for k, v in getattr(m, name).items()}
    one = _value(field)
    if field.is_repeated:
        return lambda m: [one(v) for v in getattr(m, name)]
    if not field.has_presence or field.has_default_value:
        return attrgetter(name) if one is _as_it_is else lambda m: one(getattr(m, name))
    return lambda m: one(getattr(m, name)) if m.HasField(name) else None


def _value(field: Any) -> Get:
    """Return the function that converts a value of a field's type to a Python value."""
    if field.type == ENUM:
        names = {n: v.name for n, v in field.enum_type.values_by_number.items()}
        return lambda v: names.get(v, str(v))
    kind = field.message_type
    if kind is None:
        return _as_it_is
    name = kind.full_name
    if name == "google.protobuf.Timestamp":
        return _instant
    if name == "google.protobuf.Duration":
        return lambda v: timedelta(seconds=v.seconds, microseconds=int(v.nanos / 1_000))
    if name in WRAPPERS:
        return lambda v: v.value
    if name in JSON:
        return _json
    return lambda v: {f.name: _getter(f)(v) for f in kind.fields}


def _as_it_is(value: Any) -> Any:
    return value


def _instant(value: Any) -> datetime:
    if not 0 <= value.nanos < MAX_NANOS:
        raise RefusedMessage(Reason(f"has a time with {value.nanos:,} nanoseconds"))
    try:
        return EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1_000)
    except OverflowError:
        raise RefusedMessage(Reason(f"{AWAY_TIME}: {value.seconds:,} seconds", RejectionKind.LOSS, AWAY_TIME)) from None


def _json(value: Any) -> str:
    from google.protobuf.json_format import MessageToJson  # comes with an extra

    return str(MessageToJson(value, indent=None, ensure_ascii=False))


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _arrow(field: Any, above: tuple[str, ...]) -> pa.DataType:
    """Return the type of a field's column. Recursive messages become JSON texts."""
    if _is_map(field):
        key, value = (field.message_type.fields_by_name[n] for n in ("key", "value"))
        return pa.map_(_arrow(key, above), _arrow(value, above))
    one = _arrow_one(field, above)
    return pa.list_(one) if field.is_repeated else one


def _arrow_one(field: Any, above: tuple[str, ...]) -> pa.DataType:
    kind = field.message_type
    if kind is None:
        return SCALARS[field.type]
    name = kind.full_name
    if name == "google.protobuf.Timestamp":
        return TIMESTAMP
    if name == "google.protobuf.Duration":
        return DURATION
    if name in WRAPPERS:
        return SCALARS[kind.fields_by_name["value"].type]
    if name in JSON or name in above or not kind.fields:
        return pa.string()
    return pa.struct([(f.name, _arrow(f, (*above, name))) for f in kind.fields])
