"""Message keys as columns: the primary key of messages without a value, and columns with `metadata = key`.

In: keys, their format, columns. Out: rows, and the reason if a key is not valid. A key is a record with fields of the
columns' names, or the bare value of the one column. Runs in Spark's tasks: nothing here imports PySpark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

from belvedere.connectors.kafka.formats import format_named
from belvedere.connectors.kafka.formats import json as json_format
from belvedere.connectors.kafka.formats.decoded_rows import COLUMN, Decoded, Sample
from belvedere.connectors.kafka.formats.payload_values import MISFITS, RefusedMessage, rows_of
from belvedere.connectors.keys.kafka import MESSAGE_FORMATS
from belvedere.errors import fail
from belvedere.lang.types.samples import arrow_type, kind_of_value, merge
from belvedere.schema import Column
from belvedere.values.decimals import decimals_of
from belvedere.values.rejections import Reason, RejectionKind

T = pa.types


@dataclass(frozen=True)
class KeyFormat:
    """Format of keys; without a `name` JSON, or plain text."""

    name: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def decode(self, keys: Sequence[bytes], columns: Sequence[Column]) -> Decoded:
        """Return the columns of keys, and reasons of rejected keys."""
        if self.name in ("avro", "protobuf"):
            found = format_named(self.name).decode(keys, columns, self.options)
        else:
            read = _reader(columns, _text if self.name == "text" else _json if self.name == "json" else _any)
            found = rows_of(keys, read, columns, "JSON", RejectionKind.NOT_JSON)
        how = "has a key that does not fit"
        refused = {n: Reason(f"{how}: {reason}", RejectionKind.KEY, how) for n, reason in found.refused.items()}
        return Decoded(found.rows, refused=refused)

    def types(self, table: str, names: Sequence[str], sample: Sample) -> dict[str, pa.DataType]:
        """Return the types of the columns that keys hold. Raises B6205 if the key does not have one, B6103."""
        if not names or self.name is None or self.name == "text":
            return dict.fromkeys(names, pa.string())
        found = (
            self._sampled(table, sample)
            if self.name == "json"
            else format_named(self.name).columns(table, sample, self.options)
        )
        if len(names) == 1 and found.names == [COLUMN] and names[0] != COLUMN:
            return {names[0]: found.field(0).type}
        for name in names:
            if name not in found.names:
                hint = f"it has: {', '.join(found.names)}"
                raise fail("B6205", f'the keys of table "{table}" have no field "{name}"', hint=hint)
        return {name: found.field(name).type for name in names}

    def _sampled(self, table: str, sample: Sample) -> pa.Schema:
        keys, kind = sample(), None
        for key in keys:
            try:
                value = json.loads(key)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                return json_format.columns(table, lambda: keys, {})
            kind = merge(kind, kind_of_value(value))
        if kind is None:
            return json_format.columns(table, list, {})
        return pa.schema([pa.field(COLUMN, arrow_type(kind))])


def key_format(source: str, table: str, name: str | None, options: Mapping[str, Any]) -> KeyFormat:
    """Return the format of a table's keys. Raises B6206."""
    if name is not None and name not in MESSAGE_FORMATS:
        listed = ", ".join(f'"{n}"' for n in MESSAGE_FORMATS)
        raise fail(
            "B6206", f'keys of table "{table}" of source "{source}" cannot be "{name}"', hint=f"write one of {listed}"
        )
    return KeyFormat(name, options)


def _reader(columns: Sequence[Column], read: Callable[[str], Any]) -> Callable[[bytes], Mapping[str, Any]]:
    """Return the function that converts a key to values of columns."""

    def record(key: bytes) -> Mapping[str, Any]:
        try:
            text = key.decode()
        except UnicodeDecodeError:
            raise RefusedMessage(Reason("is not UTF-8", RejectionKind.ENCODING)) from None
        value = read(text)
        if not isinstance(value, dict) and len(columns) == 1:
            of_text = T.is_string(columns[0].type) and read is _any
            value = {columns[0].name: text if of_text else value}
        elif isinstance(value, dict) and read is _any and len(columns) == 1 and columns[0].name not in value:
            value = {columns[0].name: text} if T.is_string(columns[0].type) else value
        if not isinstance(value, dict):
            raise RefusedMessage(Reason(f"is not an object with {', '.join(c.name for c in columns)}"))
        return {c.name: _typed(value.get(c.name), c) for c in columns}

    return record


def _text(key: str) -> Any:
    return key


def _json(key: str) -> Any:
    try:
        return json.loads(key, parse_float=Decimal)
    except RecursionError:
        raise RefusedMessage(Reason("is nested too deeply")) from None


def _any(key: str) -> Any:
    try:
        return json.loads(key, parse_float=Decimal)
    except (ValueError, RecursionError):
        return key


def _typed(value: Any, column: Column) -> Any:
    """Convert a JSON value to the column's type. Times and numbers may be texts."""
    if isinstance(value, Decimal) and T.is_floating(column.type):
        return float(value)
    if isinstance(value, str) and T.is_binary(column.type):
        return value.encode()
    if isinstance(value, str) and not T.is_string(column.type):
        try:
            values = pa.array([value])
            return (decimals_of(values, column.type) if T.is_decimal(column.type) else values.cast(column.type))[
                0
            ].as_py()
        except MISFITS:
            return value
    return value
