"""Frames of other libraries as DataFrames of Spark.

In: a DataFrame of Spark, or a frame that `belvedere.frames.frame_columns` can read. Out: a DataFrame of Spark, whose
rows are in the frame's order.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from belvedere.connectors.into_spark import into_spark
from belvedere.frames.frame_columns import frame_table


def spark_frame(spark: SparkSession, name: str, given: Any) -> DataFrame:
    """Return the frame that a query calls `name`. Raises B6015 if it is not a frame."""
    if isinstance(given, DataFrame):
        return given
    table = frame_table(given, f'"{name}"')
    return into_spark(spark, table)
