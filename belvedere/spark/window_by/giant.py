"""Whether one partition of a query is done by many tasks.

In: the rows and a `WindowPlan`. Out: the `Cuts` of a partition that is much longer than a core's share, where its windows can be found
block by block and that is no slower; None for one task per partition. Spark jobs run here: see `cuts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from belvedere.spark.window_by.cuts import (
    BLOCK_ROWS,
    RATE,
    SAMPLED,
    Cuts,
    Giant,
    Lead,
    can_read_again,
    cut,
    find_giant,
    is_in,
    lead_of,
    sampled,
)
from belvedere.spark.window_by.exchange import Exchange, can_exchange, in_parts, neighbours
from belvedere.spark.window_by.exchange_jobs import added_up, exchanged
from belvedere.spark.window_by.margins import Ends, Margin, begin_of, can_cut, counts_rows
from belvedere.spark.window_by.native_windows import distance
from belvedere.spark.window_by.plan import WindowPlan
from belvedere.spark.window_by.relation import arrow_schema, sort_columns
from belvedere.spark.window_by.running import Heads, running_begin
from belvedere.spark.window_by.specs import KernelSpec

NATIVE_CORES = 4
"""With fewer cores Spark's own operators in one task are as fast as the kernels in blocks."""
EXCHANGE_CORES = 6
"""With fewer cores blocks tell each other of windows for their memory alone: rows are sorted twice, and windows found three times."""


@dataclass(frozen=True)
class Cut:
    """The partition that is cut, by which key and where; and what the blocks know of each other, if windows are longer than margins."""

    giant: Giant
    lead: Lead
    cuts: Cuts
    told: Exchange | Heads | None = None


def cut_giant(
    spark: SparkSession, frame: DataFrame, plan: WindowPlan, spec: KernelSpec, blocks: int | None, native: bool
) -> Cut | None:
    """The cuts of the longest partition: into so many `blocks`, or where that is worth it.

    `native`: Spark's own operators can do it in one task.
    """
    forced, cores = blocks is not None, spark.sparkContext.defaultParallelism
    if not forced and cores < NATIVE_CORES and native:
        return None
    lead = lead_of(plan.sort, arrow_schema(frame))
    ends = Ends(plan.closing(nullable=False), window_length(spec))
    exchanges = can_exchange(spec) or (bool(plan.running(nullable=False)) and in_parts(spec))
    if lead is None or not (can_cut(spec, ends) or exchanges) or not can_read_again(frame):
        return None
    if blocks is not None:
        given = sampled(frame, spec.keys, lead, RATE)
        if given is None or len(given[0].marks) < SAMPLED * blocks:
            given = sampled(frame, spec.keys, lead, 1)
        giant = given[0] if given is not None else None
    else:
        giant = find_giant(frame, spec.keys, lead, cores)
        blocks = cores if giant is None else cores * -(-giant.rows // (cores * BLOCK_ROWS))
        exchanges &= giant is not None and (cores >= EXCHANGE_CORES or giant.rows > BLOCK_ROWS)
    if giant is None:
        return None
    own = frame.where(is_in(spec.keys, giant)) if spec.keys else frame
    nullable = (plan.closing(nullable=True), plan.running(nullable=True)) != (ends.closing, plan.running(nullable=False))
    if nullable and own.where(lead.column.isNull()).limit(1).count():
        ends = Ends(plan.closing(nullable=True), ends.length)  # tuples without an order key have no end by it
        exchanges &= spec.label is None or bool(plan.running(nullable=True))
    found = None
    if can_cut(spec, ends):
        found = _with_margins(own, plan, spec, Division(giant, lead, blocks), ends, free=forced and not exchanges)
    return _with_exchange(own, plan, spec, Division(giant, lead, blocks)) if found is None and exchanges else found


class Division(NamedTuple):
    """What is cut, by which key, into how many blocks."""

    giant: Giant
    lead: Lead
    blocks: int


def _with_margins(
    own: DataFrame, plan: WindowPlan, spec: KernelSpec, division: Division, ends: Ends, *, free: bool
) -> Cut | None:
    """Cuts whose margins hold the ends of all windows that start before them."""

    def enough(margin: Margin) -> int | None:
        return begin_of(margin, spec, ends)

    giant, lead, blocks = division
    sort = sort_columns(plan.sort)
    cuts = cut(own, lead, sort, giant, blocks, enough, counted=counts_rows(spec, ends), free=free)
    return None if cuts is None else Cut(giant, lead, cuts)


def _with_exchange(own: DataFrame, plan: WindowPlan, spec: KernelSpec, division: Division) -> Cut | None:
    """Cuts with the nearest neighbours alone; the blocks are asked where windows end beyond them."""
    near = neighbours(spec)

    def enough(margin: Margin) -> int | None:
        if spec.label is not None:
            return running_begin(margin, spec, Ends(plan.running(nullable=False)), near)
        before = margin.first or margin.cut >= near
        return 0 if before and (margin.last or margin.table.num_rows - margin.cut >= near) else None

    giant, lead, blocks = division
    sort = sort_columns(plan.sort)
    cuts = cut(own, lead, sort, giant, blocks, enough, counted=True, free=spec.label is None)
    if cuts is None:
        return None
    told = exchanged(own, spec, lead, sort, cuts) if spec.label is None else added_up(own, spec, lead, sort, cuts)
    return None if told is None else Cut(giant, lead, cuts, told)


def window_length(spec: KernelSpec) -> int | None:
    """The length of all TUMBLING windows, where every tuple is a START and END counts from it."""
    start = spec.start
    if not spec.tumbling or start.local or start.search or start.scan or start.unbounded or spec.end is None:
        return None
    length = distance(spec.end, "start")
    return None if length is None else length + 1
