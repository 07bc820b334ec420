"""Whole requests whose rows all fit, by Arrow.

In: an input, JSON texts. Out: its rows, as `belvedere.intake.read` gives them; None where a row may not fit, is a deletion, or has a form
that Arrow reads in another sense: then each row is read by itself, with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from belvedere.catalog import Input
from belvedere.decode.objects import is_readable
from belvedere.intake.claims import NOBODY, Claims, claimed_columns
from belvedere.intake.read import Pushed, given_columns, key_columns
from belvedere.schema import WEIGHT, Column
from belvedere.store.row_checks import broken_checks

EXACT_DIGITS = 15
"""Digits of a number that a double keeps: a DECIMAL comes by way of it where Python reads JSON."""


def typed_columns(table: Input) -> Sequence[Column] | None:
    """The columns that a row is given with; None where their values are read one by one."""
    columns = [replace(c, nullable=c.nullable or c.hidden) for c in given_columns(table)]
    return columns if not table.defaults and is_readable(columns) and all(_is_exact(c.type) for c in columns) else None


def _is_exact(type_: pa.DataType) -> bool:
    """Whether Python, which reads each number as an integer or a double, gives the same values."""
    if pa.types.is_nested(type_):
        return all(_is_exact(type_.field(n).type) for n in range(type_.num_fields))
    return not (type_ == pa.float32() or (pa.types.is_decimal(type_) and type_.precision > EXACT_DIGITS))


def pushed(table: Input, parts: Iterable[pa.Table], claims: Claims = NOBODY) -> Pushed | None:
    """Rows that were read with `typed_columns`; None where one breaks a CHECK. Raises B8036 as `read_rows` does."""
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
