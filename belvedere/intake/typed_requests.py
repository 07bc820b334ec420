"""Fast parsing by Arrow of requests whose rows are all valid.

In: an input, JSON texts. Out: its rows, as `belvedere.intake.request_rows` returns them. The result is None if a row
may be invalid, is a deletion, or has a form that Arrow interprets differently. Then `request_rows` parses each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from belvedere.catalog.inputs import Input
from belvedere.decode.json_objects import is_readable
from belvedere.intake.claims import NO_ONE, Claims, claimed_columns
from belvedere.intake.request_rows import Pushed, given_columns, key_columns
from belvedere.schema import WEIGHT, Column
from belvedere.store.row_checks import broken_checks


def typed_columns(table: Input) -> Sequence[Column] | None:
    """Return the columns that a client sends; None if one has a type that is parsed value by value."""
    columns = [replace(c, nullable=c.nullable or c.hidden) for c in given_columns(table)]
    return (
        columns
        if not table.defaults and is_readable(columns) and not any(_is_single(c.type) for c in columns)
        else None
    )


def _is_single(type_: pa.DataType) -> bool:
    """Return whether a type contains FLOAT. Python converts a FLOAT through a double, so it may be rounded twice."""
    if pa.types.is_nested(type_):
        return any(_is_single(type_.field(n).type) for n in range(type_.num_fields))
    return bool(type_ == pa.float32())


def pushed(table: Input, parts: Iterable[pa.Table], claims: Claims = NO_ONE) -> Pushed | None:
    """Return rows parsed with `typed_columns`; None if a row violates a CHECK. Raises B8036 as `read_rows` does."""
    claimed = claimed_columns(table, claims)
    rows = pa.concat_tables(parts).combine_chunks()
    if broken_checks(table, rows):
        return None
    for column in key_columns(table):
        if column.name not in rows.schema.names:
            rows = rows.append_column(column.name, pa.nulls(rows.num_rows, column.type))
    for name, value in claimed.items():
        rows = rows.append_column(name, pa.array([value] * rows.num_rows, table.schema[name].type))
    return Pushed(rows.append_column(WEIGHT, pa.array(np.ones(rows.num_rows, np.int64))), range(rows.num_rows))
