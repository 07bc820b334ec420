"""The stored form of a relation: the definition from which a store creates a table and readers read it.

It runs no SQL.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from belvedere.schema import KEY, Schema


@dataclass(frozen=True)
class StoredTable:
    """The stored form of a relation: `schema.columns`, then `_key`, unless a single integer column identifies a row.

    `ranges` are columns of the schema indexed for `lookup_range`; `indexes` serve API reads (column names of the
    schema, in order).
    """

    name: str
    schema: Schema
    ranges: tuple[str, ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    fingerprint: str = ""
    """Fingerprint of the plan that defines the table.

    A table with the same name and another fingerprint is another table.
    """
    order: tuple[tuple[str, bool, bool], ...] = ()
    """A view's own order: (column, descending, NULLs first)."""
    query: str = ""
    """SQL, in the store's dialect, of a relation that is computed at read time: it stores no rows, and has no `_key`.

    Without a name it is a query, which a reader runs without creating a view.
    """

    @property
    def arrow(self) -> pa.Schema:
        """Return the Arrow schema of the rows that are written and read."""
        fields = [pa.field(c.name, c.type, c.nullable) for c in self.schema.columns]
        if self.query:
            return pa.schema(fields)
        fields.append(pa.field(KEY, pa.string(), nullable=False))
        return pa.schema(fields)

    @property
    def identity(self) -> str:
        """Return the column that identifies a stored row: its key if that is a single integer column, else `_key`."""
        key = self.schema.key or ()
        if len(key) == 1 and not self.schema[key[0]].nullable and pa.types.is_signed_integer(self.schema[key[0]].type):
            return key[0]
        return KEY
