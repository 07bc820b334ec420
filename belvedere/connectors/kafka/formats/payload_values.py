"""Decoded values as columns: each value in its column's type, or the reason why the message is not a row.

In: messages and their parser, columns. Out: rows. Runs in Spark's tasks: nothing here imports PySpark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

from belvedere.connectors.exporting.event_files import plain_json
from belvedere.connectors.kafka.formats.decoded_rows import Decoded
from belvedere.connectors.reading.misfits import misfit_of, null_in
from belvedere.decode.row_values import row_schema
from belvedere.errors import BelvedereError
from belvedere.schema import Column
from belvedere.values.rejections import Reason, RejectionKind

T = pa.types
PLAIN = {int: T.is_signed_integer, str: T.is_string, float: T.is_float64, bool: T.is_boolean, datetime: T.is_timestamp}
"""Python types whose values Arrow types hold without conversion."""
MISFITS = (pa.ArrowException, TypeError, ValueError, OverflowError)


class RefusedMessage(Exception):
    """The reason that a message is not a row."""

    def __init__(self, reason: Reason):
        super().__init__(reason)
        self.reason = reason


def rows_of(
    values: Sequence[bytes],
    read: Callable[[bytes], Any],
    columns: Sequence[Column],
    what: str,
    kind: RejectionKind = RejectionKind.SCHEMA,
) -> Decoded:
    """Return the rows of messages; `read` parses each into a mapping, or into the value of the only column.

    A message that is not `what`, or whose values do not fit, is rejected; the former with a reason of this kind.
    """
    refused: dict[int, Reason] = {}
    found: list[Mapping[str, Any]] = []
    for place, value in enumerate(values):
        record: Any = {}
        try:
            record = read(value)
        except BelvedereError:  # the registry does not answer: nothing is wrong with the message
            raise
        except RefusedMessage as error:
            refused[place] = error.reason
        except Exception as error:  # any error of the decoder
            said = f"is not {what}: {type(error).__name__}: {error}"
            refused[place] = Reason(said[:300], kind, f"is not {what}")
        if not isinstance(record, Mapping) and len(columns) == 1:
            record = {columns[0].name: record}
        elif not isinstance(record, Mapping):
            refused[place], record = Reason("is not a record"), {}
        found.append(record)
    arrays = [column_of([r.get(c.name) for r in found], c, refused) for c in columns]
    return Decoded(pa.table(arrays, schema=row_schema(columns)), refused=refused)


def column_of(values: Sequence[Any], column: Column, refused: dict[int, Reason]) -> pa.Array:
    """Convert values to the column's type. A row whose value does not fit is rejected."""
    try:
        typed = list(values) if _are_plain(values, column.type) else [_judged(v, column.type) for v in values]
        made = pa.array(typed, column.type)
    except MISFITS:
        typed = [_alone(v, n, column, refused) for n, v in enumerate(values)]
        made = pa.array(typed, column.type)
    if not column.nullable:
        for place, value in enumerate(typed):
            if value is None and values[place] is None:
                refused.setdefault(place, null_in(column))
    return made


def _are_plain(values: Sequence[Any], type_: pa.DataType) -> bool:
    """Return whether Arrow accepts all values unchanged, as in most columns of most messages."""
    return any(is_of(type_) and set(map(type, values)) <= {kind, type(None)} for kind, is_of in PLAIN.items())


def _alone(value: Any, place: int, column: Column, refused: dict[int, Reason]) -> Any:
    """Return a value in Arrow's form; None if it does not fit, which is recorded in `refused`."""
    try:
        typed = _judged(value, column.type)
        pa.array([typed], column.type)
    except MISFITS:
        refused.setdefault(place, misfit_of(column, str(value)[:200]))
        return None
    return typed


def _judged(value: Any, type_: pa.DataType) -> Any:
    """Return a value in the form that Arrow accepts for a type: maps as pairs, UUIDs and others as text in text
    columns.

    Raises ValueError or TypeError if Arrow would change the value.
    """
    if value is None:
        return None
    if T.is_map(type_) and isinstance(value, Mapping):
        return [(k, _judged(v, type_.item_type)) for k, v in value.items()]
    if T.is_struct(type_) and isinstance(value, Mapping):
        return {f.name: _judged(value.get(f.name), f.type) for f in type_}
    if T.is_list(type_) and isinstance(value, list):
        return [_judged(v, type_.value_type) for v in value]
    if T.is_string(type_) and not isinstance(value, str | bytes):
        return (
            json.dumps(plain_json(value), ensure_ascii=False, default=str)
            if isinstance(value, dict | list | bool)
            else format(value, "f" if isinstance(value, Decimal) else "")
        )
    return _exact(value, type_)


def _exact(value: Any, type_: pa.DataType) -> Any:
    """Convert a number or a time to the type without loss, by the rules for files."""
    if isinstance(value, bool) and not T.is_boolean(type_):
        raise TypeError("a boolean is not a number")
    if T.is_integer(type_) and isinstance(value, float | Decimal):
        if value != int(value):
            raise ValueError("expected a whole number")
        return int(value)
    if T.is_decimal(type_) and isinstance(value, float):
        return Decimal(repr(value))
    if T.is_date(type_):
        if isinstance(value, datetime) and value.time().replace(tzinfo=None) == time():
            return value.date()
        if isinstance(value, datetime | int | float | Decimal):
            raise ValueError("expected a date")
    return value
