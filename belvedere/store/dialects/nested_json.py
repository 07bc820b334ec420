"""Nested values as JSON text: exact, with a single text per value.

In: Arrow arrays of lists, structs, maps and calendar intervals. Out: arrays of JSON text, and the values back.
Decimals, timestamps, dates, intervals and binary values are JSON strings in the API's forms; NaN and infinities are the
strings "NaN", "Infinity" and "-Infinity". A struct is an object with its fields in order. A map with text keys is an
object with its entries in order, any other map a list of `[key, value]` pairs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from belvedere.schema import MONTHS
from belvedere.values.intervals import interval_of, iso_text
from belvedere.values.months import months_of, months_text

Convert = Callable[[Any], Any]
_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def to_json(values: pa.Array) -> pa.Array:
    """Convert an array of nested values to an array of JSON texts. NULL stays NULL."""
    write, _ = _ways(values.type)
    return pa.array([None if v is None else _ENCODE(write(v)) for v in values.to_pylist()], pa.string())


def member_text(value: Any, type_: pa.DataType) -> str:
    """Return a value of the type as text in nested JSON; a decimal that the type cannot hold becomes a text that
    matches no value.
    """
    if isinstance(value, Decimal):
        exact = round(value, type_.scale)
        value = exact if exact == value else value
    write = months_text if type_ == MONTHS else _ways(type_)[0]
    return _ENCODE(write(value))


def plain_values(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the values, nested or not, as values for Python's `json`.

    NaN and infinities within nested values are texts.
    """
    write, _ = _ways(values.type)
    return [write(v) for v in values.to_pylist()]


def from_json(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Convert the texts of `to_json` back."""
    _, read = _ways(type_)
    return pa.array([None if t is None else read(json.loads(t)) for t in texts.to_pylist()], type_)


def _ways(type_: pa.DataType) -> tuple[Convert, Convert]:
    """Return the conversions from a value of the type, or None, to its JSON value, and back."""
    write, read = _plain_ways(type_)
    return (lambda value: None if value is None else write(value)), (
        lambda value: None if value is None else read(value)
    )


def _plain_ways(type_: pa.DataType) -> tuple[Convert, Convert]:
    if pa.types.is_struct(type_):
        fields = [(f.name, *_ways(f.type)) for f in type_]
        return (
            lambda value: {name: write(value[name]) for name, write, _ in fields},
            lambda value: {name: read(value[name]) for name, _, read in fields},
        )
    if pa.types.is_map(type_):
        (key, key_back), (item, item_back) = _ways(type_.key_type), _ways(type_.item_type)
        if has_text_keys(type_):
            return (
                lambda value: {k: item(v) for k, v in value},
                lambda value: [(k, item_back(v)) for k, v in (value.items() if isinstance(value, dict) else value)],
            )
        return lambda value: [[key(k), item(v)] for k, v in value], lambda value: [
            (key_back(k), item_back(v)) for k, v in value
        ]
    if is_list(type_):
        write, read = _ways(type_.value_type)
        return lambda value: list(map(write, value)), lambda value: list(map(read, value))
    return next(((write, read) for test, write, read in _LEAVES if test(type_)), (_same, _same))


def _same(value: Any) -> Any:
    return value


def _double(value: float) -> float | str:
    return value if math.isfinite(value) else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[repr(value)]


def _instant(value: datetime) -> str:
    """Return RFC 3339 in UTC. A timestamp without a zone has no `Z`."""
    text = (value.astimezone(UTC) if value.tzinfo else value).replace(tzinfo=None).isoformat()
    return text + "Z" if value.tzinfo else text


def has_text_keys(type_: pa.DataType) -> bool:
    """Return whether a map can be a JSON object."""
    key = type_.key_type
    return bool(pa.types.is_string(key) or pa.types.is_large_string(key))


def is_list(type_: pa.DataType) -> bool:
    """Return whether the type is any of Arrow's lists."""
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_))


def is_bytes(type_: pa.DataType) -> bool:
    """Return whether the type is any of Arrow's binary types."""
    types = pa.types
    return bool(types.is_binary(type_) or types.is_large_binary(type_) or types.is_fixed_size_binary(type_))


_LEAVES: tuple[tuple[Callable[[pa.DataType], bool], Convert, Convert], ...] = (
    (pa.types.is_floating, _double, float),
    (pa.types.is_decimal, lambda value: format(value, "f"), Decimal),
    (pa.types.is_timestamp, _instant, datetime.fromisoformat),
    (pa.types.is_date, date.isoformat, date.fromisoformat),
    (pa.types.is_time, time.isoformat, time.fromisoformat),
    (lambda type_: type_ == MONTHS, lambda value: months_text(value // timedelta(seconds=1)), months_of),
    (pa.types.is_duration, iso_text, interval_of),
    (is_bytes, bytes.hex, bytes.fromhex),
    (pa.types.is_interval, list, pa.MonthDayNano),
)
