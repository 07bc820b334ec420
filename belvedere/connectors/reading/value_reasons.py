"""Lossless conversion of typed values (Parquet, tables that Spark reads) and of texts to the types of their columns.

In: Spark columns. Out: Spark columns: the value, NULL if it does not fit the type, and the coded reason. Nothing is
rounded or truncated: 1.5 is not a BIGINT, 2 not a BOOLEAN, 23:30 not a DATE, and a nanosecond not a TIMESTAMP. A double
without a fraction is a BIGINT. No action runs here.
"""

from __future__ import annotations

from functools import reduce
from operator import and_

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from belvedere.connectors.reading.misfits import is_none
from belvedere.functions.spark_types import is_decimal, is_integer, is_number, type_text
from belvedere.schema import TIMESTAMP, Column
from belvedere.values.decimals import DIGITS
from belvedere.values.rejections import NEXT, RejectionKind, code

TIME_OF_DAY = r"^[^T ]*\d[T ]+(?!00?:00?(:00?([.,]0*)?)?\s*(Z|UTC|GMT|[+-][0-9:]+)?\s*$)\S"
"""Pattern of a date with a time of day other than midnight."""
NANOSECONDS = r"[.,]\d{6}\d*[1-9]"
MAX_TEXT_LENGTH = 200
MORE_DIGITS = 12
MICROSECONDS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
CORRUPT, VALUE = "__corrupt", "__value"
_NUMBERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType, T.DecimalType)
_BEYOND_64_BITS = float(2**63)


def judged(raw: DataFrame, value: SparkColumn, found: T.DataType, column: Column) -> tuple[SparkColumn, SparkColumn]:
    """Return a value of `raw` with type `found` in the column's type, and the reason if it does not fit."""
    requested = type_text(column.type)
    nothing = F.lit(None).cast("string")
    if _is_same(found, requested):
        return value, nothing
    if isinstance(found, T.StringType):
        made = text_value(value, column)
        if not _is_sound(raw, made):
            made = F.lit(None).cast(requested)
        return made, joined(text_reasons(value, made, column))
    text = text_of(value, found)
    cast = _cast(raw, value, found, column, text)
    made = cast if cast is not None and _is_sound(raw, cast) else F.lit(None).cast(requested)
    digits = [_digits(value, found, made, column, text)] if is_decimal(column.type) else []
    return made, joined([misfit(value, made, column, text), *digits])


def text_of(value: SparkColumn, found: T.DataType) -> SparkColumn:
    """Return a value as text for users: nested values as lossless JSON, bytes as base64."""
    if isinstance(found, T.StructType | T.ArrayType | T.MapType):
        return F.to_json(value, {"timestampFormat": MICROSECONDS})
    return F.base64(value) if isinstance(found, T.BinaryType) else value.cast("string")


def _cast(
    raw: DataFrame, value: SparkColumn, found: T.DataType, column: Column, text: SparkColumn
) -> SparkColumn | None:
    """Return the value in the type of the column, NULL if it would change; None if no value of the type can be
    converted."""
    type_, requested = column.type, type_text(column.type)
    plain = value.try_cast(requested)
    if isinstance(found, T.StructType | T.ArrayType | T.MapType):
        return text if requested == "STRING" else _of_json(text, requested)
    if isinstance(found, T.BinaryType):
        return F.try_validate_utf8(value.cast("string")) if requested == "STRING" else plain
    if isinstance(found, T.BooleanType):
        return plain if requested == "STRING" else None
    if isinstance(found, T.TimestampType | T.TimestampNTZType | T.DateType):
        if is_number(type_):
            return None
        return _where(plain, plain.cast(found) == value) if pa.types.is_date(type_) else plain
    if not isinstance(found, _NUMBERS):
        return plain
    if pa.types.is_boolean(type_):
        return _where(plain, value.isin(0, 1))
    if is_decimal(type_):
        return text.try_cast(requested) if isinstance(found, T.FloatType | T.DoubleType) else plain
    if is_integer(type_) and isinstance(found, T.FloatType | T.DoubleType | T.DecimalType):
        small = [value < F.lit(_BEYOND_64_BITS)] if not isinstance(found, T.DecimalType) else []
        return _where(plain, *small, plain.try_cast(found) == value)
    if isinstance(found, T.DoubleType | T.DecimalType) and pa.types.is_floating(
        type_
    ):  # only infinity converts to infinity
        return _where(
            plain, (F.abs(plain) != F.lit(float("inf"))) | (F.abs(value.cast("double")) == F.lit(float("inf")))
        )
    return plain


def _where(value: SparkColumn, *conditions: SparkColumn) -> SparkColumn:
    return F.when(reduce(and_, conditions), value)


def _of_json(text: SparkColumn, requested: str) -> SparkColumn:
    """Convert a nested value by the names of its fields (Spark casts structs by position); NULL if a part does not
    fit."""
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    whole = F.concat(F.lit(f'{{"{VALUE}":'), text, F.lit("}"))
    parsed = F.from_json(whole, f"{VALUE} {requested}, {CORRUPT} STRING", options)
    return F.when(text.isNotNull() & parsed.getField(CORRUPT).isNull(), parsed.getField(VALUE))


def _digits(value: SparkColumn, found: T.DataType, made: SparkColumn, column: Column, text: SparkColumn) -> SparkColumn:
    """Return the reason for a number with more decimals than its DECIMAL keeps."""
    if isinstance(found, T.DecimalType):
        return rounded(text, made.try_cast(found) != value, column)
    is_float = isinstance(found, T.FloatType | T.DoubleType)
    return (
        rounded(text, made.isNotNull() & _has_more_digits(text, column.type), column)
        if is_float
        else F.lit(None).cast("string")
    )


def text_value(text: SparkColumn, column: Column) -> SparkColumn:
    """Return a text as a value of the column."""
    requested = type_text(column.type)
    if requested.startswith(("STRUCT", "ARRAY", "MAP")):
        return _of_json(text, requested)
    return text if requested == "STRING" else text.try_cast(requested)


def text_reasons(text: SparkColumn, made: SparkColumn, column: Column) -> list[SparkColumn]:
    """Return the reasons that a text is not a value of the column."""
    found = [misfit(text, made, column, text), *lost_time(text, column)]
    if is_decimal(column.type):
        found.append(rounded(text, made.isNotNull() & _has_more_digits(text, column.type), column))
    return found


def _has_more_digits(text: SparkColumn, type_: pa.Decimal128Type) -> SparkColumn:
    """Return whether a text of a number has nonzero digits after those that the DECIMAL keeps."""
    plain = text.rlike(rf"\.\d{{{type_.scale}}}\d*[1-9]\d*\s*$")
    of_power = [differs(text.try_cast(kind), text.try_cast(type_text(type_)), kind) for kind in wider(type_)]
    return F.when(text.rlike("[eE]"), F.coalesce(*of_power, F.lit(False))).otherwise(plain)


def wider(type_: pa.Decimal128Type) -> tuple[str, ...]:
    """Return two decimal types to check a number again: one with more decimals, and one with space for any value."""
    most = DIGITS - (type_.precision - type_.scale)
    return f"DECIMAL({DIGITS}, {min(DIGITS, max(most, type_.scale + MORE_DIGITS))})", f"DECIMAL({DIGITS}, {most})"


def differs(exact: SparkColumn, made: SparkColumn, kind: str) -> SparkColumn:
    """Return whether a decimal of this type differs from the converted number; NULL without a number."""
    return exact != made.try_cast(kind)


def misfit(
    value: SparkColumn, made: SparkColumn, column: Column, text: SparkColumn, requested: str = ""
) -> SparkColumn:
    """Return the reason if a value could not be converted."""
    said = _said(text, column, requested or is_none(column), RejectionKind.OTHER if requested else RejectionKind.MISFIT)
    return F.when(value.isNotNull() & made.isNull(), said)


def rounded(text: SparkColumn, is_so: SparkColumn, column: Column) -> SparkColumn:
    """Return the reason if a decimal has more decimals than its column, since Spark would round it."""
    return F.when(
        is_so, _said(text, column, f"has more digits than {type_text(column.type)} keeps", RejectionKind.LOSS)
    )


def lost_time(text: SparkColumn, column: Column) -> list[SparkColumn]:
    """Return the reasons if a text has a time of day that a DATE, or digits that a TIMESTAMP, does not keep."""
    if pa.types.is_date(column.type):
        said = "has a time of day, which a DATE does not keep"
        return [F.when(text.rlike(TIME_OF_DAY), _said(text, column, said, RejectionKind.LOSS))]
    if column.type == TIMESTAMP or pa.types.is_timestamp(column.type):
        return [rounded(text, text.rlike(NANOSECONDS), column)]
    return []


def joined(reasons: list[SparkColumn]) -> SparkColumn:
    """Combine the coded reasons into one."""
    return F.nullif(F.concat_ws(NEXT, *reasons), F.lit("")) if reasons else F.lit(None).cast("string")


def _said(text: SparkColumn, column: Column, what: str, kind: RejectionKind) -> SparkColumn:
    """Return a coded reason that quotes a value."""
    begin = code(kind, f'column "{column.name}" {what}') + f'column "{column.name}": '
    return F.concat(F.lit(begin), F.substring(text, 1, MAX_TEXT_LENGTH), F.lit(f" {what}"))


def _is_same(found: T.DataType, requested: str) -> bool:
    plain = requested.replace(": ", ":").replace(", ", ",").replace("`", "")
    return found.simpleString().casefold() == plain.casefold()


def _is_sound(raw: DataFrame, expression: SparkColumn) -> bool:
    """Return whether Spark supports the conversion at all."""
    try:
        raw.select(expression)
    except AnalysisException:
        return False
    return True
