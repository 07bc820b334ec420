"""Jobs of tasks that look up and change state, with one explicit exchange that distributes rows to buckets.

In: rows with the column that determines their bucket, a task's function, a session. Out: the tasks' answers.
`Spreading` decides whether tasks are worthwhile.
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
"""Number of rows of a bucket. A task holds its share of the rows in memory."""


@dataclass(frozen=True)
class Spreading:
    """Settings for tasks in other processes that look up and change state.

    Tasks are used for at least `rows` rows (None: never), in at least `parts` parts. Up to `small` rows are processed
    in one task, and in the driver.
    """

    rows: int | None = None
    parts: int = 1
    small: int | None = None

    def buckets(self, rows: int) -> int:
        """Return the number of buckets: a power of two."""
        return 1 << (max(self.parts, -(-rows // BUCKET_ROWS)) - 1).bit_length()


ALONE = Spreading()
always: Spreading | None = None
"""For tests: setting that replaces those of all engines of this process."""


def spreading_of(spark: SparkSession, rows: int) -> Spreading:
    """Return the settings of a session.

    Executors in other processes take more than `rows` rows; threads of this process would gain nothing.
    """
    return always or (Spreading(rows + 1, spark.sparkContext.defaultParallelism) if is_cluster(spark) else ALONE)


def run_buckets(
    spark: SparkSession,
    sent: Sequence[Sent],
    task: BucketTask,
    schema: pa.Schema,
    frame_of: Callable[[Rows], DataFrame],
) -> pa.Table:
    """Run a function over the rows of each bucket, and return its answers."""
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
    """Return the columns of an arrangement by number, with NULL for missing ones."""
    values = (quote(given[f.name]) if f.name in given else f"CAST(NULL AS {type_text(f.type)})" for f in schema)
    return [f"{value} AS c{n}" for n, value in enumerate(values)]
