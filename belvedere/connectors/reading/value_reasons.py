"""Values that have a type already (of Parquet, of tables that Spark reads), and texts, as the type of their column: whole, or not at all.

In: Spark columns. Out: Spark columns: the value, NULL where it has no place in the type, and the coded reason. Nothing is rounded or cut
off: 1.5 is no BIGINT, 2 no BOOLEAN, 23:30 no DATE, and a nanosecond no TIMESTAMP. A double that is a whole number is one. No action
runs here.
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
"""A date with a time behind it that is not midnight."""
NANOSECONDS = r"[.,]\d{6}\d*[1-9]"
MAX_TEXT_LENGTH = 200
MORE_DIGITS = 12
MICROSECONDS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
CORRUPT, VALUE = "__corrupt", "__value"
_NUMBERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType, T.DecimalType)
_BEYOND_64_BITS = float(2**63)


def judged(raw: DataFrame, value: SparkColumn, found: T.DataType, column: Column) -> tuple[SparkColumn, SparkColumn]:
    """A value of `raw` that has the type `found`, and the reason where it is no value of the column."""
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
    """A value for people; of nested ones JSON that loses nothing, of bytes base64."""
    if isinstance(found, T.StructType | T.ArrayType | T.MapType):
        return F.to_json(value, {"timestampFormat": MICROSECONDS})
    return F.base64(value) if isinstance(found, T.BinaryType) else value.cast("string")


def _cast(
    raw: DataFrame, value: SparkColumn, found: T.DataType, column: Column, text: SparkColumn
) -> SparkColumn | None:
    """The value in the type of the column, NULL where it would be another one; None where no value of the one type is of the other."""
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
    ):  # infinity is one for infinity alone
        return _where(
            plain, (F.abs(plain) != F.lit(float("inf"))) | (F.abs(value.cast("double")) == F.lit(float("inf")))
        )
    return plain


def _where(value: SparkColumn, *conditions: SparkColumn) -> SparkColumn:
    return F.when(reduce(and_, conditions), value)


def _of_json(text: SparkColumn, requested: str) -> SparkColumn:
    """A nested value by the names of its fields (Spark casts structs by position); NULL where one of its values does not fit."""
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    whole = F.concat(F.lit(f'{{"{VALUE}":'), text, F.lit("}"))
    parsed = F.from_json(whole, f"{VALUE} {requested}, {CORRUPT} STRING", options)
    return F.when(text.isNotNull() & parsed.getField(CORRUPT).isNull(), parsed.getField(VALUE))


def _digits(value: SparkColumn, found: T.DataType, made: SparkColumn, column: Column, text: SparkColumn) -> SparkColumn:
    """The reason where a number has more digits after the point than its DECIMAL keeps."""
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
    """The reasons why a text is none."""
    found = [misfit(text, made, column, text), *lost_time(text, column)]
    if is_decimal(column.type):
        found.append(rounded(text, made.isNotNull() & _has_more_digits(text, column.type), column))
    return found


def _has_more_digits(text: SparkColumn, type_: pa.Decimal128Type) -> SparkColumn:
    """Whether a text of a number has digits, other than zeros, behind those that the DECIMAL keeps."""
    plain = text.rlike(rf"\.\d{{{type_.scale}}}\d*[1-9]\d*\s*$")
    of_power = [differs(text.try_cast(kind), text.try_cast(type_text(type_)), kind) for kind in wider(type_)]
    return F.when(text.rlike("[eE]"), F.coalesce(*of_power, F.lit(False))).otherwise(plain)


def wider(type_: pa.Decimal128Type) -> tuple[str, ...]:
    """The decimal types in which a number is looked at again: with more digits after the point, and one that has a place for any value."""
    most = DIGITS - (type_.precision - type_.scale)
    return f"DECIMAL({DIGITS}, {min(DIGITS, max(most, type_.scale + MORE_DIGITS))})", f"DECIMAL({DIGITS}, {most})"


def differs(exact: SparkColumn, made: SparkColumn, kind: str) -> SparkColumn:
    """Whether a decimal of this type is another number than what was made of it; NULL where there is none."""
    return exact != made.try_cast(kind)


def misfit(
    value: SparkColumn, made: SparkColumn, column: Column, text: SparkColumn, requested: str = ""
) -> SparkColumn:
    """The reason where a value has become none."""
    said = _said(text, column, requested or is_none(column), RejectionKind.OTHER if requested else RejectionKind.MISFIT)
    return F.when(value.isNotNull() & made.isNull(), said)


def rounded(text: SparkColumn, is_so: SparkColumn, column: Column) -> SparkColumn:
    """The reason where a decimal has more digits after the point than its column: Spark would round it."""
    return F.when(
        is_so, _said(text, column, f"has more digits than {type_text(column.type)} keeps", RejectionKind.LOSS)
    )


def lost_time(text: SparkColumn, column: Column) -> list[SparkColumn]:
    """The reason where a text has a time of day that a DATE, or digits that a TIMESTAMP does not keep."""
    if pa.types.is_date(column.type):
        said = "has a time of day, which a DATE does not keep"
        return [F.when(text.rlike(TIME_OF_DAY), _said(text, column, said, RejectionKind.LOSS))]
    if column.type == TIMESTAMP or pa.types.is_timestamp(column.type):
        return [rounded(text, text.rlike(NANOSECONDS), column)]
    return []


def joined(reasons: list[SparkColumn]) -> SparkColumn:
    """The coded reasons that there are, as one."""
    return F.nullif(F.concat_ws(NEXT, *reasons), F.lit("")) if reasons else F.lit(None).cast("string")


def _said(text: SparkColumn, column: Column, what: str, kind: RejectionKind) -> SparkColumn:
    """A coded reason that cites a value."""
    begin = code(kind, f'column "{column.name}" {what}') + f'column "{column.name}": '
    return F.concat(F.lit(begin), F.substring(text, 1, MAX_TEXT_LENGTH), F.lit(f" {what}"))


def _is_same(found: T.DataType, requested: str) -> bool:
    plain = requested.replace(": ", ":").replace(", ", ",").replace("`", "")
    return found.simpleString().casefold() == plain.casefold()


def _is_sound(raw: DataFrame, expression: SparkColumn) -> bool:
    """Whether Spark knows such a conversion at all."""
    try:
        raw.select(expression)
    except AnalysisException:
        return False
    return True
