"""Avro: each message is one value, whose schema is a file of the project, or one of a schema registry that the message names.

With a registry a message begins with a zero byte and the schema's number in four bytes. A message is read by the schema with which it was
written; its fields go to the columns of their names. Needs fastavro (`pip install 'belvedere[avro]'`).
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import Request, urlopen

import pyarrow as pa

from belvedere.connectors.kafka.formats.decoded import Decoded, nullable
from belvedere.errors import BelvedereError, fail
from belvedere.functions.types import type_text
from belvedere.schema import TIMESTAMP, Column

T = pa.types
PREFIX = 5
SECONDS = 10.0
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


def columns(table: str, values: Sequence[bytes], options: Mapping[str, Any]) -> pa.Schema:
    """The fields of the schema; with a registry of that of the newest message. Raises B6205."""
    schema: Any = None
    if "registry" in options:
        framed = [v for v in values if _is_framed(v)]
        if not framed:
            hint = f"send some, or declare its columns under [sources.<name>.tables.{table}]"
            raise fail("B6103", f'table "{table}" has no messages that would name their schema', hint=hint)
        schema = _of_registry(str(options["registry"]), _number(framed[-1]))
    else:
        schema = _parsed(_text_of(options))
    if not isinstance(schema, dict) or schema["type"] != "record":
        raise fail(
            "B6205", f'the Avro schema of table "{table}" is no record', hint="a message is a record, its fields are columns"
        )
    return pa.schema([pa.field(f["name"], _arrow(f["type"], f["name"])) for f in schema["fields"]])


def decode(values: Sequence[bytes], columns: Sequence[Column], options: Mapping[str, Any]) -> Decoded:
    """The rows; a message that cannot be read by its schema, or whose values do not fit, is refused."""
    read, refused = _reader(options), dict[int, str]()
    found: list[dict[str, Any]] = []
    for place, value in enumerate(values):
        record: Any = {}
        try:
            record = read(value)
        except BelvedereError:  # the registry does not answer: nothing is wrong with the message
            raise
        except _Refused as error:
            refused[place] = str(error)
        except Exception as error:  # whatever the decoder stumbles over
            refused[place] = f"is not Avro of its schema: {type(error).__name__}: {error}"[:300]
        found.append(record if isinstance(record, dict) else {})
    arrays = [_column([r.get(c.name) for r in found], c, refused) for c in columns]
    return Decoded(pa.table(arrays, schema=nullable(columns)), refused=refused)


class _Refused(Exception):
    """Why a message is no row."""


def _reader(options: Mapping[str, Any]) -> Callable[[bytes], Any]:
    fastavro = _library()
    if "registry" not in options:
        schema = _parsed(_text_of(options))
        return lambda value: fastavro.schemaless_reader(io.BytesIO(value), schema)
    address = str(options["registry"])

    def read(value: bytes) -> Any:
        if not _is_framed(value):
            raise _Refused("does not begin with the number of a schema")
        return fastavro.schemaless_reader(io.BytesIO(value[PREFIX:]), _of_registry(address, _number(value)))

    return read


def _library() -> Any:
    try:
        import fastavro
    except ImportError as error:
        raise fail("B6205", "messages of Avro need fastavro", hint="pip install 'belvedere[avro]'") from error
    return fastavro


def _text_of(options: Mapping[str, Any]) -> str:
    text = options.get("schema")
    if text is None:
        hint = 'write `schema = "order.avsc"` under [sources.NAME.tables.TABLE], or `registry = "http://localhost:8081"` in the source'
        raise fail("B6205", "messages of Avro need a schema", hint=hint)
    return str(text)


@cache
def _parsed(text: str) -> Any:
    try:
        return _library().parse_schema(json.loads(text))
    except Exception as error:  # not JSON, or no schema
        raise fail("B6205", "the Avro schema cannot be understood", detail=str(error)) from error


@cache
def _of_registry(address: str, number: int) -> Any:
    """A schema of a registry, which never changes. Raises B6205."""
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    url = urlunsplit((parts.scheme, host, f"{parts.path.rstrip('/')}/schemas/ids/{number}", "", ""))
    headers = {"Accept": "application/vnd.schemaregistry.v1+json"}
    if parts.username is not None:
        told = base64.b64encode(f"{parts.username}:{parts.password or ''}".encode()).decode()
        headers["Authorization"] = f"Basic {told}"
    try:
        with urlopen(Request(url, headers=headers), timeout=SECONDS) as answer:
            return _parsed(json.load(answer)["schema"])
    except (URLError, OSError, ValueError, KeyError) as error:
        message = f"the schema registry at {parts.scheme}://{host} does not give schema {number}"
        raise fail("B6205", message, detail=str(error), hint="see that it runs, and that `registry` names it") from error


def _is_framed(value: bytes) -> bool:
    return len(value) >= PREFIX and value[0] == 0


def _number(value: bytes) -> int:
    return int.from_bytes(value[1:PREFIX], "big")


def _arrow(schema: Any, name: str) -> pa.DataType:
    """The type of a column. Raises B6205 for a union of several types."""
    if isinstance(schema, list):
        some = [s for s in schema if s != "null"]
        if len(some) != 1:
            hint = "declare the table's columns without it, or write the field with one type or null"
            raise fail("B6205", f'field "{name}" of the Avro schema may have several types', hint=hint)
        return _arrow(some[0], name)
    if isinstance(schema, str):
        return SIMPLE.get(schema, pa.string())
    logical = schema.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(int(schema["precision"]), int(schema.get("scale", 0)))
    if logical in SIMPLE:
        return SIMPLE[logical]
    match schema["type"]:
        case "array":
            return pa.list_(_arrow(schema["items"], name))
        case "map":
            return pa.map_(pa.string(), _arrow(schema["values"], name))
        case "record":
            return pa.struct([(f["name"], _arrow(f["type"], f["name"])) for f in schema["fields"]])
        case other:
            return _arrow(other, name)


def _column(values: list[Any], column: Column, refused: dict[int, str]) -> pa.Array:
    """The values as the column has them; a row whose value does not fit is refused."""
    fitted = [_fitted(v, column.type) for v in values]
    try:
        made = pa.array(fitted, column.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        made = pa.array([_alone(v, n, column, refused) for n, v in enumerate(fitted)], column.type)
    if not column.nullable:
        for place, value in enumerate(fitted):
            if value is None:
                refused.setdefault(place, f'column "{column.name}" is NULL')
    return made


def _alone(value: Any, place: int, column: Column, refused: dict[int, str]) -> Any:
    try:
        pa.array([value], column.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        refused.setdefault(place, f'column "{column.name}": {str(value)[:200]} is not of type {type_text(column.type)}')
        return None
    return value


def _fitted(value: Any, type_: pa.DataType) -> Any:
    """What Arrow takes for a type: maps as pairs, UUIDs and other values as text where the column is text."""
    if value is None:
        return None
    if T.is_map(type_) and isinstance(value, dict):
        return [(k, _fitted(v, type_.item_type)) for k, v in value.items()]
    if T.is_struct(type_) and isinstance(value, dict):
        return {f.name: _fitted(value.get(f.name), f.type) for f in type_}
    if T.is_list(type_) and isinstance(value, list):
        return [_fitted(v, type_.value_type) for v in value]
    if T.is_string(type_) and not isinstance(value, str | bytes):
        return json.dumps(value, default=str) if isinstance(value, dict | list | bool) else str(value)
    return value
