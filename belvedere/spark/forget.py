"""Take final rows out of operators' own state, at the end of an epoch.

In: the epoch's bounds and changes. Out: fewer stored rows; no view changes. Nothing is looked at but the columns that are indexed for it.
"""

from __future__ import annotations

from belvedere.instants import instant, microseconds
from belvedere.plan.monotone import NEVER
from belvedere.rules.expiry import final_below
from belvedere.rules.pipeline import Pipeline
from belvedere.spark.stages import Context
from belvedere.time.past_bounds import PastBounds


def forget_final(pipeline: Pipeline, context: Context, done: dict[tuple[str, str], int], past: PastBounds) -> None:
    """Drop the rows that bounds have made final; `done` are the bounds up to which that was done before."""
    if not any(r.final for r in pipeline.relations.values()):
        return
    now = microseconds(context.clock)
    final = final_below(pipeline, context.bounds.__getitem__, lambda delay: past.before(now, delay))
    for name, columns in final.items():
        for column, bound in columns.items():
            if bound == NEVER or (done.get((name, column)) == bound and name not in context.deltas):
                continue
            try:
                last = instant(bound - 1)
            except OverflowError:
                continue
            context.transaction.delete_range(name, column, last)
            done[name, column] = bound
