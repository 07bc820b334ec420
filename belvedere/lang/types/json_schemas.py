"""Type of a JSON text, as Spark's `schema_of_json` infers it.

In: a text. Out: an Arrow type; None for a text that is not JSON, or whose parts have no common type that Spark would
infer.
"""

from __future__ import annotations

import json
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa

from belvedere.functions import spark_types as t


def schema_of(text: str) -> pa.DataType | None:
    """Return the type of JSON text: integers are BIGINT, other numbers DOUBLE; fields are sorted by name; NULL is a
    STRING."""
    try:
        value = json.loads(text, parse_float=Decimal)
    except ValueError:
        return None
    return _as_text(_inferred(value))


def _inferred(value: Any) -> pa.DataType:
    if isinstance(value, dict):
        return pa.struct([pa.field(name, _inferred(value[name])) for name in sorted(value)])
    if isinstance(value, list):
        return pa.list_(reduce(_merged, map(_inferred, value), t.NULL))
    if isinstance(value, bool):
        return t.BOOLEAN
    if isinstance(value, int):
        digits = len(str(abs(value)))
        return (
            t.INT64
            if -(2**63) <= value < 2**63
            else pa.decimal128(digits, 0)
            if digits <= t.MAX_PRECISION
            else t.DOUBLE
        )
    return t.DOUBLE if isinstance(value, Decimal) else t.NULL if value is None else t.STRING


def _merged(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the type of both elements of one array; STRING if there is no common type."""
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        fields = {f.name: f.type for f in left}
        for f in right:
            fields[f.name] = _merged(fields[f.name], f.type) if f.name in fields else f.type
        return pa.struct([pa.field(name, fields[name]) for name in sorted(fields)])
    if t.is_array(left) and t.is_array(right):
        return pa.list_(_merged(left.value_type, right.value_type))
    if t.NULL in (left, right) or left == right:
        return right if left == t.NULL else left
    return (t.common_type(left, right) or t.STRING) if t.is_number(left) and t.is_number(right) else t.STRING


def _as_text(type_: pa.DataType) -> pa.DataType:
    """Replace the type of NULL by STRING, as Spark's schema does."""
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(f.name, _as_text(f.type)) for f in type_])
    if t.is_array(type_):
        return pa.list_(_as_text(type_.value_type))
    return t.STRING if type_ == t.NULL else type_
