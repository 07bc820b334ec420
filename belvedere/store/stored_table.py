"""How a relation is stored: what a store makes a table of, and what readers know it by. It runs no SQL."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from belvedere.schema import KEY, Schema


@dataclass(frozen=True)
class StoredTable:
    """How a relation is stored: `schema.columns`, then `_key`, unless a whole number alone identifies a row.

    `ranges` are columns of the schema indexed for `lookup_range`; `indexes` serve API reads (column names of the schema, in order).
    """

    name: str
    schema: Schema
    ranges: tuple[str, ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    fingerprint: str = ""
    """The definition fingerprint, of the plan behind the table: with another one under the same name it is another table."""
    order: tuple[tuple[str, bool, bool], ...] = ()
    """A view's own order: (column, descending, NULLs first)."""
    query: str = ""
    """SQL, in the store's dialect, of a relation that is computed at read time: it stores no rows, and has no `_key`.

    Without a name it is a query, which a reader runs without creating a view.
    """

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of the rows that go in and come out."""
        fields = [pa.field(c.name, c.type, c.nullable) for c in self.schema.columns]
        if self.query:
            return pa.schema(fields)
        fields.append(pa.field(KEY, pa.string(), nullable=False))
        return pa.schema(fields)

    @property
    def identity(self) -> str:
        """The column by which a stored row is found: its own key where that is one whole number, else `_key`."""
        key = self.schema.key or ()
        if len(key) == 1 and not self.schema[key[0]].nullable and pa.types.is_signed_integer(self.schema[key[0]].type):
            return key[0]
        return KEY
