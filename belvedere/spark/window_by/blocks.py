"""One large partition in parallel.

Its windows are found block by block, each by one task that also reads a few rows around the block.

In: the rows of one partition, the kernels' spec, and `Cuts`. Out: the kernels' output, in the order of the windows. The
rows pass through Spark once, as for one task; the rows around the cuts are sent with the tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from belvedere.kernels.windows import block_windows
from belvedere.plan.operators.window_specs import KernelSpec
from belvedere.spark.window_by.cuts import Cuts, in_order_of_blocks
from belvedere.spark.window_by.long_partitions import Lead
from belvedere.spark.window_by.worker_python import in_python

OUTPUT_ROWS = 200_000


def windows_by_blocks(
    frame: DataFrame, spec: KernelSpec, lead: Lead, sort: Sequence[Any], schema: pa.Schema, cuts: Cuts
) -> DataFrame:
    """Return the windows of the partition. `schema` is the kernels' output."""
    block = "_block"

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        taken = [b for b in batches if b.num_rows]
        if taken:
            number = taken[0].column(block)[0].as_py()
            found = windows_of_block(pa.Table.from_batches(taken).drop_columns([block]), number, cuts, spec)
            yield from found.select(schema.names).cast(schema).combine_chunks().to_batches(max_chunksize=OUTPUT_ROWS)

    return in_python(in_order_of_blocks(frame, lead, sort, cuts, block), run, schema)


def windows_of_block(own: pa.Table, number: int, cuts: Cuts, spec: KernelSpec) -> pa.Table:
    """Return the windows that start in the sorted rows of one block, or have their labels there."""
    parts, before, skipped = [own], 0, 0
    if number > 0:
        margin, begin = cuts.margins[number - 1], cuts.froms[number - 1]
        skipped = min(begin, 1)
        parts.insert(0, margin.table.slice(begin - skipped, margin.cut - begin + skipped))
        before = parts[0].num_rows
    last = number == len(cuts.margins)
    if not last:
        margin = cuts.margins[number]
        parts.append(margin.table.slice(margin.cut))
        last = margin.last
    piece = pa.concat_tables([p.cast(own.schema) for p in parts])
    return block_windows(piece, spec, (before, before + own.num_rows), cuts.begins[number] - before, last, skipped)
