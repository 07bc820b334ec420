"""Conversion of a table's messages to rows: format, metadata columns, and the meaning of a message without a value.

In: messages of one partition. Out: a `Chunk`. Runs in Spark's tasks: nothing here imports PySpark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message

from belvedere.connectors.kafka.formats import format_named
from belvedere.connectors.kafka.formats.decoded_rows import Decoded
from belvedere.connectors.kafka.message_keys import KeyFormat
from belvedere.connectors.reading.long_lines import SHOWN, limit_of, too_long
from belvedere.decode.row_values import placed, row_schema
from belvedere.errors import fail
from belvedere.functions.spark_types import type_text
from belvedere.schema import TIMESTAMP, WEIGHT, Column
from belvedere.values.rejections import Reason, RejectionKind
from belvedere.values.time_range import instant_of_milliseconds, rows_beyond

HEADERS = pa.map_(pa.string(), pa.string())
METADATA: Mapping[str, tuple[pa.DataType, Callable[[Message], Any]]] = {
    "topic": (pa.string(), lambda m: m.topic()),
    "partition": (pa.int32(), lambda m: m.partition()),
    "offset": (pa.int64(), lambda m: m.offset()),
    "timestamp": (TIMESTAMP, lambda m: instant_of_milliseconds(m.timestamp()[1]) if m.timestamp()[0] else None),
    "key": (pa.string(), lambda m: _text(m.key())),
    "headers": (HEADERS, lambda m: list({k: _text(v) for k, v in m.headers() or ()}.items())),
}
"""Metadata columns of a message: type and getter. Of headers with the same name the last one counts."""
NO_VALUE = Reason(
    "has no value: only a table with a primary key accepts deletes", RejectionKind.NO_VALUE, "has no value"
)
NO_KEY = Reason("has no value, and no key of the row to delete", RejectionKind.NO_VALUE)
NO_KEY_AT_ALL = Reason("has no key", RejectionKind.KEY)
BAD_KEY = Reason("has a key that is not UTF-8", RejectionKind.KEY)


class Unquoted(str):
    """A number that JSON does not have (NaN, Infinity), as written."""


def _json_of(text: str) -> tuple[bool, Any]:
    """Return whether a text is JSON, and its value."""
    try:
        return True, json.loads(text, parse_constant=Unquoted)
    except (ValueError, RecursionError):
        return False, None


def _has_plain_json(type_: pa.DataType) -> bool:
    """Return whether JSON writes values of the type without quotes."""
    types = pa.types
    return bool(
        types.is_integer(type_)
        or types.is_floating(type_)
        or types.is_decimal(type_)
        or types.is_boolean(type_)
        or types.is_nested(type_)
    )


def _is_text(key: bytes | None) -> bool:
    try:
        return key is None or key.decode() is not None
    except UnicodeDecodeError:
        return False


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class Undecided:
    """A message that is left to Spark's reader: its index in the chunk, its offset, its text."""

    place: int
    offset: int
    text: bytes


@dataclass(frozen=True)
class Refused:
    """A rejected message."""

    place: int
    offset: int
    text: str | None
    reason: Reason


@dataclass(frozen=True)
class Chunk:
    """Messages of the partition `label`, in order, one row each; all columns are NULL if it is undecided or
    rejected."""

    label: str
    rows: pa.Table
    undecided: tuple[Undecided, ...] = ()
    refused: tuple[Refused, ...] = ()
    times: Any = None
    """Time of each message in milliseconds, never before the previous one in its partition; None if tasks read it."""


@dataclass(frozen=True)
class MessageShape:
    """The parts of a message that form a table's rows. Raises B6206 if a metadata column has a wrong type."""

    format: str
    columns: tuple[Column, ...]
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Columns with metadata of a message: name -> one of `METADATA`."""
    primary_key: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    keys: KeyFormat = field(default_factory=KeyFormat)
    """Format of the messages' keys."""

    def __post_init__(self) -> None:
        for name, kind in self.metadata.items():
            found = next((c for c in self.columns if c.name == name), None)
            if found is not None and found.type != METADATA[kind][0] and name not in self._of_keys:
                requested = type_text(METADATA[kind][0])
                raise fail(
                    "B6206", f'column "{name}" is the {kind} of a message', hint=f'declare it as {name} = "{requested}"'
                )

    @property
    def payload(self) -> tuple[Column, ...]:
        """Columns in the values of messages."""
        return tuple(c for c in self.columns if c.name not in self.metadata)

    @property
    def schema(self) -> pa.Schema:
        """Columns of the rows; in a table with a key also their weight: -1 deletes."""
        weight = [pa.field(WEIGHT, pa.int64())] if self.primary_key else []
        return pa.schema([*row_schema(self.columns), *weight])

    @property
    def _keys_are_values(self) -> bool:
        """Whether the key of a message without a value is decoded with the format of values."""
        return self.format == "json" and self.keys.name is None

    @property
    def _of_keys(self) -> frozenset[str]:
        """Columns that all messages take from their keys."""
        return frozenset(n for n, k in self.metadata.items() if k == "key" and self.keys.name is not None)

    def chunk(self, label: str, messages: Sequence[Message]) -> Chunk:
        """Return the rows of messages of one partition."""
        gone = [n for n, m in enumerate(messages) if m.value() is None]
        why = NO_KEY if self.primary_key else NO_VALUE
        lost = {n: why for n in gone if not self.primary_key or messages[n].key() is None}
        decoded = self._values(messages, gone)
        keys = self._keys(messages, gone)
        whole = self._whole(decoded.rows, keys.rows, messages, gone)
        long = {n: too_long("the message") for n, m in enumerate(messages) if self._is_long(m.value())}
        refused = {
            **rows_beyond(whole, self.columns),
            **self._bad_keys(messages),
            **decoded.refused,
            **keys.refused,
            **lost,
            **long,
        }
        undecided = {n: t for n, t in decoded.undecided.items() if n not in refused}
        return Chunk(
            label,
            whole,
            tuple(Undecided(n, messages[n].offset(), t) for n, t in sorted(undecided.items())),
            tuple(
                Refused(n, messages[n].offset(), self._shown(messages[n].value()), r)
                for n, r in sorted(refused.items())
            ),
        )

    @property
    def _limit(self) -> int:
        return limit_of(self.options)

    def _is_long(self, value: bytes | None) -> bool:
        return value is not None and len(value) > self._limit

    def _shown(self, value: bytes | None) -> str | None:
        """Return the text of a rejected message, truncated if it is too long."""
        found = _text(value[: 4 * SHOWN] if value is not None and self._is_long(value) else value)
        return found[:SHOWN] if found is not None and self._is_long(value) else found

    def _values(self, messages: Sequence[Message], gone: Sequence[int]) -> Decoded:
        """Decode the values; values that are too long are skipped."""
        values: list[bytes | None] = [None if self._is_long(v := m.value()) else v for m in messages]
        lost: dict[int, Reason] = {}
        if self._keys_are_values:
            for place in gone:
                values[place] = self._deletion(messages[place].key())
                if values[place] is None:
                    lost[place] = NO_KEY if self.primary_key else NO_VALUE
        if not self.payload:
            return Decoded(pa.table({}), refused=lost)
        kept = [n for n, v in enumerate(values) if v is not None]
        found = format_named(self.format).decode([v for v in values if v is not None], self.payload, self.options)
        if len(kept) == len(values):
            return found
        undecided = {kept[n]: t for n, t in found.undecided.items()}
        return Decoded(
            placed(found.rows, kept, len(values)), undecided, {kept[n]: r for n, r in found.refused.items()} | lost
        )

    def _keys(self, messages: Sequence[Message], gone: Sequence[int]) -> Decoded:
        """Decode the keys: of all messages if columns come from the key, else of messages without a value."""
        of_gone = () if self._keys_are_values else self.primary_key
        columns = tuple(c for c in self.columns if c.name in of_gone or c.name in self._of_keys)
        if not columns:
            return Decoded(pa.table({}))
        asked = range(len(messages)) if self._of_keys else gone
        keys = [(n, messages[n].key()) for n in asked]
        places = [n for n, k in keys if k is not None]
        found = self.keys.decode([k for _, k in keys if k is not None], columns)
        refused = {places[n]: r for n, r in found.refused.items()}
        if any(not c.nullable for c in columns if c.name in self._of_keys):
            refused |= {n: NO_KEY_AT_ALL for n, k in keys if k is None}
        return Decoded(placed(found.rows, places, len(messages)), refused=refused)

    def _bad_keys(self, messages: Sequence[Message]) -> dict[int, Reason]:
        """Return the messages whose keys are not texts, if a primary key column is the key's text.

        Otherwise two different keys could become equal.
        """
        of_texts = {n for n, k in self.metadata.items() if k == "key" and n not in self._of_keys}
        if not of_texts & set(self.primary_key):
            return {}
        return {n: BAD_KEY for n, m in enumerate(messages) if not _is_text(m.key())}

    def _deletion(self, key: bytes | None) -> bytes | None:
        """Return the key of a message without a value as a JSON object of the primary key's columns; None if it is not
        valid."""
        if key is None or not self.primary_key or not _is_text(key):
            return None
        text = key.decode()
        is_json, found = _json_of(text)
        if isinstance(found, dict) and set(self.primary_key) <= found.keys():
            return text.encode()
        if len(self.primary_key) > 1:
            return None
        name = self.primary_key[0]
        type_ = next(c.type for c in self.columns if c.name == name)
        bare = text  # a number as written: a float would have other digits
        if pa.types.is_string(type_) or not is_json or isinstance(found, Unquoted):
            bare = json.dumps(text.strip() if isinstance(found, Unquoted) else text)
        elif not isinstance(found, str) and not _has_plain_json(type_):
            bare = json.dumps(text)
        return f"{{{json.dumps(name)}: {bare}}}".encode()

    def _whole(self, rows: pa.Table, keys: pa.Table, messages: Sequence[Message], gone: Sequence[int]) -> pa.Table:
        """Return the rows with metadata and key columns of the messages."""
        made: dict[str, pa.Array] = {}
        for name, kind in self.metadata.items():
            type_, value = METADATA[kind]
            if name not in self._of_keys:
                made[name] = pa.array([value(m) for m in messages], type_)
        weights = np.ones(len(messages), np.int64)
        weights[gone] = -1
        for name in keys.schema.names if gone or self._of_keys else ():
            made[name] = keys[name]
            if name not in self._of_keys:
                made[name] = pc.if_else(pa.array(weights < 0), keys[name], rows[name])
        if self.primary_key:
            made[WEIGHT] = pa.array(weights)
        columns = [made[f.name] if f.name in made else rows[f.name] for f in self.schema]
        return pa.table(columns, schema=self.schema)
