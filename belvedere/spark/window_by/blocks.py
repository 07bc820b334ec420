"""One large sorted sequence in parallel: windows are found block by block, each with as many rows after it as it needs.

In: the rows' DataFrame and the kernels' spec of SLIDING windows without LABEL (their search only goes forward). Out: the kernels'
output, with the position of each window's start. The sequence is cut into blocks by ORDER BY; each block also gets the row
before it and a halo of the rows after it. A window whose END lies in the halo is final; a block with other windows is done again
with a longer halo, at last with all rows after it. Memory is that of a block with its halo. Runs Spark jobs when called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from belvedere.spark.window_by.kernel import block_windows
from belvedere.spark.window_by.relation import spark_schema
from belvedere.spark.window_by.rows import group_begins
from belvedere.spark.window_by.specs import KernelSpec

BLOCK, PLACE, TARGET, COMPLETE = "_block0", "_place0", "_target0", "_complete0"
LEAST_HALO = 4_096
GROWTH = 16


@dataclass(frozen=True)
class Piece:
    """What a block needs: rows [low, high) of the sequence, its own ones [begin, end); `rows` are in the sequence."""

    begin: int
    end: int
    low: int
    high: int
    rows: int


def can_split(spec: KernelSpec) -> bool:
    """Whether the windows can be found block by block."""
    searched = spec.end is not None and spec.end.search is not None
    return not spec.keys and not spec.tumbling and spec.label is None and not spec.start.unbounded and searched


def windows_by_blocks(
    frame: DataFrame, spec: KernelSpec, sort: Sequence[Any], schema: pa.Schema, blocks: int, halo: int | None = None
) -> DataFrame:
    """The windows of the whole sequence; `schema` is the kernels' output with positions."""
    numbered = _numbered(frame, sort, blocks).persist()
    sizes = {r[BLOCK]: r["n"] for r in numbered.groupBy(BLOCK).agg(F.count(F.lit(1)).alias("n")).collect()}
    rows = sum(sizes.values())
    begins, total = {}, 0
    for block in sorted(sizes):
        begins[block] = total
        total += sizes[block]
    ends = {b: begins[b] + sizes[b] for b in sizes}
    length = halo if halo is not None else max(LEAST_HALO, rows // max(blocks, 1) // 8)
    pending, found = sorted(sizes), []
    while pending:
        pieces = {b: Piece(begins[b], ends[b], max(begins[b] - 1, 0), min(ends[b] + length, rows), rows) for b in pending}
        result = _pass(numbered, begins, pieces, spec, schema).persist()
        unknown = {r[TARGET] for r in result.where(~F.col(COMPLETE)).select(TARGET).distinct().collect()}
        found.append(result.where(F.col(spec.position).isNotNull() & ~F.col(TARGET).isin(*unknown)) if unknown else result)
        pending, length = sorted(unknown), length * GROWTH
    if not found:
        return frame.sparkSession.createDataFrame([], spark_schema(schema))
    whole = found[0]
    for part in found[1:]:
        whole = whole.unionAll(part)
    return whole.where(F.col(spec.position).isNotNull()).select(*schema.names)


def _numbered(frame: DataFrame, sort: Sequence[Any], blocks: int) -> DataFrame:
    """The rows with the number of their block and their place in it."""
    cut = frame.repartitionByRange(blocks, *sort).sortWithinPartitions(*sort)
    return cut.select("*", F.spark_partition_id().alias(BLOCK), (F.monotonically_increasing_id() % (1 << 33)).alias(PLACE))


def _pass(
    numbered: DataFrame, begins: Mapping[int, int], pieces: Mapping[int, Piece], spec: KernelSpec, schema: pa.Schema
) -> DataFrame:
    """The windows of some blocks, each with its halo; a row with COMPLETE says whether all of a block's are known."""
    places = ", ".join(f"{b}, {n}L" for b, n in begins.items())
    wanted = ", ".join(f"named_struct('t', {t}, 'low', {p.low}L, 'high', {p.high}L)" for t, p in pieces.items())
    targets = f"transform(filter(array({wanted}), p -> {PLACE} >= p.low AND {PLACE} < p.high), p -> p.t)"
    spread = (
        numbered.withColumn(PLACE, F.expr(f"map({places})[{BLOCK}] + {PLACE}"))
        .withColumn(TARGET, F.expr(f"explode({targets})"))
        .repartition(max(len(pieces), 1), TARGET)
        .sortWithinPartitions(TARGET, PLACE)
        .drop(BLOCK)
    )
    whole = pa.schema([*schema, pa.field(TARGET, pa.int32()), pa.field(COMPLETE, pa.bool_())])
    return spread.mapInArrow(_worker(pieces, spec, whole), spark_schema(whole))


def _worker(
    pieces: Mapping[int, Piece], spec: KernelSpec, schema: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        taken = list(batches)
        table = pa.Table.from_batches(taken, taken[0].schema if taken else pa.schema([]))
        if not table.num_rows:
            return
        cuts = [*group_begins(table, (TARGET,)).tolist(), table.num_rows]
        for begin, end in pairwise(cuts):
            target = table[TARGET][begin].as_py()
            yield from _piece(table.slice(begin, end - begin), target, pieces[target], spec, schema)

    return run


def _piece(table: pa.Table, target: int, piece: Piece, spec: KernelSpec, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    own = (piece.begin - piece.low, piece.end - piece.low)
    found, complete = block_windows(table, spec, own, piece.low, piece.high == piece.rows)
    marks = pa.table({TARGET: pa.array([target], pa.int32()), COMPLETE: pa.array([complete])})
    many = pa.array([target] * found.num_rows, pa.int32())
    found = found.append_column(TARGET, many).append_column(COMPLETE, pa.array([True] * found.num_rows))
    empty = {f.name: pa.nulls(1, f.type) for f in schema if f.name not in (TARGET, COMPLETE)}
    mark = pa.table({**empty, **{n: marks[n] for n in marks.column_names}}).select(schema.names).cast(schema)
    for part in (mark, found.select(schema.names).cast(schema)):
        yield from part.combine_chunks().to_batches(max_chunksize=200_000)
