"""Avro: each message is one value. Its schema is a file of the project, or one of a schema registry that the message
names.

With a registry a message begins with a zero byte and the schema's id in four bytes. A message is read with the schema
with which it was written; its fields go to the columns of the same names. If there is also a file, it is the reader's
schema: its defaults and aliases apply. Needs fastavro (`pip install 'belvedere[avro]'`).
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from belvedere.connectors.kafka.formats.decoded_rows import COLUMN, Decoded, Sample
from belvedere.connectors.kafka.formats.payload_values import RefusedMessage, rows_of
from belvedere.connectors.kafka.formats.registry import (
    NOT_FRAMED,
    PREFIX,
    newest_known,
    number_of,
    of_message,
    registry_answer,
)
from belvedere.errors import fail
from belvedere.schema import TIMESTAMP, Column

SIMPLE: Mapping[str, pa.DataType] = {
    "null": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "date": pa.date32(),
    "timestamp-millis": TIMESTAMP,
    "timestamp-micros": TIMESTAMP,
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "uuid": pa.string(),
}


def columns(table: str, sample: Sample, options: Mapping[str, Any]) -> pa.Schema:
    """Return the schema's fields as columns, or one column if it is not a record. Raises B6205.

    With a registry the schema is that of the newest message.
    """
    if "registry" in options and "schema" not in options:
        schema = newest_known(
            table, sample(), lambda v: of_message(number_of(v) or 0, str(options["registry"]), _of_registry)
        )
    else:
        schema = _parsed(_text_of(options))
    named = schema.get("__named_schemas", {}) if isinstance(schema, dict) else {}
    if not isinstance(schema, dict) or schema["type"] != "record":
        return pa.schema([pa.field(COLUMN, _arrow(schema, COLUMN, named))])
    return pa.schema(
        [pa.field(f["name"], _arrow(f["type"], f["name"], named, (schema["name"],))) for f in schema["fields"]]
    )


def decode(values: Sequence[bytes], columns: Sequence[Column], options: Mapping[str, Any]) -> Decoded:
    """Return the rows. A message that its schema cannot read, or whose values do not fit, is rejected."""
    return rows_of(values, _reader(options), columns, "Avro of its schema")


def _reader(options: Mapping[str, Any]) -> Callable[[bytes], Any]:
    fastavro = _library()
    if "registry" not in options:
        schema = _parsed(_text_of(options))
        return lambda value: fastavro.schemaless_reader(io.BytesIO(value), schema)
    address = str(options["registry"])
    own = _parsed(_text_of(options)) if "schema" in options else None

    def read(value: bytes) -> Any:
        number = number_of(value)
        if number is None:
            raise RefusedMessage(NOT_FRAMED)
        written = of_message(number, address, _of_registry)
        return fastavro.schemaless_reader(io.BytesIO(value[PREFIX:]), written, own)

    return read


def _library() -> Any:
    try:
        import fastavro  # comes with an extra
    except ImportError as error:
        raise fail("B6205", "messages of Avro need fastavro", hint="pip install 'belvedere[avro]'") from error
    return fastavro


def _text_of(options: Mapping[str, Any]) -> str | bytes:
    text = options.get("schema")
    if text is None:
        hint = (
            'write `schema = "order.avsc"` under [sources.NAME.tables.TABLE], '
            'or `registry = "http://localhost:8081"` in the source'
        )
        raise fail("B6205", "messages of Avro need a schema", hint=hint)
    return text if isinstance(text, bytes) else str(text)


@cache
def _parsed(text: str | bytes) -> Any:
    try:
        return _library().parse_schema(json.loads(text))
    except Exception as error:  # not JSON, or no schema
        raise fail("B6205", "the Avro schema cannot be understood", detail=str(error)) from error


@cache
def _of_registry(address: str, number: int) -> Any:
    """Return a schema of a registry, which never changes. Raises B6205."""
    found = registry_answer(address, f"/schemas/ids/{number}", f"schema {number}")
    kind = str(found.get("schemaType") or "AVRO")
    if kind.upper() != "AVRO":
        raise fail("B6205", f"schema {number} of the registry has the type {kind}, not AVRO")
    return _parsed(found["schema"])


def _arrow(schema: Any, name: str, named: Mapping[str, Any], within: tuple[str, ...] = ()) -> pa.DataType:
    """Return the type of a column. `named` are the schema's named types, `within` those that enclose it.

    Raises B6205 for a union of several types, and for a record that contains itself.
    """
    if isinstance(schema, list):
        some = [s for s in schema if s != "null"]
        if len(some) != 1:
            hint = "declare the table's columns without it, or write the field with one type or null"
            raise fail("B6205", f'field "{name}" of the Avro schema may have several types', hint=hint)
        return _arrow(some[0], name, named, within)
    if isinstance(schema, str) and schema in named:
        if schema in within:
            hint = "declare the table's columns without it: a column cannot hold recursive records"
            raise fail("B6205", f'field "{name}" of the Avro schema contains itself', hint=hint)
        return _arrow(named[schema], name, named, within)
    if isinstance(schema, str):
        return SIMPLE.get(schema, pa.string())
    logical = schema.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(int(schema["precision"]), int(schema.get("scale", 0)))
    if logical in SIMPLE:
        return SIMPLE[logical]
    match schema["type"]:
        case "array":
            return pa.list_(_arrow(schema["items"], name, named, within))
        case "map":
            return pa.map_(pa.string(), _arrow(schema["values"], name, named, within))
        case "record":
            inner = (*within, schema["name"])
            return pa.struct([(f["name"], _arrow(f["type"], f["name"], named, inner)) for f in schema["fields"]])
        case other:
            return _arrow(other, name, named, within)
