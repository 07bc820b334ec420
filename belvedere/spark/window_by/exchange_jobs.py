"""Asks the blocks of a sequence, all at once, for what they must tell each other (`exchange`): two Spark jobs.

In: the rows of one partition, a `KernelSpec`, and `Cuts`. Out: the `Exchange`, or None where there is too much to tell.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame

from belvedere.spark.window_by.cuts import Cuts, Lead, in_order_of_blocks
from belvedere.spark.window_by.exchange import Answer, Block, Exchange, exchange_plan, neighbours
from belvedere.spark.window_by.pending import Pending
from belvedere.spark.window_by.relation import fresh
from belvedere.spark.window_by.running import Heads, head_of, heads_of
from belvedere.spark.window_by.specs import KernelSpec, Nth

MOST_PENDING = 100_000
"""Windows of a sequence that do not end in their block and that END can tell apart: with more, one task is as fast."""
Ask = Callable[[pa.Table, int], Any]


def exchanged(frame: DataFrame, spec: KernelSpec, lead: Lead, sort: Sequence[Any], cuts: Cuts) -> Exchange | None:
    """What the blocks of the partition's rows know of each other."""
    column, count = fresh("block"), len(cuts.marks) + 1
    rows = in_order_of_blocks(frame, lead, sort, cuts, column).persist(StorageLevel.DISK_ONLY)  # sorted once for both jobs
    try:
        pending: list[Pending] = _asked(rows, column, count, lambda own, number: _pending(own, number, cuts, spec))
        if len(pending) < count or any(p is None for p in pending) or sum(map(len, pending)) > MOST_PENDING:
            return None

        def answer(own: pa.Table, number: int) -> Answer:
            return block_of_cuts(own, number, cuts, spec).answer(pending[:number])

        return exchange_plan(spec, cuts.begins, pending, _asked(rows, column, count, answer))
    finally:
        rows.unpersist()


def added_up(frame: DataFrame, spec: KernelSpec, lead: Lead, sort: Sequence[Any], cuts: Cuts) -> Heads | None:
    """What the rows before each block add up to; None where `w[n]` lies behind the first block."""
    column, count = fresh("block"), len(cuts.marks) + 1
    if max((o.index for o in spec.outputs if isinstance(o, Nth)), default=-1) >= cuts.begins[1]:
        return None
    rows = in_order_of_blocks(frame, lead, sort, cuts, column)
    found = _asked(rows, column, count, lambda own, number: head_of(own, spec))
    return heads_of(spec, found) if len(found) == count else None


def block_of_cuts(own: pa.Table, number: int, cuts: Cuts, spec: KernelSpec) -> Block:
    """The block of that number with its neighbours' rows."""
    near = neighbours(spec)
    parts, before = [own], 0
    if number > 0:
        margin = cuts.margins[number - 1]
        before = min(near, margin.cut)
        parts.insert(0, margin.table.slice(margin.cut - before, before))
    if number < len(cuts.margins):
        margin = cuts.margins[number]
        parts.append(margin.table.slice(margin.cut, near))
    piece = pa.concat_tables([p.cast(own.schema) for p in parts])
    return Block(piece, spec, (before, before + own.num_rows), cuts.begins[number] - before)


def _pending(own: pa.Table, number: int, cuts: Cuts, spec: KernelSpec) -> Pending | None:
    found = block_of_cuts(own, number, cuts, spec).pending
    return found if len(found) <= MOST_PENDING else None


def _asked(rows: DataFrame, column: str, count: int, ask: Ask) -> list[Any]:
    """The blocks' answers in their order."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        taken = [b for b in batches if b.num_rows]
        if taken:
            number = taken[0].column(column)[0].as_py()
            told = ask(pa.Table.from_batches(taken).drop_columns([column]), number)
            yield pa.RecordBatch.from_pydict({"number": [number], "told": pa.array([pickle.dumps(told)], pa.binary())})

    found = rows.mapInArrow(run, "number BIGINT, told BINARY").collect()
    by_number = {r["number"]: pickle.loads(r["told"]) for r in found}
    return [by_number[n] for n in range(count) if n in by_number]
