"""Types of Spark SQL as Arrow types: names, text, and the common type of two.

In: sqlglot data types and Arrow types. Out: Arrow types as Spark 4.3 computes them in ANSI mode (its `AnsiTypeCoercion`
and `DecimalPrecision` rules). It does not type expressions: `infer` does.

A day-time interval with all its fields is `duration("us")`, a year-month interval `duration("s")`
(`belvedere.schema.MONTHS`). A calendar interval is represented by `month_day_nano_interval()`, which stored columns may
not have. VARIANT also has a placeholder.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from belvedere.schema import MONTHS, TIMESTAMP, VARIANT, has_map
from belvedere.values import type_names

INT8, INT16, INT32, INT64 = pa.int8(), pa.int16(), pa.int32(), pa.int64()
FLOAT, DOUBLE = pa.float32(), pa.float64()
STRING, BINARY, BOOLEAN, DATE, NULL = pa.string(), pa.binary(), pa.bool_(), pa.date32(), pa.null()
LOCAL_TIMESTAMP = pa.timestamp("us")
DAY_INTERVAL = pa.duration("us")
MONTH_INTERVAL = MONTHS
CALENDAR_INTERVAL = type_names.CALENDAR_INTERVAL
quote, type_text, a_type = type_names.quote, type_names.type_text, type_names.a_type
"""Names of types, re-exported; packages below this one also need them."""

WIDTHS = (INT8, INT16, INT32, INT64, FLOAT, DOUBLE)
INTEGERS = (INT8, INT16, INT32, INT64)
INTEGER_DIGITS = {INT8: 3, INT16: 5, INT32: 10, INT64: 20}
MONTH_UNITS = ("YEAR", "QUARTER", "MONTH")
"""Units of intervals without a fixed length."""
MAX_PRECISION = 38
MIN_ADJUSTED_SCALE = 6

Kind = exp.DataType.Type

_NAMES: dict[object, pa.DataType] = {
    Kind.TINYINT: INT8,
    Kind.SMALLINT: INT16,
    Kind.INT: INT32,
    Kind.BIGINT: INT64,
    Kind.FLOAT: FLOAT,
    Kind.DOUBLE: DOUBLE,
    Kind.TEXT: STRING,
    Kind.VARCHAR: STRING,
    Kind.CHAR: STRING,
    Kind.NCHAR: STRING,
    Kind.NVARCHAR: STRING,
    Kind.BINARY: BINARY,
    Kind.VARBINARY: BINARY,
    Kind.BOOLEAN: BOOLEAN,
    Kind.DATE: DATE,
    Kind.TIMESTAMP: TIMESTAMP,
    Kind.TIMESTAMPTZ: TIMESTAMP,
    Kind.TIMESTAMPLTZ: TIMESTAMP,
    Kind.DATETIME: TIMESTAMP,
    Kind.TIMESTAMPNTZ: LOCAL_TIMESTAMP,
    Kind.NULL: NULL,
    Kind.VARIANT: VARIANT,
}


INSTEAD: dict[object, str] = {
    Kind.DECIMAL: "DECIMAL has at most 38 digits",
    Kind.TIME: "TIME is switched off in Spark: use a STRING such as '12:30:00', or seconds of the day as an INT",
}
"""Hints for unsupported types."""


@dataclass(frozen=True, slots=True)
class Typed:
    """Type and nullability of an expression's value."""

    type: pa.DataType
    nullable: bool = True


def arrow_type(type_: exp.DataType) -> pa.DataType | None:
    """Return the Arrow type of a type in SQL; None if Belvedere does not support it."""
    if type_.this == Kind.DECIMAL:
        precision, scale = [*(int(p.name) for p in type_.expressions), *(10, 0)[len(type_.expressions) :]]
        return pa.decimal128(precision, scale) if 0 <= scale <= precision <= MAX_PRECISION and precision else None
    if type_.this in (Kind.ARRAY, Kind.LIST):
        element = _inner(type_.expressions[0]) if type_.expressions else None
        return None if element is None else pa.list_(element)
    if type_.this == Kind.MAP:
        parts = [_inner(e) for e in type_.expressions]
        return pa.map_(*parts) if len(parts) == 2 and None not in parts else None
    if type_.this == Kind.STRUCT:
        return _struct_type(type_)
    if type_.this == Kind.INTERVAL:
        return CALENDAR_INTERVAL
    if isinstance(type_.this, exp.Interval):
        return MONTH_INTERVAL if any(u in type_.this.sql().upper() for u in MONTH_UNITS) else DAY_INTERVAL
    return _NAMES.get(type_.this)


def _inner(part: exp.Expr) -> pa.DataType | None:
    return arrow_type(part) if isinstance(part, exp.DataType) else None


def _struct_type(type_: exp.DataType) -> pa.DataType | None:
    fields = []
    for field in type_.expressions:
        kind = field.args.get("kind")
        inner = arrow_type(kind) if isinstance(kind, exp.DataType) else None
        if inner is None:
            return None
        fields.append(pa.field(field.name, inner))
    return pa.struct(fields)


def cast(expr: exp.Expr, type_: pa.DataType) -> exp.Expr:
    """Return `CAST(expr AS type_)`."""
    return exp.Cast(this=expr, to=exp.DataType.build(type_text(type_), dialect="spark"))


def is_array(type_: pa.DataType) -> bool:
    """Return whether the type is an array; a map is not one."""
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_))


def is_integer(type_: pa.DataType) -> bool:
    return type_ in INTEGERS


def is_decimal(type_: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(type_))


def is_number(type_: pa.DataType) -> bool:
    return type_ in WIDTHS or is_decimal(type_)


def is_interval(type_: pa.DataType) -> bool:
    return type_ in (DAY_INTERVAL, MONTH_INTERVAL, CALENDAR_INTERVAL)


def unstorable_interval(type_: pa.DataType) -> str | None:
    """Return the part of the type that stores cannot hold: calendar intervals, and months within nested values. None if
    there is none."""
    inner = [type_.field(n).type for n in range(type_.num_fields)]
    if type_ == CALENDAR_INTERVAL:
        return "calendar intervals, of months and days"
    if MONTH_INTERVAL in inner:
        return "year-month intervals within nested values"
    return next(filter(None, map(unstorable_interval, inner)), None)


def has_months(type_: pa.DataType) -> bool:
    """Return whether the type is or contains a year-month interval."""
    return type_ == MONTH_INTERVAL or any(has_months(type_.field(n).type) for n in range(type_.num_fields))


def has_variant(type_: pa.DataType) -> bool:
    """Return whether the type is or contains VARIANT, which stores cannot hold."""
    return type_ == VARIANT or any(has_variant(type_.field(n).type) for n in range(type_.num_fields))


def is_time(type_: pa.DataType) -> bool:
    """Return whether the type is a date or a timestamp."""
    return type_ in (DATE, TIMESTAMP, LOCAL_TIMESTAMP)


def is_array_of_struct(type_: pa.DataType) -> bool:
    """Return whether a column of the type becomes a nested table."""
    return is_array(type_) and bool(pa.types.is_struct(type_.value_type))


def bounded_decimal(precision: int, scale: int) -> pa.DataType:
    """Return Spark's `DecimalType.bounded`: precision and scale limited to 38 digits."""
    return pa.decimal128(min(precision, MAX_PRECISION), min(scale, MAX_PRECISION))


def adjusted_decimal(precision: int, scale: int) -> pa.DataType:
    """Return Spark's `adjustPrecisionScale`: integer digits have priority, but up to 6 decimal places are kept."""
    if precision <= MAX_PRECISION:
        return pa.decimal128(precision, scale)
    kept = max(MAX_PRECISION - (precision - scale), min(scale, MIN_ADJUSTED_SCALE))
    return pa.decimal128(MAX_PRECISION, kept)


def as_decimal(type_: pa.DataType) -> pa.DataType:
    """Return the decimal that holds every value of an integer type."""
    return type_ if is_decimal(type_) else pa.decimal128(INTEGER_DIGITS[type_], 0)


def literal_decimal(digits: str) -> pa.DataType:
    """Return the type of a number written with a decimal point: `1.5` is DECIMAL(2, 1)."""
    whole, _, fraction = digits.lstrip("-").partition(".")
    whole = whole.lstrip("0")
    scale = len(fraction)
    return bounded_decimal(max(len(whole) + scale, scale, 1), scale)


def arithmetic_decimal(operator: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the type of `left operator right` for two decimals, with Spark's precision and scale."""
    p1, s1, p2, s2 = left.precision, left.scale, right.precision, right.scale
    if operator == "*":
        return adjusted_decimal(p1 + p2 + 1, s1 + s2)
    if operator == "/":
        scale = max(MIN_ADJUSTED_SCALE, s1 + p2 + 1)
        return adjusted_decimal(p1 - s1 + s2 + scale, scale)
    scale = max(s1, s2)
    if operator == "%":
        return adjusted_decimal(min(p1 - s1, p2 - s2) + scale, scale)
    return adjusted_decimal(max(p1 - s1, p2 - s2) + scale + 1, scale)


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the type to which CASE, COALESCE, UNION, arrays and comparisons cast both; None if there is none."""
    if left == right or right == NULL:
        return left
    if left == NULL:
        return right
    if is_number(left) and is_number(right):
        return _common_number(left, right)
    if is_time(left) and is_time(right):
        return TIMESTAMP if TIMESTAMP in (left, right) else LOCAL_TIMESTAMP
    if STRING in (left, right):
        return _beside_string(right if left == STRING else left)
    return _common_nested(left, right)


def plain_common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the common type without casts from text; None if there is none."""
    if (left == STRING) != (right == STRING) and NULL not in (left, right):
        return None
    return common_type(left, right)


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if is_decimal(left) or is_decimal(right):
        if left in (FLOAT, DOUBLE) or right in (FLOAT, DOUBLE):
            return DOUBLE
        a, b = as_decimal(left), as_decimal(right)
        scale = max(a.scale, b.scale)
        return bounded_decimal(max(a.precision - a.scale, b.precision - b.scale) + scale, scale)
    wider = max(left, right, key=WIDTHS.index)
    return DOUBLE if wider == FLOAT else wider


def _beside_string(other: pa.DataType) -> pa.DataType | None:
    if is_integer(other):
        return INT64
    if is_number(other):
        return DOUBLE
    return other if other in (DATE, TIMESTAMP, LOCAL_TIMESTAMP, BOOLEAN, BINARY) or is_interval(other) else None


def _common_nested(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if is_array(left) and is_array(right):
        element = common_type(left.value_type, right.value_type)
        return None if element is None else pa.list_(element)
    if pa.types.is_map(left) and pa.types.is_map(right):
        key, value = common_type(left.key_type, right.key_type), common_type(left.item_type, right.item_type)
        return None if key is None or value is None else pa.map_(key, value)
    if pa.types.is_struct(left) and pa.types.is_struct(right) and left.num_fields == right.num_fields:
        types = [common_type(a.type, b.type) for a, b in zip(left, right, strict=True)]
        if None not in types and all(a.name.casefold() == b.name.casefold() for a, b in zip(left, right, strict=True)):
            return pa.struct([pa.field(f.name, t) for f, t in zip(left, types, strict=True)])
    return None


def same_kind(left: pa.DataType, right: pa.DataType) -> bool:
    """Return whether two types may be compared. Spark does not compare maps."""
    return common_type(left, right) is not None and not has_map(left) and not has_map(right)


def same_kind_by_place(left: pa.DataType, right: pa.DataType) -> bool:
    """Return whether two structs may be compared field by field, ignoring field names, as IN does."""
    if not pa.types.is_struct(left) or not pa.types.is_struct(right) or left.num_fields != right.num_fields:
        return False
    return all(same_kind(a.type, b.type) for a, b in zip(left, right, strict=True))
