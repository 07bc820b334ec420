"""Bring a query's rows to the driver, where structs may be NULL whose fields never are.

In: a DataFrame. Out: its rows as an Arrow table. Spark gives fields of a struct that is NULL as NULL, and then refuses its own rows where
its schema says that they never are: such structs are cast to ones whose fields may be NULL.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from belvedere.spark.type_encoding import packed


def collected(frame: DataFrame) -> pa.Table:
    """All rows."""
    return packed(with_nullable_fields(frame)).toArrow()


def with_nullable_fields(frame: DataFrame) -> DataFrame:
    """The same rows, with structs whose fields may be NULL."""
    types = [(field.dataType, _nullable(field.dataType)) for field in frame.schema.fields]
    if all(given == requested for given, requested in types):
        return frame
    names = [f"c{n}" for n in range(len(types))]
    numbered = frame.toDF(*names)
    columns = [numbered[n] if a == b else numbered[n].cast(b) for n, (a, b) in zip(names, types, strict=True)]
    return numbered.select(*columns).toDF(*frame.columns)


def _nullable(type_: DataType) -> DataType:
    if isinstance(type_, StructType):
        return StructType([StructField(f.name, _nullable(f.dataType), True) for f in type_.fields])
    if isinstance(type_, ArrayType):
        return ArrayType(_nullable(type_.elementType), type_.containsNull)
    if isinstance(type_, MapType):
        return MapType(_nullable(type_.keyType), _nullable(type_.valueType), type_.valueContainsNull)
    return type_
