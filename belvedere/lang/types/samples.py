"""Inference of a type from sample values.

In: JSON values and CSV fields. Out: kinds, merged value by value, and finally an Arrow type. A kind is None (NULLs so
far), an Arrow type, `("list", kind)`, or a dict of field kinds. If values do not agree the type is text, so nothing is
lost.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from belvedere.schema import TIMESTAMP

STRING, BOOLEAN, LONG, DOUBLE, DATE = pa.string(), pa.bool_(), pa.int64(), pa.float64(), pa.date32()
BIG = pa.decimal128(38, 0)
DATE_TEXT = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")
TIME_TEXT = re.compile(
    DATE_TEXT.pattern + r"[T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,9})?)?\s?(Z|UTC|[+-]\d{2}:?\d{2})?"
)
WHOLE_TEXT = re.compile(r"[+-]?(0|[1-9]\d*)")
NUMBER_TEXT = re.compile(r"[+-]?(0|[1-9]\d*)?\.?\d+([eE][+-]?\d+)?|[+-]?(0|[1-9]\d*)\.|NaN|[+-]?Infinity")

SampleKind = Any
DEEPEST = 50


def kind_of_value(value: Any, depth: int = 0) -> SampleKind:
    """Return the kind of a JSON value; values nested deeper than `DEEPEST` are text."""
    match value:
        case None:
            return None
        case bool():
            return BOOLEAN
        case int():
            return _whole(value)
        case float():
            return DOUBLE
        case str():
            return _time_or_text(value)
        case list() | dict() if depth > DEEPEST:
            return STRING
        case list():
            element: SampleKind = None
            for item in value:
                element = merge(element, kind_of_value(item, depth + 1))
            return ("list", element)
        case dict():
            return {name: kind_of_value(field, depth + 1) for name, field in value.items()}
    return STRING


def kind_of_text(text: str) -> SampleKind:
    """Return the kind of a CSV field. A number with a leading zero is text: it may be a postal code."""
    stripped = text.strip()
    if stripped.lower() in ("true", "false"):
        return BOOLEAN
    if WHOLE_TEXT.fullmatch(stripped):
        return _whole(int(stripped))
    if NUMBER_TEXT.fullmatch(stripped) and not re.match(r"[+-]?0\d", stripped):
        return DOUBLE
    return _time_or_text(stripped)


def _whole(value: int) -> pa.DataType:
    if -(2**63) <= value < 2**63:
        return LONG
    return BIG if abs(value) < 10**38 else STRING


def _time_or_text(text: str) -> pa.DataType:
    if TIME_TEXT.fullmatch(text):
        return TIMESTAMP
    return DATE if DATE_TEXT.fullmatch(text) else STRING


def merge(left: SampleKind, right: SampleKind) -> SampleKind:
    """Return the kind that holds values of both kinds."""
    if left is None or left == right:
        return right
    if right is None:
        return left
    if isinstance(left, dict) and isinstance(right, dict):
        return {name: merge(left.get(name), right.get(name)) for name in (*left, *(n for n in right if n not in left))}
    if isinstance(left, tuple) and isinstance(right, tuple):
        return ("list", merge(left[1], right[1]))
    if isinstance(left, pa.DataType) and isinstance(right, pa.DataType):
        return _merge_types(left, right)
    return STRING


def _merge_types(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if _is_number(left) and _is_number(right):
        if DOUBLE in (left, right) or pa.types.is_floating(left) or pa.types.is_floating(right):
            return DOUBLE
        return BIG if BIG in (left, right) else LONG
    if {left, right} == {DATE, TIMESTAMP}:
        return TIMESTAMP
    return STRING


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def arrow_type(kind: SampleKind) -> pa.DataType:
    """Return the Arrow type of a kind; text if there were only NULLs. Types of Parquet files become those that scripts
    know."""
    if kind is None:
        return STRING
    if isinstance(kind, dict):
        return pa.struct([pa.field(name, arrow_type(field)) for name, field in kind.items()]) if kind else STRING
    if isinstance(kind, tuple):
        return pa.list_(arrow_type(kind[1]))
    return known_type(kind)


MAX_DIGITS = 38
UNSIGNED = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): LONG, pa.uint64(): pa.decimal128(20, 0)}


def known_type(type_: pa.DataType) -> pa.DataType:
    """Return a Parquet column's type as Spark reads it: instants in UTC, signed integers, plain text."""
    t = pa.types
    if t.is_timestamp(type_):
        return TIMESTAMP
    if t.is_date(type_):
        return DATE
    if t.is_dictionary(type_):
        return known_type(type_.value_type)
    if t.is_large_string(type_) or t.is_string_view(type_) or t.is_null(type_) or t.is_time(type_):
        return STRING
    if t.is_large_binary(type_) or t.is_fixed_size_binary(type_) or t.is_binary_view(type_):
        return pa.binary()
    if t.is_decimal(type_):  # a decimal with more digits than DECIMAL allows is read as text
        return STRING if type_.precision > MAX_DIGITS else pa.decimal128(type_.precision, type_.scale)
    if any(
        is_list(type_)
        for is_list in (t.is_list, t.is_large_list, t.is_fixed_size_list, t.is_list_view, t.is_large_list_view)
    ):
        return pa.list_(known_type(type_.value_type))
    if t.is_struct(type_):
        return pa.struct([pa.field(f.name, known_type(f.type), f.nullable) for f in type_])
    if t.is_map(type_):
        return pa.map_(known_type(type_.key_type), known_type(type_.item_type))
    if t.is_float16(type_):
        return pa.float32()
    return UNSIGNED.get(type_, type_)
