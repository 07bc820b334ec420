"""Values of columns as rows, with flags of those that do not fit.

In: values by column, and flags for the slow decoder. Out: rows in the same order, and flags for the slow decoder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.decode.text_values import Flags
from belvedere.schema import Column
from belvedere.values.time_range import rows_beyond

Values: TypeAlias = Mapping[str, "tuple[pa.Array, Flags | None]"]
"""Values of records by column, with flags for the slow decoder."""


def row_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the columns of rows; each is nullable."""
    return pa.schema([pa.field(c.name, c.type) for c in columns])


def typed_values(values: Values, columns: Sequence[Column], size: int) -> tuple[pa.Table, Flags]:
    """Return the rows of `size` records, NULL for skipped ones, and flags for these: also for NULL in NOT NULL columns,
    and times out of range.
    """
    left = np.zeros(size, np.bool_)
    found = []
    for column in columns:
        array, flags = values.get(column.name) or (pa.nulls(size, column.type), None)
        if flags is not None:
            left |= flags
        if not column.nullable and array.null_count:
            left |= np.asarray(pc.is_null(array))
        found.append(array)
    rows = pa.table(found, schema=row_schema(columns))
    left[list(rows_beyond(rows, columns))] = True
    if left.any():
        places = np.flatnonzero(~left)
        rows = placed(rows.take(pa.array(places)), places, size)
    return rows, left


def placed(rows: pa.Table, places: Sequence[int] | npt.NDArray[Any], count: int) -> pa.Table:
    """Return `count` rows with `rows` at these positions; the others are NULL."""
    if rows.num_rows == count:
        return rows
    index = np.full(count, -1, np.int64)
    index[np.asarray(places, np.int64)] = np.arange(rows.num_rows)
    return rows.take(pa.array(index, mask=index < 0))
