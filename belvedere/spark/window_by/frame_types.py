"""Types of DataFrames as Arrow types, and sort orders as Spark columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from belvedere.engine.sql.plan_sql import print_expression
from belvedere.plan.operators.nodes import Order
from belvedere.schema import TIMESTAMP, Column, Schema
from belvedere.spark.type_encoding import encoded_type


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """Return the Arrow types of a DataFrame's columns. Timestamps with a zone are in UTC."""
    return to_arrow_schema(frame.schema, timezone="UTC")


def schema_of(frame: DataFrame) -> Schema:
    """Return the columns of a DataFrame in Arrow types. Zoned timestamps are in UTC, intervals are durations."""
    columns = []
    for field in arrow_schema(frame):
        type_ = field.type
        if pa.types.is_timestamp(type_) and type_.tz is not None:
            type_ = TIMESTAMP
        columns.append(Column(field.name, type_, field.nullable))
    return Schema(tuple(columns))


def spark_schema(schema: pa.Schema) -> Any:
    """Return the Spark schema of an Arrow schema. Times without a zone stay without."""
    return from_arrow_schema(pa.schema([f.with_type(encoded_type(f.type)) for f in schema]), prefer_timestamp_ntz=True)


def sort_columns(orders: Sequence[Order]) -> list[Any]:
    """Return the sort keys as columns for `orderBy`."""
    return [_sort_column(o) for o in orders]


def _sort_column(order: Order) -> Any:
    column = F.expr(print_expression(order.expr))
    if order.descending:
        return column.desc_nulls_first() if order.nulls_come_first else column.desc_nulls_last()
    return column.asc_nulls_first() if order.nulls_come_first else column.asc_nulls_last()
