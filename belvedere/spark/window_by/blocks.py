"""One large partition in parallel: its windows are found block by block, each by one task with the few rows around it that it needs.

In: the rows of one partition, the kernels' spec, and `Cuts`. Out: the kernels' output, in the order of the windows. The rows go through
Spark once, as for one task; what the blocks must know of each other travels with the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from belvedere.spark.window_by.cuts import Cuts, Lead, in_order_of_blocks
from belvedere.spark.window_by.exchange import Exchange, neighbours
from belvedere.spark.window_by.exchange_jobs import block_of_cuts
from belvedere.spark.window_by.kernel import block_windows
from belvedere.spark.window_by.relation import fresh, spark_schema
from belvedere.spark.window_by.running import Heads, running_windows
from belvedere.spark.window_by.specs import KernelSpec

OUTPUT_ROWS = 200_000


def windows_by_blocks(
    frame: DataFrame,
    spec: KernelSpec,
    lead: Lead,
    sort: Sequence[Any],
    schema: pa.Schema,
    cuts: Cuts,
    told: Exchange | Heads | None,
) -> DataFrame:
    """The windows of the partition; `schema` is the kernels' output. `told`: what the blocks know of each other beyond their margins."""
    block = fresh("block")
    rows = in_order_of_blocks(frame, lead, sort, cuts, block)
    return rows.mapInArrow(_worker(cuts, told, spec, block, schema), spark_schema(schema))


def _worker(
    cuts: Cuts, told: Exchange | Heads | None, spec: KernelSpec, block: str, schema: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        taken = [b for b in batches if b.num_rows]
        if taken:
            number = taken[0].column(block)[0].as_py()
            own = pa.Table.from_batches(taken).drop_columns([block])
            if not isinstance(told, Exchange):
                found = windows_of_block(own, number, cuts, spec, told)
            else:
                found = block_of_cuts(own, number, cuts, spec).windows(told.entries[number], told.tails[number])
            yield from found.select(schema.names).cast(schema).combine_chunks().to_batches(max_chunksize=OUTPUT_ROWS)

    return run


def windows_of_block(own: pa.Table, number: int, cuts: Cuts, spec: KernelSpec, heads: Heads | None = None) -> pa.Table:
    """The windows that start in the sorted rows of one block, or have their labels there; `heads` for those that run from the first row."""
    parts, before, skipped = [own], 0, 0
    if number > 0:
        margin, begin = cuts.margins[number - 1], cuts.froms[number - 1]
        skipped = min(begin, 1 if heads is None else neighbours(spec))
        parts.insert(0, margin.table.slice(begin - skipped, margin.cut - begin + skipped))
        before = parts[0].num_rows
    last = number == len(cuts.margins)
    if not last:
        margin = cuts.margins[number]
        parts.append(margin.table.slice(margin.cut))
        last = margin.last
    piece = pa.concat_tables([p.cast(own.schema) for p in parts])
    if heads is not None:
        return running_windows(piece, spec, (before, before + own.num_rows), cuts.begins[number] - before, last, number, heads)
    return block_windows(piece, spec, (before, before + own.num_rows), cuts.begins[number] - before, last, skipped)
