"""Columns, their types and keys.

Types are Arrow types, the one vocabulary that Spark, the stores and the API share. A timestamp is always
`timestamp("us", tz="UTC")`: an instant. This module knows nothing of SQL text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")
VARIANT = pa.string_view()
"""Placeholder for Spark's VARIANT, a value of any type: only within the expressions of a row."""
MONTHS = pa.duration("s")
"""Spark's INTERVAL YEAR TO MONTH: a number of months. `duration("us")` is the day-time interval; no other type has seconds."""
PACKED = pa.large_list(pa.field("packed", pa.float64(), nullable=False))
"""All values of a group as one value of its state: never shown, stored as their bytes."""
UID = "_uid"
INGEST_TIME = "_ingest_time"
ROWTIME = "rowtime"
"""The pseudo-column of a stream that names no event-time column: given with the row, else the clock at arrival."""
CONTROL = "_bound"
"""The one member of a control row: a JSON object in a file that is no row, but a bound on those after it."""
HISTORY = "$history"
"""Suffix of the relation that holds all versions of another one's rows."""
SINCE_EPOCH, UNTIL_EPOCH, SINCE_TIME, UNTIL_TIME = "_since_epoch", "_until_epoch", "_since_time", "_until_time"
"""When a version came and when it went: epochs and their clocks; `until` is NULL while it holds."""
OWN_TABLES = "_belvedere_"
"""Prefix of the names of the store's own tables, which no relation may use."""
KEY_MARK = b"primary_key"
"""In the metadata of a source's column: it is of the table's key."""
KEY = "_key"
WEIGHT = "_weight"
PLACE = "$place"
"""The place of a pushed row among the rows of all inputs of its epoch, on its way to `_uid`."""


ENGINE_COLUMNS = frozenset({KEY, WEIGHT, PLACE, "_new", "_row", "_enter", "_leave"})
"""Columns that the engine puts beside those of a relation, and the hashes `_h0`, `_h1` ...: no relation has others of these names."""
_HASH = re.compile(r"_h\d+", re.ASCII)


def is_engine_column(name: str) -> bool:
    """Whether the engine needs this name for itself."""
    folded = name.casefold()
    return folded in ENGINE_COLUMNS or _HASH.fullmatch(folded) is not None


def has_map(type_: pa.DataType) -> bool:
    """Whether there is a map, or a VARIANT, in values of the type: such values are neither compared nor ordered."""
    if pa.types.is_nested(type_) and not pa.types.is_map(type_):
        return any(has_map(type_.field(n).type) for n in range(type_.num_fields))
    return bool(pa.types.is_map(type_) or type_ == VARIANT)


class Named(Protocol):
    """An object with a name."""

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


def find_named(things: Collection[T], name: str) -> T | None:
    """The thing of that name: an exact match first, then one that differs in case only."""
    exact = next((t for t in things if t.name == name), None)
    folded = name.casefold()
    return exact if exact is not None else next((t for t in things if t.name.casefold() == folded), None)


@dataclass(frozen=True, slots=True)
class Column:
    """A named, typed column. `hidden` columns can be named in a script but never show in `*`, rows or the API."""

    name: str
    type: pa.DataType
    nullable: bool = True
    hidden: bool = False
    doc: str | None = None


@dataclass(frozen=True, slots=True)
class Schema:
    """Columns in the order of their definition, and the names of those that identify a row.

    `key` is None where no key is known, and `()` where the relation has at most one row.
    """

    columns: tuple[Column, ...]
    key: tuple[str, ...] | None = None

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns, hidden ones included."""
        return tuple(c.name for c in self.columns)

    @property
    def visible(self) -> tuple[Column, ...]:
        """The columns that `*`, rows and the API show."""
        return tuple(c for c in self.columns if not c.hidden)

    def find(self, name: str) -> Column | None:
        """The column of that name: an exact match first, then one that differs in case only."""
        return find_named(self.columns, name)

    def __getitem__(self, name: str) -> Column:
        column = self.find(name)
        if column is None:
            raise KeyError(name)
        return column

    def with_key(self, key: tuple[str, ...] | None) -> Schema:
        """The same columns identified by `key`."""
        return replace(self, key=key)

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of all columns."""
        return pa.schema([pa.field(c.name, c.type, c.nullable) for c in self.columns])
