"""How messages of a table become rows: its format, what of a message is in which column, and what a message without value says.

In: messages of one partition. Out: a `Chunk`. Runs in Spark's tasks: nothing here imports PySpark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Message

from belvedere.connectors.kafka.formats import format_named
from belvedere.connectors.kafka.formats import json as json_format
from belvedere.connectors.kafka.formats.decoded import Decoded, nullable
from belvedere.errors import fail
from belvedere.functions.types import type_text
from belvedere.schema import TIMESTAMP, WEIGHT, Column

HEADERS = pa.map_(pa.string(), pa.string())
METADATA: Mapping[str, tuple[pa.DataType, Callable[[Message], Any]]] = {
    "topic": (pa.string(), lambda m: m.topic()),
    "partition": (pa.int32(), lambda m: m.partition()),
    "offset": (pa.int64(), lambda m: m.offset()),
    "timestamp": (TIMESTAMP, lambda m: m.timestamp()[1] * 1_000 if m.timestamp()[0] else None),
    "key": (pa.string(), lambda m: _text(m.key())),
    "headers": (HEADERS, lambda m: [(k, _text(v)) for k, v in m.headers() or ()]),
}
"""What a message has beside its value: the type of its column, and how it is got."""
NO_VALUE = "has no value: only a table with a primary key deletes by its key"
NO_KEY = "has no value, and no key that tells which row goes"


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class Undecided:
    """A message that is left to Spark's reader: its place in the chunk, its offset, its text."""

    place: int
    offset: int
    text: bytes


@dataclass(frozen=True)
class Refused:
    """A message that is no row."""

    place: int
    offset: int
    text: str | None
    reason: str


@dataclass(frozen=True)
class Chunk:
    """Messages of the partition `label`, in order: a row each, all NULL where it is undecided or refused."""

    label: str
    rows: pa.Table
    undecided: tuple[Undecided, ...] = ()
    refused: tuple[Refused, ...] = ()


@dataclass(frozen=True)
class Shape:
    """What rows of a table are made of. Raises B6206 where a column of metadata cannot be what it is to be."""

    format: str
    columns: tuple[Column, ...]
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Columns that hold what a message has beside its value: name -> one of `METADATA`."""
    primary_key: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, kind in self.metadata.items():
            found = next((c for c in self.columns if c.name == name), None)
            if found is not None and found.type != METADATA[kind][0]:
                wanted = type_text(METADATA[kind][0])
                raise fail("B6206", f'column "{name}" is the {kind} of a message', hint=f'declare it so: {name} = "{wanted}"')

    @property
    def payload(self) -> tuple[Column, ...]:
        """The columns that values hold."""
        return tuple(c for c in self.columns if c.name not in self.metadata)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows; in a table with a key their weight too: -1 deletes."""
        weight = [pa.field(WEIGHT, pa.int64())] if self.primary_key else []
        return pa.schema([*nullable(self.columns), *weight])

    def chunk(self, label: str, messages: Sequence[Message]) -> Chunk:
        """The rows of messages of one partition."""
        values = [m.value() for m in messages]
        deleted = [n for n, v in enumerate(values) if v is None]
        refused: dict[int, str] = {}
        for place in deleted:
            told = self._deletion(messages[place].key())
            values[place] = b"" if told is None else told
            if told is None:
                refused[place] = NO_KEY if self.primary_key else NO_VALUE
        decoded = self._decoded(values, deleted)
        refused = {**decoded.refused, **refused}
        undecided = {n: t for n, t in decoded.undecided.items() if n not in refused}
        return Chunk(
            label,
            self._whole(decoded.rows, messages, deleted),
            tuple(Undecided(n, messages[n].offset(), t) for n, t in sorted(undecided.items())),
            tuple(Refused(n, messages[n].offset(), _text(messages[n].value()), r) for n, r in sorted(refused.items())),
        )

    def _decoded(self, values: list[bytes], deleted: Sequence[int]) -> Decoded:
        """The rows by the table's format; those of deletions from their keys, which are JSON here."""
        found = format_named(self.format).decode(values, self.payload, self.options)
        if not deleted or self.format == "json":
            return found
        keys = json_format.decode([values[n] for n in deleted], self.payload, self.options)
        index = np.arange(len(values))
        index[deleted] = len(values) + np.arange(len(deleted))
        gone = set(deleted)
        return Decoded(
            pa.concat_tables([found.rows, keys.rows]).take(index),
            {n: t for n, t in found.undecided.items() if n not in gone} | {deleted[n]: t for n, t in keys.undecided.items()},
            {n: r for n, r in found.refused.items() if n not in gone},
        )

    def _deletion(self, key: bytes | None) -> bytes | None:
        """The key of a message without value as a JSON object of the primary key's columns."""
        text = _text(key)
        if text is None or not self.primary_key:
            return None
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = text
        if isinstance(found, dict) and set(self.primary_key) <= found.keys():
            return text.encode()
        if len(self.primary_key) > 1:
            return None
        name = self.primary_key[0]
        of_text = next(pa.types.is_string(c.type) for c in self.columns if c.name == name)
        return json.dumps({name: text if of_text else found}).encode()

    def _whole(self, rows: pa.Table, messages: Sequence[Message], deleted: Sequence[int]) -> pa.Table:
        """The rows with what the messages have beside their values."""
        made: dict[str, pa.Array] = {}
        for name, kind in self.metadata.items():
            type_, value = METADATA[kind]
            made[name] = pa.array([value(m) for m in messages], type_)
        if self.primary_key:
            weights = np.ones(len(messages), np.int64)
            weights[deleted] = -1
            made[WEIGHT] = pa.array(weights)
        columns = [made[f.name] if f.name in made else rows[f.name] for f in self.schema]
        return pa.table(columns, schema=self.schema)
