"""Whether one partition of a query is done by many tasks.

In: the rows and a `WindowPlan`. Out: the `Cuts` of a partition that is much longer than a core's share, where its windows can be found
block by block with a few rows around each; None for one task per partition. Spark jobs run here: see `cuts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from belvedere.kernels.margins import begin_of, counts_rows
from belvedere.kernels.specs import KernelSpec
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
    may_be_long,
    sampled,
)
from belvedere.spark.window_by.plan import WindowPlan
from belvedere.spark.window_by.relation import arrow_schema, sort_columns


@dataclass(frozen=True)
class Cut:
    """The partition that is cut, by which key and where."""

    giant: Giant
    lead: Lead
    cuts: Cuts


def cut_giant(spark: SparkSession, frame: DataFrame, plan: WindowPlan, spec: KernelSpec, blocks: int | None) -> Cut | None:
    """The cuts of the longest partition: into so many `blocks`, or where that is worth it."""
    cores = spark.sparkContext.defaultParallelism
    if blocks is None and not may_be_long(frame):
        return None
    lead = lead_of(plan.sort, arrow_schema(frame))
    ends = plan.ends(nullable=False)
    if lead is None or ends is None or not can_read_again(frame):
        return None
    giant = find_giant(frame, spec.keys, lead, cores) if blocks is None else _longest(frame, spec, lead, blocks)
    if giant is None:
        return None
    own = frame.where(is_in(spec.keys, giant)) if spec.keys else frame
    nullable = plan.ends(nullable=True)
    if nullable != ends and own.where(lead.column.isNull()).limit(1).count():
        ends = nullable  # tuples without an order key have no end by it
        if ends is None:
            return None
    count = blocks if blocks is not None else cores * -(-giant.rows // (cores * BLOCK_ROWS))
    cuts = cut(
        own,
        lead,
        sort_columns(plan.sort),
        giant,
        count,
        partial(begin_of, spec=spec, ends=ends),
        counted=counts_rows(spec, ends),
        free=blocks is not None,
    )
    return None if cuts is None else Cut(giant, lead, cuts)


def _longest(frame: DataFrame, spec: KernelSpec, lead: Lead, blocks: int) -> Giant | None:
    """The longest partition, with values enough to cut it into so many blocks."""
    found = sampled(frame, spec.keys, lead, RATE)
    if found is None or len(found[0].marks) < SAMPLED * blocks:
        found = sampled(frame, spec.keys, lead, 1)
    return None if found is None else found[0]
