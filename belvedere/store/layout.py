"""A stored table's columns as a dialect stores them: SQL, and conversion of rows in both directions.

In: a `StoredTable` and a dialect. Out: a `Layout` with the statements' parts, `flatten` for rows to write and `restore`
for rows read. A flat batch has the same columns in the types that the driver transfers. It runs no SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from belvedere.errors import fail
from belvedere.schema import KEY
from belvedere.store.dialects.codec import form
from belvedere.store.dialects.dialect import Dialect
from belvedere.store.dialects.stored_form import StoredForm
from belvedere.store.identifiers import identifier, index_name, quoted, stored_name
from belvedere.store.stored_table import StoredTable
from belvedere.values.type_names import type_text

ASIDE = "aside"
"""Part of the names of tables that will replace others."""


@dataclass(frozen=True)
class Layout:
    """The stored form of `table` in `dialect`.

    `aside`: the table exists beside the one that it replaces, which keeps the name until the commit.
    """

    dialect: Dialect
    table: StoredTable
    aside: bool = False

    @cached_property
    def name(self) -> str:
        """Return the quoted name of the table, or for a query without a name, the query."""
        return quoted(self.stored_name) if self.table.name or not self.table.query else f"({self.table.query})"

    @cached_property
    def stored_name(self) -> str:
        """Return the name of the table, not quoted."""
        return index_name(ASIDE, (self.table.name,)) if self.aside else stored_name(self.table.name)

    def index(self, columns: tuple[str, ...]) -> str:
        """Return the name of an index of the table."""
        return index_name(f"{ASIDE} {self.table.name}" if self.aside else self.table.name, columns)

    @cached_property
    def arrow(self) -> pa.Schema:
        return self.table.arrow

    @cached_property
    def stored(self) -> pa.Schema:
        """Return the stored columns. `_key` is not stored if another column identifies the row."""
        return pa.schema([f for f in self.arrow if f.name != KEY or self.table.identity == KEY])

    @cached_property
    def forms(self) -> tuple[StoredForm, ...]:
        return tuple(form(self.dialect, f.type) for f in self.stored)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Return the stored names of all columns, not quoted."""
        return tuple(stored_name(f.name) for f in self.stored)

    @cached_property
    def key(self) -> str:
        """Return the stored name of the column that identifies a row, not quoted."""
        return stored_name(self.table.identity)

    def keys(self, texts: pa.Array) -> pa.Array:
        """Convert `_key`s to the stored form of that column."""
        field = self.stored.field(self.table.identity)
        return self.form_of(field.name).encode(texts.cast(pa.string()).cast(field.type))

    @cached_property
    def quoted(self) -> tuple[str, ...]:
        return tuple(quoted(c) for c in self.columns)

    @cached_property
    def column_list(self) -> str:
        return ", ".join(self.quoted)

    @cached_property
    def flat(self) -> pa.Schema:
        """Return the schema that the driver transfers."""
        return pa.schema([pa.field(c, f.flat) for c, f in zip(self.columns, self.forms, strict=True)])

    def form_of(self, column: str) -> StoredForm:
        """Return the form of a column by its name in the catalog."""
        place: int = self.stored.get_field_index(column)
        return self.forms[place]

    def create(self) -> str:
        """Return the CREATE TABLE or CREATE VIEW statement."""
        if self.table.query:
            return f"CREATE VIEW {self.name} ({self.column_list}) AS {self.table.query}"
        mark = " PRIMARY KEY" if self._lies_by_key else " NOT NULL"
        parts = [
            f"{quoted(name)} {f.sql}{mark if name == self.key else ''}"
            for name, f in zip(self.columns, self.forms, strict=True)
        ]
        return f"CREATE TABLE {self.name} ({', '.join(parts)})"

    def drop(self) -> str:
        """Return the statement that drops the table or view."""
        return f"DROP {'VIEW' if self.table.query else 'TABLE'} IF EXISTS {self.name}"

    @property
    def _lies_by_key(self) -> bool:
        """Return whether the table is physically ordered by its key and needs no index on it."""
        return self.dialect.lies_by_number and self.table.identity != KEY

    def indexes(self) -> dict[str, str]:
        """Return the indexes of the table: name -> CREATE INDEX statement.

        The first is the unique index of the rows' identity.
        """
        if self.table.query:
            return {}
        own = (self.table.identity,)
        requested = dict.fromkeys([own] + [(c,) for c in self.table.ranges] + list(self.table.indexes))
        if self._lies_by_key:
            del requested[own]
        result = {}
        for columns in requested:
            name = self.index(columns)
            unique = "UNIQUE " if columns == own else ""
            listed = ", ".join(identifier(c) for c in columns)
            result[name] = f"CREATE {unique}INDEX IF NOT EXISTS {quoted(name)} ON {self.name} ({listed})"
        return result

    def flatten(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a batch of the table's rows to the driver's types. Columns are found by name, others are ignored."""
        arrays = []
        for field, how in zip(self.stored, self.forms, strict=True):
            place = batch.schema.get_field_index(field.name)
            if place < 0:
                raise fail("B7013", f'rows for the stored table "{self.table.name}" have no column "{field.name}"')
            arrays.append(self._flat_array(batch.column(place), field, how))
        return pa.RecordBatch.from_arrays(arrays, schema=self.flat)

    def _flat_array(self, values: pa.Array, field: pa.Field, how: StoredForm) -> pa.Array:
        try:
            return how.encode(values if values.type == field.type else values.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError, ValueError) as error:
            name = f'column "{field.name}" of "{self.table.name}"'
            raise fail(
                "B7012", f"a value of {name} cannot be stored as {type_text(field.type)}", detail=str(error)
            ) from error

    def restore(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert flat rows back to the catalog's types."""
        arrays = [f.decode(batch.column(i)) for i, f in enumerate(self.forms)]
        if self.table.identity != KEY and not self.table.query:
            arrays.append(arrays[self.stored.get_field_index(self.table.identity)].cast(pa.string()))
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)


def flat_batches(layout: Layout, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows as flat batches, without empty ones."""
    for batch in rows:
        if batch.num_rows:
            yield layout.flatten(batch)
