"""The windows of a `PredicateWindow` over present rows.

In: the node and a DataFrame of its input. Out: a DataFrame of its results that has not run yet. The same rows give the
same windows in any order and batches, so old output of the same partitions can be replaced by key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from belvedere.functions.spark_types import quote
from belvedere.kernels.sorted_rows import group_begins
from belvedere.kernels.windows import window_tables
from belvedere.plan.operators.predicate_window import PredicateWindow
from belvedere.plan.operators.window_specs import KernelSpec
from belvedere.spark.window_by.blocks import windows_by_blocks
from belvedere.spark.window_by.cuts import cut_giant
from belvedere.spark.window_by.frame_types import sort_columns
from belvedere.spark.window_by.long_partitions import is_in, sides_of
from belvedere.spark.window_by.worker_python import in_python

ROWS_AT_ONCE = 200_000
"""Number of rows per batch, large enough to make a kernel's fixed cost negligible."""


class Spread(Enum):
    """Distribution of the partitions over tasks."""

    ORDERED = "sorted by their keys, because the result is ordered"
    HASHED = "by hash, because the result is not ordered"
    SINGLE = "in one task, because there are few rows"


def windows(node: PredicateWindow, rows: DataFrame, spread: Spread) -> DataFrame:
    """Return the results in the columns of the node's schema."""
    found = in_blocks(node, rows, spread) if spread is not Spread.SINGLE else None
    return in_one_task(node, rows, spread) if found is None else found


def in_one_task(node: PredicateWindow, rows: DataFrame, spread: Spread) -> DataFrame:
    """Find each partition's windows in one task."""
    schema = node.schema.arrow
    return in_python(laid_out(node, rows, spread), windows_in_batches(node.spec, schema), schema)


def in_blocks(node: PredicateWindow, rows: DataFrame, spread: Spread) -> DataFrame | None:
    """Return the windows if one partition is processed by many tasks, or None if none is."""
    spec, schema = node.spec, node.schema.arrow
    parts = cut_giant(rows, node)
    if parts is None:
        return None
    giant, lead, cuts = parts
    own = rows.where(is_in(spec.keys, giant)) if spec.keys else rows
    found = windows_by_blocks(own, spec, lead, sort_columns(node.order), schema, cuts)
    if not spec.keys:
        return found
    if spread is Spread.HASHED:
        return found.unionAll(in_one_task(node, rows.where(~is_in(spec.keys, giant)), spread))
    before, behind = (in_one_task(node, rows.where(c), spread) for c in sides_of(spec.keys, giant))
    return before.unionAll(found).unionAll(behind)  # in the order of the partitions


def laid_out(node: PredicateWindow, rows: DataFrame, spread: Spread) -> DataFrame:
    """Return the rows partition by partition, each sorted and in one task.

    The partitions are sorted too if the result must be.
    """
    keys = node.spec.keys
    columns = [F.col(quote(k)).asc_nulls_first() for k in keys]
    if spread is Spread.SINGLE:
        rows = rows.coalesce(1)
    elif not keys:
        rows = rows.repartition(1)  # not coalesce: earlier steps keep their parallelism
    else:
        rows = (
            rows.repartition(*(F.col(quote(k)) for k in keys))
            if spread is Spread.HASHED
            else rows.repartitionByRange(*columns)
        )
    return rows.sortWithinPartitions(*columns, *sort_columns(node.order))


def windows_in_batches(
    spec: KernelSpec, schema: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `mapInArrow` over sorted rows.

    It processes many small partitions at once, a large one when it is complete.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in whole_partitions(batches, spec.keys, ROWS_AT_ONCE):
            for found in window_tables(table, spec):
                yield from (
                    found.select(schema.names).cast(schema).combine_chunks().to_batches(max_chunksize=ROWS_AT_ONCE)
                )

    return run


def whole_partitions(batches: Iterator[pa.RecordBatch], keys: Sequence[str], rows: int) -> Iterator[pa.Table]:
    """Yield tables of about `rows` rows that do not split a partition."""
    waiting: list[pa.RecordBatch] = []
    count, limit = 0, rows
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count < limit or not keys:
            continue
        table = pa.Table.from_batches(waiting)
        cut = int(group_begins(table, keys)[-1])
        if cut == 0:  # one partition so far: check again when there is twice as much
            limit = 2 * count
            continue
        yield table.slice(0, cut)
        rest = table.slice(cut).combine_chunks()
        waiting, count, limit = rest.to_batches(), rest.num_rows, rows
    if waiting:
        yield pa.Table.from_batches(waiting)
