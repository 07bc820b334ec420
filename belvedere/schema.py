"""Columns, their types and keys.

Types are Arrow types, which Spark, the stores and the API share. A timestamp is always `timestamp("us", tz="UTC")`: an
instant. This module does not depend on SQL text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")
VARIANT = pa.string_view()
"""Placeholder for Spark's VARIANT, a value of any type, which occurs only within the expressions of a row."""
MONTHS = pa.duration("s")
"""Spark's INTERVAL YEAR TO MONTH: a number of months. `duration("us")` is the day-time interval; no other type has the
unit seconds."""
PACKED = pa.large_list(pa.field("packed", pa.float64(), nullable=False))
"""All values of a group as one value of its state: never shown, stored as bytes."""
UID = "_uid"
INGEST_TIME = "_ingest_time"
ROWTIME = "rowtime"
"""Pseudo-column of a stream without a declared event-time column: the row's value, or the clock at arrival."""
CONTROL = "_bound"
"""Only member of a control row: a JSON object in a file that is a bound for the rows after it, not a row."""
HISTORY = "$history"
"""Suffix of the relation with all versions of another relation's rows."""
SINCE_EPOCH, UNTIL_EPOCH, SINCE_TIME, UNTIL_TIME = "_since_epoch", "_until_epoch", "_since_time", "_until_time"
"""Epochs and clocks at which a version begins and ends; the end is NULL for current versions."""
OWN_TABLES = "_belvedere_"
"""Prefix of the names of the store's own tables, which no relation may use."""
KEY_MARK = b"primary_key"
"""Metadata key of a source's column that belongs to the table's key."""
KEY = "_key"
WEIGHT = "_weight"
PLACE = "$place"
"""Position of a pushed row among the rows of all inputs of its epoch, from which `_uid` is derived."""


ENGINE_COLUMNS = frozenset({KEY, WEIGHT, PLACE, "_new", "_row", "_enter", "_leave"})
"""Columns that the engine adds to those of a relation, besides the hashes `_h0`, `_h1`. No relation has other columns
with these names."""
_HASH = re.compile(r"_h\d+", re.ASCII)


def is_engine_column(name: str) -> bool:
    """Return whether the engine reserves this name."""
    folded = name.casefold()
    return folded in ENGINE_COLUMNS or _HASH.fullmatch(folded) is not None


def has_map(type_: pa.DataType) -> bool:
    """Return whether values of the type contain a map or a VARIANT, which can be neither compared nor ordered."""
    if pa.types.is_nested(type_) and not pa.types.is_map(type_):
        return any(has_map(type_.field(n).type) for n in range(type_.num_fields))
    return bool(pa.types.is_map(type_) or type_ == VARIANT)


class Named(Protocol):
    """An object with a name."""

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


def find_named(things: Collection[T], name: str) -> T | None:
    """Return the object with that name: an exact match first, then one that differs in case only."""
    exact = next((t for t in things if t.name == name), None)
    folded = name.casefold()
    return exact if exact is not None else next((t for t in things if t.name.casefold() == folded), None)


@dataclass(frozen=True, slots=True)
class Column:
    """A named, typed column. A script can name `hidden` columns, but `*`, rows and the API never show them."""

    name: str
    type: pa.DataType
    nullable: bool = True
    hidden: bool = False
    doc: str | None = None


@dataclass(frozen=True, slots=True)
class Schema:
    """Columns in the order of their definition, and the names of the key columns.

    `key` is None if no key is known, and `()` if the relation has at most one row.
    """

    columns: tuple[Column, ...]
    key: tuple[str, ...] | None = None

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all columns, including hidden ones."""
        return tuple(c.name for c in self.columns)

    @property
    def visible(self) -> tuple[Column, ...]:
        """Return the columns that `*`, rows and the API show."""
        return tuple(c for c in self.columns if not c.hidden)

    def find(self, name: str) -> Column | None:
        """Return the column with that name: an exact match first, then one that differs in case only."""
        return find_named(self.columns, name)

    def __getitem__(self, name: str) -> Column:
        column = self.find(name)
        if column is None:
            raise KeyError(name)
        return column

    def with_key(self, key: tuple[str, ...] | None) -> Schema:
        """Return the same columns with `key` as key."""
        return replace(self, key=key)

    @property
    def arrow(self) -> pa.Schema:
        """Return the Arrow schema of all columns."""
        return pa.schema([pa.field(c.name, c.type, c.nullable) for c in self.columns])
