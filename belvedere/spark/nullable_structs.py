"""Collects a query's rows in the driver, even if structs are NULL whose fields are NOT NULL.

In: a DataFrame. Out: its rows as an Arrow table. Spark returns fields of a NULL struct as NULL, and then rejects its
own rows if its schema declares them NOT NULL. Such structs are cast to ones with nullable fields.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from belvedere.spark.type_encoding import packed


def collected(frame: DataFrame) -> pa.Table:
    """Return all rows."""
    return packed(with_nullable_fields(frame)).toArrow()


def with_nullable_fields(frame: DataFrame) -> DataFrame:
    """Return the same rows, with structs whose fields are nullable."""
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
