"""Conversion of a frame's columns to rows of a table.

In: a frame and the table's columns. Out: Arrow rows, equal to those of `belvedere.values.input_rows.arrow_rows` from
dicts: the same values are valid, and the same errors name the invalid row (B6001, B6002, B6003). A column is cast as a
whole if the result is the same, else value by value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.errors import fail
from belvedere.frames.frame_columns import NO_FRAME, Values, frame_columns, is_bytes, is_list, is_text
from belvedere.frames.plain_values import plain
from belvedere.schema import MONTHS, Column
from belvedere.values.decimals import decimals_of
from belvedere.values.input_rows import NO_DEFAULTS, convert, misfit, missing_value, names_of, unknown_column

MISFITS = (ValueError, TypeError, InvalidOperation, OverflowError, pa.ArrowException)


def rows_of_frame(
    table: str,
    columns: Iterable[Column],
    frame: Any,
    defaults: Mapping[str, Any] = NO_DEFAULTS,
    *,
    only_known: bool = False,
) -> pa.Table:
    """Return the frame's rows in the table's columns; a missing column has its default, or is NULL. Case is ignored.

    `only_known` ignores the frame's other columns, which are an error without it.
    """
    requested = list(columns)
    given, length = _by_name(table, requested, frame_columns(frame, f'"{table}"'), only_known)
    made = {c.name: _column(table, c, given.get(c.name), defaults.get(c.name), length) for c in requested}
    return pa.table(made, schema=pa.schema([pa.field(c.name, c.type) for c in requested]))


def _by_name(
    table: str, columns: list[Column], given: Mapping[str, Values], only_known: bool
) -> tuple[dict[str, Values], int]:
    """Return the frame's columns by the table's names for them, and the number of rows."""
    names, found = names_of(columns), dict[str, Values]()
    for name, values in given.items():
        known = names.get(name.casefold())
        if known in found:
            raise fail(NO_FRAME, f'the frame for "{table}" has two columns for "{known}"', hint="drop one of them")
        if known is not None:
            found[known] = values
        elif not only_known:
            raise unknown_column(f'the frame for "{table}"', name, columns)
    return found, next((len(v) for v in given.values()), 0)


def _column(table: str, column: Column, values: Values | None, default: Any, length: int) -> pa.ChunkedArray:
    if values is None:
        values = [default] * length
    made = _cast(values, column.type) if isinstance(values, pa.ChunkedArray) else None
    if made is None:
        made = pa.chunked_array([_converted(table, column, values)], column.type)
    if made.null_count and not column.nullable and not column.hidden:
        raise missing_value(table, pc.index(made.is_null(), True).as_py(), column)
    return made


def _converted(table: str, column: Column, values: Values) -> pa.Array:
    """Convert value by value, and report the first invalid one with its row."""
    made, value = [], None
    for number, given in enumerate(values):
        try:
            value = given
            value = given.as_py() if isinstance(given, pa.Scalar) else given
            made.append(convert(_or_null(plain(value), isinstance(given, pa.Scalar)), column.type))
        except MISFITS as error:
            raise misfit(table, number, column, value, error) from error
    return pa.array(made, column.type)


def _or_null(value: Any, from_arrow: bool) -> Any:
    """Return the value, or None for NaN among pandas' objects, which is a missing value."""
    return None if isinstance(value, float) and value != value and not from_arrow else value


def _cast(values: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray | None:
    """Return the column in another type; None if a value has no equal in that type."""
    if not _is_same_kind(values.type, type_):
        return None
    try:
        if pa.types.is_decimal(type_) and values.type != type_:
            return pa.chunked_array([decimals_of(chunk, type_) for chunk in values.chunks], type_)
        return values.cast(type_)
    except pa.ArrowException:
        return None


def _is_same_kind(given: pa.DataType, requested: pa.DataType) -> bool:
    """Return whether a safe cast gives the same values or errors as `belvedere.values.input_rows.convert`."""
    if requested == MONTHS:  # Arrow would take seconds for months
        return bool(pa.types.is_null(given))
    if given == requested or pa.types.is_null(given):
        return True
    if is_list(given) and is_list(requested):
        return _is_same_kind(given.value_type, requested.value_type)
    kinds = (pa.types.is_timestamp, pa.types.is_duration, pa.types.is_date, pa.types.is_decimal, is_text, is_bytes)
    if any(is_kind(given) and is_kind(requested) for is_kind in kinds):
        return True
    is_number = pa.types.is_integer(given) or pa.types.is_floating(given)
    return bool(is_number and (pa.types.is_integer(requested) or pa.types.is_floating(requested)))
