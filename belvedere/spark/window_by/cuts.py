"""Cuts of one long partition into blocks.

In: the rows' DataFrame and a `PredicateWindow`. Out: `Cuts` of a partition that is much longer than a core's share, if
its windows can be found block by block with a few rows around each cut; None for one task per partition. The rows are
read several times for this: a sample (is a partition longer than its share?), the blocks' sizes, the rows around the
cuts. Only rows that are cheap to re-read are therefore cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from belvedere.kernels.overlap import Margin, begin_of
from belvedere.plan.operators.predicate_window import PredicateWindow
from belvedere.spark.window_by.frame_types import arrow_schema, sort_columns
from belvedere.spark.window_by.long_partitions import (
    BLOCK_ROWS,
    Giant,
    Lead,
    can_read_again,
    find_giant,
    is_in,
    lead_of,
    may_be_long,
)

NEAR = 4
"""Initial number of sampled rows in a margin after its cut. It grows by `GROWTH` while it is too small."""
GROWTH = 8
WIDEST = 4
"""Inverse of the maximum share of a block that a margin can reach.

With more rows processed twice, one task is as fast.
"""


@dataclass(frozen=True)
class Cuts:
    """`marks` divide the blocks; `begins` are the positions of their first rows, followed by the number of all rows.

    `margins` are the rows around each cut; `froms` is the row in each where the search for the block after it begins.
    """

    marks: tuple[Any, ...]
    begins: tuple[int, ...]
    margins: tuple[Margin, ...]
    froms: tuple[int, ...]


def cut_giant(frame: DataFrame, node: PredicateWindow) -> tuple[Giant, Lead, Cuts] | None:
    """Return the longest partition, its order, and its cuts, or None if cutting is not worthwhile."""
    if not may_be_long(frame):
        return None
    spec, sort, cores = node.spec, sort_columns(node.order), frame.sparkSession.sparkContext.defaultParallelism
    lead = lead_of(node.order, arrow_schema(frame))
    ends, nullable = node.ends
    if lead is None or ends is None or not can_read_again(frame):
        return None
    giant = find_giant(frame, spec.keys, lead, cores)
    if giant is None:
        return None
    own = frame.where(is_in(spec.keys, giant)) if spec.keys else frame
    if nullable != ends and own.where(lead.column.isNull()).limit(1).count():
        ends = nullable  # tuples without an order key have no end
        if ends is None:
            return None
    blocks = cores * -(-giant.rows // (cores * BLOCK_ROWS))
    cuts = cut(own, lead, sort, giant, blocks, partial(begin_of, spec=spec, ends=ends))
    return None if cuts is None else (giant, lead, cuts)


def cut(
    frame: DataFrame, lead: Lead, sort: Sequence[Any], giant: Giant, blocks: int, enough: Callable[[Margin], int | None]
) -> Cuts | None:
    """Return the cuts of one sequence into about `blocks` blocks, or None if margins would be too wide.

    `enough` returns the row of a margin at which the search for the block after it begins, or None if the margin must
    be longer.
    """
    places = sorted({n * len(giant.marks) // blocks for n in range(1, blocks)} - {0})
    if not places:
        return None
    marks = tuple(giant.marks[n] for n in places)
    begins = _begins(frame, lead, marks)
    widest = max(2 * NEAR, len(giant.marks) // len(marks) // WIDEST)
    requested = dict.fromkeys(range(len(places)), (2, NEAR))
    margins: dict[int, Margin] = {}
    froms: dict[int, int] = {}
    while requested:
        zones = {n: _zone(giant.marks, places[n], *width) for n, width in requested.items()}
        for n, margin in _margins(frame, lead, sort, marks, zones, begins).items():
            begin = enough(margin)
            if begin is None:
                if margin.first and margin.last:
                    return None
                requested[n] = (
                    requested[n][0] * (1 if margin.first else GROWTH),
                    requested[n][1] * (1 if margin.last else GROWTH),
                )
                continue
            del requested[n]
            margins[n], froms[n] = margin, begin
        if any(max(w) > widest for w in requested.values()):
            return None
    order = range(len(places))
    return Cuts(marks, begins, tuple(margins[n] for n in order), tuple(froms[n] for n in order))


def _begins(frame: DataFrame, lead: Lead, marks: Sequence[Any]) -> tuple[int, ...]:
    """Return the positions of the blocks' first rows, and the number of all rows."""
    block = "_block"
    counted = (
        frame.select(block_of(lead, marks).alias(block)).groupBy(block).agg(F.count(F.lit(1)).alias("n")).collect()
    )
    sizes = {r[0]: r[1] for r in counted}
    return tuple(accumulate((sizes.get(n, 0) for n in range(len(marks) + 1)), initial=0))


def block_of(lead: Lead, marks: Sequence[Any]) -> Any:
    """Return the number of a row's block."""
    return reduce(lambda a, b: a + b, (lead.reached(m).cast("int") for m in marks), F.lit(0))


def in_order_of_blocks(frame: DataFrame, lead: Lead, sort: Sequence[Any], cuts: Cuts, block: str) -> DataFrame:
    """Return the sorted rows, each block in one partition of the DataFrame and with its number in a column."""
    placed = frame.withColumn(block, block_of(lead, cuts.marks)).repartitionById(len(cuts.marks) + 1, block)
    return placed.sortWithinPartitions(*sort)


def _zone(marks: Sequence[Any], place: int, back: int, ahead: int) -> tuple[Any, Any]:
    """Return the marks between which a margin is; None = to the edge."""
    return (marks[place - back] if place >= back else None), (
        marks[place + ahead] if place + ahead < len(marks) else None
    )


def _margins(
    frame: DataFrame,
    lead: Lead,
    sort: Sequence[Any],
    marks: Sequence[Any],
    zones: dict[int, tuple[Any, Any]],
    begins: Sequence[int],
) -> dict[int, Margin]:
    """Return the rows of the zones, read in one job."""
    inside = {n: lead.between(low, high) for n, (low, high) in zones.items()}
    flags = [F.coalesce(inside[n], F.lit(False)).alias(f"in{n}") for n in zones] + [
        lead.reached(marks[n]).alias(f"at{n}") for n in zones
    ]
    some = frame.where(reduce(lambda a, b: a | b, inside.values())).select("*", *flags)
    table = some.repartition(1).sortWithinPartitions(*sort).toArrow()
    found = {}
    for n, (low, high) in zones.items():
        own = table.filter(table[f"in{n}"]).combine_chunks()
        before = own.num_rows - (pc.sum(own[f"at{n}"].cast(pa.int64())).as_py() or 0)
        rows = own.select(frame.columns)
        found[n] = Margin(rows, before, begins[n + 1] - before, low is None, high is None)
    return found
