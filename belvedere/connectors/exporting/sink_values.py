"""Lossless conversion of values to the columns of an existing table.

In: a column of events, the type of the table's column. Out: the column in that type, or the index of the first value
that would change. No value is rounded, truncated or wrapped: the conversion back must give the original value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from belvedere.errors import BelvedereError, fail
from belvedere.functions.spark_types import type_text
from belvedere.rules.events import SEQUENCE

INTEGER_DIGITS = 19


@dataclass(frozen=True)
class UnfittingValue:
    """A value that a table's column cannot hold: the column, the number of its event, the value and both types."""

    column: str
    event: int
    value: str
    own: str
    theirs: str

    def refusal(self, code: str, sink: str, target: str) -> BelvedereError:
        """Return the error that ends the export."""
        reported = f"{self.value[:200]} ({self.own}) of event {self.event:,}"
        message = (
            f'sink "{sink}" cannot write "{target}": its column "{self.column}" is {self.theirs}, '
            f"which cannot hold {reported}"
        )
        hint = 'change the table\'s column, cast in the view, or export to another table: `names = { Target = "name" }`'
        return fail(code, message, hint=hint)


def with_types(events: pa.Table, types: pa.Schema) -> pa.Table | UnfittingValue:
    """Convert events to the types of a table's columns; return the first value that a column cannot hold."""
    for place, field in enumerate(events.schema):
        requested = types.field(field.name).type if field.name in types.names else field.type
        if requested == field.type:
            continue
        found = in_type(events[field.name], requested)
        if isinstance(found, int):
            number, value = events[SEQUENCE][found].as_py(), events[field.name][found].as_py()
            return UnfittingValue(field.name, number, str(value), type_text(field.type), type_text(requested))
        events = events.set_column(place, field.name, found)
    return events


def in_type(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray | int:
    """Convert a column to another type; return the index of the first value that would change."""
    try:
        found = _cast(column, type_)
        back = found.cast(column.type).to_pylist()
    except pa.ArrowException:
        return _first_failing(column, lambda part: _cast(part, type_).cast(column.type))
    values = column.to_pylist()
    changed = (n for n, (value, other) in enumerate(zip(values, back, strict=True)) if not _is_same(value, other))
    return next(changed, found)


def _cast(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_integer(column.type) and pa.types.is_decimal(
        type_
    ):  # Arrow requires space for every number of the type
        column = column.cast(pa.decimal128(INTEGER_DIGITS, 0))
    return column.cast(type_)


def _first_failing(column: pa.ChunkedArray, attempt: Callable[[pa.ChunkedArray], object]) -> int:
    """Return the index of the first value for which an attempt fails, if it fails for the whole column."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        part = pa.array(
            column.slice(low, middle - low).to_pylist(), column.type
        )  # a slice of lists casts all their values
        try:
            attempt(pa.chunked_array([part]))
        except pa.ArrowException:
            high = middle
        else:
            low = middle
    return low


def _is_same(value: Any, other: Any) -> bool:
    """Return whether values are equal. NaN equals itself, also within other values."""
    if isinstance(value, float) and isinstance(other, float):
        return value == other or (value != value and other != other)
    if isinstance(value, list | tuple) and isinstance(other, list | tuple):
        return len(value) == len(other) and all(map(_is_same, value, other))
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(_is_same(v, other[k]) for k, v in value.items())
    return bool(value == other)
