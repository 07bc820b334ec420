"""SEMI and ANTI joins without an equality: find again whether changed rows, and those that match changed rows, have a match.

In: the changes of both sides, and their stored rows. Out: the change of the rows that have a match, or none.
"""

from __future__ import annotations

import pyarrow as pa

from belvedere.schema import KEY
from belvedere.spark.exchange import Rows, keys_of
from belvedere.spark.prepare import PreparedStage
from belvedere.spark.stages import Context, collect_rows, prefers_whole, run_whole

KEYS = pa.schema([pa.field(KEY, pa.string(), nullable=False)])


def run_existence(prepared: PreparedStage, context: Context) -> Rows | None:
    """EXISTENCE: the other rows of the left side match what they matched before."""
    if prepared.stage.output in context.fresh or prefers_whole(prepared, context):
        return run_whole(prepared, context)
    (own, left), (other, right) = prepared.slots
    own_delta, other_delta = context.deltas_of(prepared)
    touched = [] if own_delta is None else [(own_delta, KEY)]
    if other_delta is not None:
        context.exchange.put(prepared.view(own, "rows"), context.look_up(left.name, None, None))
        context.exchange.put(prepared.view(other, "delta"), other_delta)
        touched.append((context.exchange.compute(prepared.sql[1], KEYS), KEY))
    if not touched:
        return None
    keys = keys_of(touched)
    if keys.is_empty:
        return None
    context.exchange.put(prepared.view(own, "rows"), context.look_up(left.name, KEY, keys))
    context.exchange.put(prepared.view(other, "rows"), context.look_up(right.name, None, None))
    return context.replace(prepared.stage.output, KEY, keys, collect_rows(prepared, context, prepared.sql[0]).reader())
