"""What Postgres' catalog says of a table: its number, its columns, the keys by which its log finds rows, its place in a publication.

In: a row of `STATES`. Out: a `TableState`, which an epoch's row keeps, and a `Table` with Arrow types. Nothing is asked here.
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
"""All other types are texts, as Postgres writes them."""
WIDEST = pa.decimal128(38, 18)
"""For `numeric` without precision: a value that does not fit is rejected."""
STATES = """
SELECT c.relname, c.oid::int8, c.relkind::text, c.relreplident::text, coalesce(pg_relation_filenode(c.oid), 0)::int8,
  (SELECT json_agg(json_build_array(a.attnum, a.attname, a.atttypid::int8, a.atttypmod, a.attgenerated <> '', a.attnotnull, t.typname)
                   ORDER BY a.attnum)
   FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
   WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
  (SELECT json_agg(json_build_array(i.indisprimary, i.indisreplident, i.indimmediate, (i.indkey::int2[])[0:i.indnkeyatts - 1], x.relname)
                   ORDER BY NOT i.indisprimary, x.relname)
   FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
   WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL),
  (SELECT md5(string_agg(p.relid::oid || ':' || coalesce(pg_relation_filenode(p.relid), 0), ',' ORDER BY p.relid::oid))
   FROM pg_partition_tree(c.oid) p WHERE p.isleaf AND p.relid <> c.oid),
  row_security_active(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = ANY(%s) AND c.relkind IN ('r', 'p')
"""
"""Of a schema and names of tables. A table that is truncated or rewritten gets another file, and so do partitions."""


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
    """A table as it is at a moment.

    `partitions` changes when one comes, goes or is truncated; `published` is the table's place in the publication.
    """

    oid: int
    file: int
    identity: str
    key: tuple[int, ...]
    columns: tuple[ColumnState, ...]
    partitions: str | None = None
    published: int = 0

    def as_document(self) -> dict[str, Any]:
        """The state as JSON data."""
        columns = [[c.number, c.name, c.type, c.modifier, c.is_generated] for c in self.columns]
        found = {"oid": self.oid, "file": self.file, "identity": self.identity, "key": list(self.key), "columns": columns}
        return found | {"partitions": self.partitions, "published": self.published}

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> TableState:
        """The state that `as_document` wrote."""
        columns = tuple(ColumnState(*c) for c in document["columns"])
        return cls(**{**document, "columns": columns, "key": tuple(document["key"])})

    @cached_property
    def names(self) -> dict[int, str]:
        """The columns' names by number."""
        return {c.number: c.name for c in self.columns}

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The columns' numbers by name."""
        return {c.name: c.number for c in self.columns}


@dataclass(frozen=True)
class Index:
    """A unique index of columns; `is_immediate` where it is not deferrable. INCLUDE adds none to `columns`."""

    is_primary: bool
    is_identity: bool
    is_immediate: bool
    columns: tuple[int, ...]
    name: str


@dataclass(frozen=True)
class Table:
    """A table of the source's schema: its state, the types of its columns in Arrow, and the keys by which its log finds rows."""

    name: str
    state: TableState
    fields: tuple[pa.Field, ...]
    """Of the columns that are not generated."""
    keys: tuple[tuple[str, ...], ...]
    """The first one is the table's key."""
    indexes: tuple[Index, ...] = ()
    is_partitioned: bool = False
    is_secured: bool = False
    """Whether a policy hides rows from this role."""
    space: str = "public"
    """The name of its schema in the database."""

    @property
    def quoted(self) -> str:
        """The table as statements name it."""
        return f"{in_quotes(self.space)}.{in_quotes(self.name)}"

    @property
    def key(self) -> tuple[str, ...]:
        """The names of the key's columns."""
        return self.keys[0]

    @property
    def schema(self) -> pa.Schema:
        """The columns; those of the key are marked."""
        marked = (f.with_metadata({KEY_MARK: b"1"}).with_nullable(False) if f.name in self.key else f for f in self.fields)
        return pa.schema(list(marked))


def table_of_row(row: Sequence[Any]) -> Table:
    """A row of `STATES`; without keys where its log cannot find rows."""
    name, oid, kind, identity, file, columns, indexes, partitions, is_secured = row
    states = tuple(ColumnState(*c[:5]) for c in columns or ())
    known = tuple(Index(p, r, i, tuple(numbers), index) for p, r, i, numbers, index in indexes or ())
    required = {c[0] for c in columns or () if c[5]}
    keys = tuple(_keys(identity, known, required, {c.number for c in states if c.is_generated}))
    state = TableState(oid, file, identity, keys[0] if keys else (), states, partitions)
    fields = tuple(pa.field(c[1], _type(c[6], c[3]), not c[5]) for c in columns or () if not c[4])
    named = tuple(tuple(state.names[n] for n in key) for key in keys)
    return Table(name, state, fields, named, known, kind == "p", is_secured)


def _keys(identity: str, indexes: Sequence[Index], required: set[int], generated: set[int]) -> Iterator[tuple[int, ...]]:
    """The keys whose values the log has of rows that change or go."""
    for index in indexes:
        is_logged = {"d": index.is_primary, "i": index.is_identity, "f": required >= set(index.columns)}.get(identity, False)
        if is_logged and index.is_immediate and not generated & set(index.columns):
            yield index.columns


def keyless(source: str, table: Table) -> BelvedereError:
    """The diagnostic B6223 of a table whose log cannot find rows; its hint fits what is in the way."""
    name, primary = table.quoted, next((i for i in table.indexes if i.is_primary), None)
    generated = [c.name for c in table.state.columns if c.is_generated and primary and c.number in primary.columns]
    if table.state.identity == "n":
        hint = f"the owner runs: ALTER TABLE {name} REPLICA IDENTITY DEFAULT"
    elif generated:
        column = in_quotes(generated[0])
        hint = f"a generated column is not logged; the owner runs: ALTER TABLE {name} ALTER COLUMN {column} DROP EXPRESSION"
    elif primary is not None and not primary.is_immediate:
        columns = ", ".join(in_quotes(table.state.names[n]) for n in primary.columns)
        drop = f"DROP CONSTRAINT {in_quotes(primary.name)}, ADD PRIMARY KEY ({columns})"
        hint = f"a deferrable key identifies no row in the log; the owner runs: ALTER TABLE {name} {drop}"
    else:
        hint = f"give it one: ALTER TABLE {name} ADD PRIMARY KEY (...); without one its own updates would fail once it is published"
    return fail("B6223", f'table "{table.name}" of source "{source}" has no key', hint=hint)


def other_key(table: Table, wanted: set[int]) -> BelvedereError:
    """The diagnostic B6223 of a table whose log finds rows by other columns than those `wanted`, by their numbers."""
    hint = f"write `primary_key = {json.dumps(list(table.key), ensure_ascii=False)}`, or leave `columns` out"
    index = next((i for i in table.indexes if set(i.columns) == wanted), None)
    if index is not None:
        identity = "DEFAULT" if index.is_primary else f"USING INDEX {in_quotes(index.name)}"
        hint = f"the store has its rows by that of the index {in_quotes(index.name)}; the owner runs: ALTER TABLE "
        hint += f"{table.quoted} REPLICA IDENTITY {identity}"
    return fail("B6223", f'table "{table.name}" has another primary key', hint=hint)


def in_quotes(name: str) -> str:
    """A name as SQL takes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def _type(name: str, modifier: int) -> pa.DataType:
    if name == "numeric":
        if modifier < 4:
            return WIDEST
        precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0xFFFF
        fits = precision <= 38 and 0 <= scale <= precision
        return pa.decimal128(precision, scale) if fits else pa.string()
    return TYPES.get(name, pa.string())
