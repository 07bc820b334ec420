"""The windows of some partitions, for the keyed rule of incremental maintenance.

In: a `WindowBlock` and the present rows of all partitions that changed. Out: the windows of these partitions with the hidden
columns that make the block's key. Pure: the same rows give the same windows in whatever order and batches they come, so old output of
the same partitions can be retracted by key.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from belvedere.lang.window_by_parser import parse_window_query
from belvedere.plan.window_by import WindowBlock
from belvedere.spark.window_by.relation import output_columns
from belvedere.spark.window_by.run import Names, Runner


def window_rows(spark: SparkSession, block: WindowBlock, rows: DataFrame) -> DataFrame:
    """The block's columns over `rows` (the input's visible columns), then `_partition_*` and the position, all as `block.schema`.

    Where `block.partition` is empty the rows must be all rows of the input.
    """
    runner = Runner(spark, {block.relation: rows})
    runner.limits = True  # keys and positions as columns
    result = runner.query(parse_window_query(block.text), Names({}, {}))
    hidden = [c.name for c in block.schema if c.hidden]
    place = result.order[-1].rsplit(" ", 1)[0]
    keys = [text.split(" ", 1)[0] for text in result.order[: len(hidden) - 1]]
    added = [F.expr(text).alias(name) for text, name in zip([*keys, place], hidden, strict=True)]
    if not block.partition:  # several partitions share one key: number the windows over all of them
        order = list(result.order[:-1])
        added = [F.expr(f"row_number() OVER (ORDER BY {', '.join([*order, place])}) - 1").cast("bigint").alias(block.position)]
    return result.frame.select(*output_columns(result.value), *added)
