"""Sorting of Arrow rows in Spark's order: NaN is greater than every number, and the order places NULLs.

In: a table that has the columns of the order. Out: indices of its rows, or the rows. Tied rows keep their positions.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.plan.operators.nodes import Order


def sorted_rows(rows: pa.Table, order: Sequence[Order]) -> pa.Table:
    """Return the rows in an order by columns; unchanged if the order names a missing column."""
    if not order or any(o.expr.name not in rows.schema.names for o in order):
        return rows
    return rows.take(sorted_places(rows, order))


def sorted_places(rows: pa.Table, order: Sequence[Order]) -> pa.Array:
    """Return the indices of the rows in that order."""
    places = pa.array(range(rows.num_rows), pa.int64())
    for key in reversed(order):
        values = rows[key.expr.name]
        places = _sorted(places, values, key.descending)
        if pa.types.is_floating(values.type):
            places = _sorted(places, pc.fill_null(pc.is_nan(values), False), key.descending)
        places = _sorted(places, pc.is_null(values), key.nulls_come_first)
    return places


def _sorted(places: pa.Array, values: pa.ChunkedArray, descending: bool) -> pa.Array:
    """Sort positions by their values; equal ones keep their order (stable sort)."""
    there = values.take(places)
    direction = "descending" if descending else "ascending"
    return places.take(pc.sort_indices(pa.table({"v": there}), sort_keys=[("v", direction)]))
