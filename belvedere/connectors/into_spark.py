"""Create DataFrames from Arrow rows: the one place that calls `createDataFrame`.

In: a session and a table. Out: a DataFrame with the rows in their order. Below a threshold (48 MB by default) Spark
creates a local relation, and its optimizer interprets expressions over it row by row. That costs ten times as much as a
scan. For few rows a local relation is better: a filter over it needs no job.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOCAL_BYTES = 10 << 20
"""Maximum bytes of Arrow rows for a local relation: Spark knows its size, and broadcasts it in joins."""
FEW_BYTES = 1 << 20
"""Maximum bytes of a local relation for rows that pass many expressions and no join."""
THRESHOLD = "spark.sql.execution.arrow.localRelationThreshold"
_SETTING = threading.Lock()
"""Lock held while a session has another threshold: threads share sessions."""


def into_spark(spark: SparkSession, rows: pa.Table, local: int = LOCAL_BYTES) -> DataFrame:
    """Return the rows as a DataFrame, in their order; up to `local` bytes as a local relation.

    Raises as `SparkSession.createDataFrame` does for types that Spark lacks.
    """
    if rows.nbytes <= local:
        return spark.createDataFrame(rows)
    with _SETTING, _without_local_relations(spark):
        return spark.createDataFrame(rows)


@contextmanager
def _without_local_relations(spark: Any) -> Iterator[None]:
    before = spark.conf.get(THRESHOLD)
    spark.conf.set(THRESHOLD, "0")
    try:
        yield
    finally:
        spark.conf.set(THRESHOLD, before)
