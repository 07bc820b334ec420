"""Values that are too long for an index of Postgres: indexes that serve reads are replaced by narrower ones.

In: a table's layout, rows that will be written to it. Out: the indexes that cannot hold them, and the statements that
create narrower ones. Reads find the same rows either way, but a narrow index gives no order.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.store.identifiers import identifier, quoted
from belvedere.store.layout import Layout

MAX_BYTES = 2_000
"""Maximum bytes of variable length in an index entry. Postgres accepts about 2,700 in all, after compression."""

NARROW = "narrow"
"""The comment that marks a narrow index."""

Columns = tuple[str, ...]


def _is_long_type(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_binary(type_))


def _places(layout: Layout, columns: Columns) -> list[int]:
    found = (layout.stored.get_field_index(c) for c in columns)
    return [n for n in found if _is_long_type(layout.forms[n].flat)]


def too_long(layout: Layout, rows: pa.Table) -> set[Columns]:
    """Return the indexes for reads that may not hold these flat rows."""
    indexes = [i for i in layout.table.indexes if _places(layout, i)]
    longest = {
        n: pc.max(pc.binary_length(rows.column(n))).as_py() or 0
        for n in {n for i in indexes for n in _places(layout, i)}
    }
    return {i for i in indexes if sum(longest[n] for n in _places(layout, i)) > MAX_BYTES}


def narrow_index(layout: Layout, columns: Columns) -> tuple[str, ...]:
    """Return the statements for an index of the same name, by the columns before the first text, or by the hash of that
    text."""
    name = quoted(layout.index(columns))
    first = next(n for n, c in enumerate(columns) if _places(layout, (c,)))
    listed = ", ".join(identifier(c) for c in columns[: max(first, 1)])
    how = "btree" if first else "hash"
    return (
        f"DROP INDEX IF EXISTS {name}",
        f"CREATE INDEX {name} ON {layout.name} USING {how} ({listed})",
        f"COMMENT ON INDEX {name} IS '{NARROW}'",
    )


def is_narrow(layout: Layout, columns: Columns) -> str:
    """Return a query that has a row if the index was made narrow before."""
    name = quoted(layout.index(columns)).replace("'", "''")
    return f"SELECT 1 WHERE obj_description(to_regclass('{name}'), 'pg_class') = '{NARROW}'"
