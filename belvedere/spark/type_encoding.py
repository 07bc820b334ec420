"""Types that Arrow and Spark cannot exchange: year-month intervals are transferred as numbers of months.

In: Arrow tables and data frames. Out: tables that Spark accepts and the frames made of them, frames that Arrow accepts;
in nested values too.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, LongType, MapType, StructField, StructType, YearMonthIntervalType

from belvedere.schema import MONTHS

ONE_FIELD = YearMonthIntervalType(YearMonthIntervalType.MONTH, YearMonthIntervalType.MONTH)
"""Interval type with one field. Spark casts numbers only to and from such intervals."""
WHOLE = YearMonthIntervalType()


def encoded_type(type_: pa.DataType) -> pa.DataType:
    """Return the Arrow type in which values are sent to Spark."""
    if type_ == MONTHS:
        return pa.int64()
    if pa.types.is_map(type_):
        return pa.map_(encoded_type(type_.key_type), encoded_type(type_.item_type))
    if pa.types.is_struct(type_):
        return pa.struct([f.with_type(encoded_type(f.type)) for f in type_])
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(encoded_type(type_.value_type)))
    return type_


def encoded(table: pa.Table) -> pa.Table:
    """Return the rows in types that Spark accepts, or the same table if it accepts all."""
    schema = pa.schema([f.with_type(encoded_type(f.type)) for f in table.schema])
    return table if schema.equals(table.schema) else table.cast(schema)


def unpacked(frame: DataFrame, schema: pa.Schema) -> DataFrame:
    """Return a frame made of `encoded` rows with the types of `schema`."""
    if all(encoded_type(f.type) == f.type for f in schema):
        return frame
    requested = [_with_months(a.type, f.dataType) for a, f in zip(schema, frame.schema.fields, strict=True)]
    return _cast(frame, [(_replaced(type_, ONE_FIELD), type_) for type_ in requested])


def packed(frame: DataFrame) -> DataFrame:
    """Return a frame that Arrow accepts."""
    given = [f.dataType for f in frame.schema.fields]
    return _cast(frame, [(_replaced(type_, ONE_FIELD), _replaced(type_, LongType())) for type_ in given])


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """Return the types of the rows as they are collected."""
    schema = to_arrow_schema(packed(frame).schema, timezone="UTC")
    months = [isinstance(f.dataType, YearMonthIntervalType) for f in frame.schema.fields]
    return pa.schema([f.with_type(MONTHS) if known else f for f, known in zip(schema, months, strict=True)])


def _cast(frame: DataFrame, ways: list[tuple[DataType, DataType]]) -> DataFrame:
    """Cast each column through the first type to the second."""
    given = [f.dataType for f in frame.schema.fields]
    if given == [requested for _, requested in ways]:
        return frame
    names = [f"c{n}" for n in range(len(ways))]
    numbered = frame.toDF(*names)
    columns = [
        numbered[name] if type_ == requested else numbered[name].cast(way).cast(requested)
        for name, type_, (way, requested) in zip(names, given, ways, strict=True)
    ]
    return numbered.select(*columns).toDF(*frame.columns)


def _replaced(type_: DataType, by: DataType) -> DataType:
    """Return the type with another one in place of year-month intervals."""
    if isinstance(type_, YearMonthIntervalType):
        return by
    if isinstance(type_, StructType):
        return StructType([StructField(f.name, _replaced(f.dataType, by), f.nullable) for f in type_.fields])
    if isinstance(type_, ArrayType):
        return ArrayType(_replaced(type_.elementType, by), type_.containsNull)
    if isinstance(type_, MapType):
        return MapType(_replaced(type_.keyType, by), _replaced(type_.valueType, by), type_.valueContainsNull)
    return type_


def _with_months(type_: pa.DataType, given: DataType) -> DataType:
    """Return Spark's type with numbers of months, with month intervals in place of these."""
    if type_ == MONTHS:
        return WHOLE
    if isinstance(given, StructType):
        fields = zip(type_, given.fields, strict=True)
        return StructType([StructField(f.name, _with_months(a.type, f.dataType), f.nullable) for a, f in fields])
    if isinstance(given, ArrayType):
        return ArrayType(_with_months(type_.value_type, given.elementType), given.containsNull)
    if isinstance(given, MapType):
        key, value = _with_months(type_.key_type, given.keyType), _with_months(type_.item_type, given.valueType)
        return MapType(key, value, given.valueContainsNull)
    return given
