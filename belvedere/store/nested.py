"""Nested values as JSON text: exact, and one text per value.

In: Arrow arrays of lists, structs, maps and calendar intervals. Out: arrays of JSON text, and the values back. Decimals,
timestamps, dates and binary values are JSON strings in the API's forms; NaN and infinities are the strings "NaN",
"Infinity" and "-Infinity"; a length of time is a number of microseconds; a struct is an object with its fields in order;
a map is a list of `[key, value]` pairs in order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

Convert = Callable[[Any], Any]

_MICROSECOND = timedelta(microseconds=1)


def to_json(values: pa.Array) -> pa.Array:
    """An array of nested values as an array of JSON texts; NULL stays NULL."""
    convert = _writer(values.type)
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
    return pa.array([None if v is None else encode(convert(v)) for v in values.to_pylist()], pa.string())


def from_json(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """The inverse of `to_json`."""
    convert = _reader(type_)
    return pa.array([None if t is None else convert(json.loads(t)) for t in texts.to_pylist()], type_)


def _writer(type_: pa.DataType) -> Convert:
    return _skipping_null(_written(type_))


def _reader(type_: pa.DataType) -> Convert:
    return _skipping_null(_read(type_))


def _skipping_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _same(value: Any) -> Any:
    return value


def _written(type_: pa.DataType) -> Convert:
    types = pa.types
    if types.is_struct(type_):
        fields = [(f.name, _writer(f.type)) for f in type_]
        return lambda value: {name: convert(value[name]) for name, convert in fields}
    if types.is_map(type_):
        key, item = _writer(type_.key_type), _writer(type_.item_type)
        return lambda value: [[key(k), item(v)] for k, v in value]
    if is_list(type_):
        element = _writer(type_.value_type)
        return lambda value: [element(v) for v in value]
    if types.is_floating(type_):
        return lambda value: value if math.isfinite(value) else _WORDS_OF[repr(value)]
    if types.is_decimal(type_):
        return lambda value: format(value, "f")
    if types.is_timestamp(type_):
        return _instant
    if types.is_date(type_) or types.is_time(type_):
        return lambda value: value.isoformat()
    if types.is_duration(type_):
        return lambda value: value // _MICROSECOND
    if is_bytes(type_):
        return lambda value: value.hex()
    return list if types.is_interval(type_) else _same


def _read(type_: pa.DataType) -> Convert:
    types = pa.types
    if types.is_struct(type_):
        fields = [(f.name, _reader(f.type)) for f in type_]
        return lambda value: {name: convert(value[name]) for name, convert in fields}
    if types.is_map(type_):
        key, item = _reader(type_.key_type), _reader(type_.item_type)
        return lambda value: [(key(k), item(v)) for k, v in value]
    if is_list(type_):
        element = _reader(type_.value_type)
        return lambda value: [element(v) for v in value]
    if types.is_floating(type_):
        return float
    if types.is_decimal(type_):
        return Decimal
    if types.is_timestamp(type_):
        return datetime.fromisoformat
    if types.is_date(type_):
        return date.fromisoformat
    if types.is_time(type_):
        return time.fromisoformat
    if types.is_duration(type_):
        return lambda value: timedelta(microseconds=value)
    if is_bytes(type_):
        return bytes.fromhex
    return pa.MonthDayNano if types.is_interval(type_) else _same


_WORDS_OF = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _instant(value: datetime) -> str:
    """RFC 3339 in UTC; a timestamp without a zone has no `Z`."""
    text = (value.astimezone(UTC) if value.tzinfo else value).replace(tzinfo=None).isoformat()
    return text + "Z" if value.tzinfo else text


def is_list(type_: pa.DataType) -> bool:
    """Whether the type is any of Arrow's lists."""
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_))


def is_bytes(type_: pa.DataType) -> bool:
    """Whether the type is any of Arrow's binary types."""
    types = pa.types
    return bool(types.is_binary(type_) or types.is_large_binary(type_) or types.is_fixed_size_binary(type_))
