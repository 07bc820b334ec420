"""Jobs of tasks that look up and change state: what is sent to each bucket, by one explicit exchange.

In: rows with the column by which they go, a task's function, a session. Out: what the tasks answer. Whether tasks are
worth it says `Spreading`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from belvedere.engine.by_tasks.buckets import BUCKET, KEY_ALONE, KIND, MARK, NEW, Sent, bucket_sql, hash_sql
from belvedere.engine.by_tasks.tasks import BucketTask
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.functions.spark_types import quote, type_text
from belvedere.schema import KEY
from belvedere.spark.cluster import is_cluster

BUCKET_ROWS = 1_000_000
"""Rows of a bucket: a task holds its share of the rows."""


@dataclass(frozen=True)
class Spreading:
    """When tasks in other processes look up and change state.

    They do from `rows` rows on (None: never), in `parts` parts at least. Up to `small` rows are one task's, and the driver's.
    """

    rows: int | None = None
    parts: int = 1
    small: int | None = None

    def buckets(self, rows: int) -> int:
        """A power of two."""
        return 1 << (max(self.parts, -(-rows // BUCKET_ROWS)) - 1).bit_length()


ALONE = Spreading()
always: Spreading | None = None
"""For tests: how all engines of this process spread their work."""


def spreading_of(spark: SparkSession, rows: int) -> Spreading:
    """Executors in other processes take more than `rows` rows; threads of this one would gain nothing."""
    return always or (Spreading(rows + 1, spark.sparkContext.defaultParallelism) if is_cluster(spark) else ALONE)


def run_buckets(
    spark: SparkSession,
    sent: Sequence[Sent],
    task: BucketTask,
    schema: pa.Schema,
    frame_of: Callable[[Rows], DataFrame],
) -> pa.Table:
    """Run a function over what is sent to each bucket; its answers."""
    count = task.buckets
    marks = [f"CAST(id AS INT) AS {BUCKET}", f"{MARK} AS {KIND}", *_columns(task.schema, {})]
    if sent:
        frames = [_sent(frame_of(s.rows), s, task.schema, count) for s in sent]
        together = reduce(DataFrame.unionAll, [spark.range(0, count, 1, 1).selectExpr(*marks), *frames])
        frame = together.repartitionById(count, BUCKET)
    else:
        frame = spark.range(0, count, 1, count).selectExpr(*marks)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(batches)

    answers = frame.mapInArrow(run, from_arrow_schema(schema)).collect()
    return pa.Table.from_pylist([row.asDict() for row in answers], schema)


def _sent(frame: DataFrame, sent: Sent, schema: pa.Schema, count: int) -> DataFrame:
    if sent.new is not None and sent.drops:
        frame = frame.where(sent.new.sql)
    kind = str(KEY_ALONE if sent.is_keys else NEW)
    if sent.new is not None and not sent.drops:
        kind = f"IF({sent.new.sql}, {NEW}, {KEY_ALONE})"
    bucket = bucket_sql(hash_sql(quote(sent.columns[sent.by]), sent.by == KEY), count)
    return frame.selectExpr(f"{bucket} AS {BUCKET}", f"{kind} AS {KIND}", *_columns(schema, sent.columns))


def _columns(schema: pa.Schema, given: Mapping[str, str]) -> list[str]:
    """The columns of an arrangement by number; NULL where there is none."""
    values = (quote(given[f.name]) if f.name in given else f"CAST(NULL AS {type_text(f.type)})" for f in schema)
    return [f"{value} AS c{n}" for n, value in enumerate(values)]
