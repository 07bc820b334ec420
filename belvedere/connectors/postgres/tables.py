"""Postgres' catalog entry of a table: its number, columns, the keys by which its log identifies rows, and publication.

In: a row of `STATES`. Out: a `TableState`, which an epoch's row stores, and a `Table` with Arrow types. It sends no
query.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from belvedere.errors import BelvedereError, fail
from belvedere.schema import KEY_MARK, TIMESTAMP

TYPES = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "oid": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "timestamptz": TIMESTAMP,
    "timestamp": TIMESTAMP,
}
"""Arrow types of Postgres types. All other types become texts, as Postgres writes them."""
WIDEST = pa.decimal128(38, 18)
"""Type of `numeric` without precision; a value that does not fit is rejected."""
SAME_TEXTS = frozenset({25, 1043})
"""TEXT and VARCHAR: a change between these types does not change the texts."""


@dataclass(frozen=True)
class ColumnState:
    """A column by its number; `type` and `modifier` are Postgres' own."""

    number: int
    name: str
    type: int
    modifier: int
    is_generated: bool = False


@dataclass(frozen=True)
class TableState:
    """The state of a table at a moment.

    `partitions` changes if a partition is added, removed or truncated; `published` is the table's entry in the
    publication. `moved` changes if a table that is published with its whole schema came from another schema. `meanings`
    has, by number, labels of enums and fields of types.
    """

    oid: int
    file: int
    identity: str
    key: tuple[int, ...]
    columns: tuple[ColumnState, ...]
    partitions: str | None = None
    published: int = 0
    moved: str = ""
    meanings: tuple[tuple[int, str], ...] = ()

    def as_document(self) -> dict[str, Any]:
        """Return the state as JSON data."""
        columns = [[c.number, c.name, c.type, c.modifier, c.is_generated] for c in self.columns]
        found = {
            "oid": self.oid,
            "file": self.file,
            "identity": self.identity,
            "key": list(self.key),
            "columns": columns,
        }
        meanings = [list(m) for m in self.meanings]
        return found | {
            "partitions": self.partitions,
            "published": self.published,
            "moved": self.moved,
            "meanings": meanings,
        }

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> TableState:
        """Read the state from the result of `as_document`."""
        columns = tuple(ColumnState(*c) for c in document["columns"])
        meanings = tuple((n, m) for n, m in document["meanings"])
        return cls(**{**document, "columns": columns, "key": tuple(document["key"]), "meanings": meanings})

    @cached_property
    def names(self) -> dict[int, str]:
        """Return the columns' names by number."""
        return {c.number: c.name for c in self.columns}

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Return the columns' numbers by name."""
        return {c.name: c.number for c in self.columns}


@dataclass(frozen=True)
class UniqueIndex:
    """A unique index of columns; `is_immediate` if it is not deferrable. `columns` excludes those of INCLUDE."""

    is_primary: bool
    is_identity: bool
    is_immediate: bool
    columns: tuple[int, ...]
    name: str


@dataclass(frozen=True)
class TablePartition:
    """A partition, and the columns by which its own log identifies rows, None for all.

    Its replica identity is independent of its table's.
    """

    space: str
    name: str
    logged: frozenset[str] | None
    is_logged: bool = True

    @property
    def quoted(self) -> str:
        """Return the quoted name of the partition for statements."""
        return f"{in_quotes(self.space)}.{in_quotes(self.name)}"


@dataclass(frozen=True)
class Table:
    """A table of the source's schema: its state, the Arrow types of its columns, and the keys by which its log
    identifies rows."""

    name: str
    state: TableState
    fields: tuple[pa.Field, ...]
    """Fields of the columns that are not generated."""
    keys: tuple[tuple[str, ...], ...]
    """Keys in the log; the first one is the table's key."""
    indexes: tuple[UniqueIndex, ...] = ()
    is_partitioned: bool = False
    is_secured: bool = False
    """Whether a policy hides rows from this role."""
    row_type: str = ""
    """Transaction that wrote the row of the table's own type."""
    is_logged: bool = True
    partitions: tuple[TablePartition, ...] = ()
    """Partitions whose log does not have complete rows."""
    space: str = "public"
    """Name of its schema in the database."""

    @property
    def quoted(self) -> str:
        """Return the quoted name of the table for statements."""
        return f"{in_quotes(self.space)}.{in_quotes(self.name)}"

    def is_required(self, index: UniqueIndex) -> bool:
        """Return whether the columns of an index are NOT NULL and in the log."""
        return {self.state.names[n] for n in index.columns} <= {f.name for f in self.fields if not f.nullable}

    @property
    def key(self) -> tuple[str, ...]:
        """Return the names of the key's columns."""
        return self.keys[0]

    @property
    def schema(self) -> pa.Schema:
        """Return the columns; those of the key are marked."""
        marked = (
            f.with_metadata({KEY_MARK: b"1"}).with_nullable(False) if f.name in self.key else f for f in self.fields
        )
        return pa.schema(list(marked))


def table_of_row(row: Sequence[Any]) -> Table:
    """Return the table of a row of `STATES`; without keys if its log cannot identify rows."""
    (
        name,
        oid,
        kind,
        identity,
        file,
        columns,
        indexes,
        partitions,
        is_secured,
        meanings,
        row_type,
        persistence,
        leaves,
    ) = row
    states = tuple(ColumnState(*c[:5]) for c in columns or ())
    known = tuple(UniqueIndex(p, r, i, tuple(numbers), index) for p, r, i, numbers, index in indexes or ())
    required = {c[0] for c in columns or () if c[5]}
    keys = tuple(_keys(identity, known, required, {c.number for c in states if c.is_generated}))
    written = tuple((number, meaning) for number, meaning in meanings or ())
    state = TableState(oid, file, identity, keys[0] if keys else (), states, partitions, meanings=written)
    fields = tuple(pa.field(c[1], _type(c[6], c[3]), not c[5]) for c in columns or () if not c[4])
    named = tuple(tuple(state.names[n] for n in key) for key in keys)
    logged = tuple(_partition(*leaf) for leaf in leaves or ())
    return Table(name, state, fields, named, known, kind == "p", is_secured, row_type, persistence == "p", logged)


def _partition(space: str, name: str, identity: str, is_logged: bool, columns: Sequence[str] | None) -> TablePartition:
    found = {"f": None, "n": frozenset[str]()}.get(identity, frozenset(columns or ()))
    return TablePartition(space, name, found, is_logged)


def _keys(
    identity: str, indexes: Sequence[UniqueIndex], required: set[int], generated: set[int]
) -> Iterator[tuple[int, ...]]:
    """Yield the keys whose values the log contains for updated and deleted rows."""
    for index in indexes:
        is_logged = {"d": index.is_primary, "i": index.is_identity, "f": required >= set(index.columns)}.get(
            identity, False
        )
        if is_logged and index.is_immediate and not generated & set(index.columns):
            yield index.columns


def keyless(source: str, table: Table) -> BelvedereError:
    """Return the diagnostic B6223 of a table whose log cannot identify rows, with a hint for the cause."""
    name, primary = table.quoted, next((i for i in table.indexes if i.is_primary), None)
    generated = [c.name for c in table.state.columns if c.is_generated and primary and c.number in primary.columns]
    named = next(
        (i for i in table.indexes if table.state.identity == "d" and i.is_immediate and table.is_required(i)), None
    )
    if table.state.identity == "n" or (primary and primary.is_immediate and not generated):
        hint = f"the owner runs: ALTER TABLE {name} REPLICA IDENTITY DEFAULT"
    elif primary is None and named is not None:
        hint = f"the owner runs: ALTER TABLE {name} REPLICA IDENTITY USING INDEX {in_quotes(named.name)}"
    elif generated:
        column = in_quotes(generated[0])
        hint = (
            "a generated column is not logged; the owner runs: "
            f"ALTER TABLE {name} ALTER COLUMN {column} DROP EXPRESSION"
        )
    elif primary is not None and not primary.is_immediate:
        columns = ", ".join(in_quotes(table.state.names[n]) for n in primary.columns)
        drop = f"DROP CONSTRAINT {in_quotes(primary.name)}, ADD PRIMARY KEY ({columns})"
        hint = f"a deferrable key identifies no row in the log; the owner runs: ALTER TABLE {name} {drop}"
    else:
        hint = (
            f"give it one: ALTER TABLE {name} ADD PRIMARY KEY (...); "
            "without a key its own updates fail once it is published"
        )
    return fail("B6223", f'table "{table.name}" of source "{source}" has no key', hint=hint)


def other_key(table: Table, requested: set[int]) -> BelvedereError:
    """Return the diagnostic B6223 of a table whose log identifies rows by other columns than those `requested`
    (numbers)."""
    hint = f"write `primary_key = {json.dumps(list(table.key), ensure_ascii=False)}`, or leave `columns` out"
    index = next((i for i in table.indexes if set(i.columns) == requested), None)
    if index is not None:
        identity = "DEFAULT" if index.is_primary else f"USING INDEX {in_quotes(index.name)}"
        hint = (
            f"the store identifies its rows by the columns of the index {in_quotes(index.name)}; "
            "the owner runs: ALTER TABLE "
        )
        hint += f"{table.quoted} REPLICA IDENTITY {identity}"
    return fail("B6223", f'table "{table.name}" has another primary key', hint=hint)


def in_quotes(name: str) -> str:
    """Return a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _type(name: str, modifier: int) -> pa.DataType:
    if name == "numeric":
        if modifier < 4:
            return WIDEST
        precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0xFFFF
        fits = precision <= 38 and 0 <= scale <= precision
        return pa.decimal128(precision, scale) if fits else pa.string()
    return TYPES.get(name, pa.string())
