"""KEYED, by less than all rows of a key where the stage knows how: a change reaches only some of them.

In: the changes of the rows that a stage reads. Out: the change of its output. Where the rows around the changes are too many, or where the
stage has to see all, it goes key by key.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.schema import KEY
from belvedere.spark.exchange import Rows, combined
from belvedere.spark.frame_reach import frames_around
from belvedere.spark.prepare import FOLLOWING, PreparedStage
from belvedere.spark.spans import TooMuch
from belvedere.spark.stages import Context, collect_rows, limits_of, prefers_whole, put_windows, run_keyed, run_whole
from belvedere.spark.window_reach import windows_around


def run_by_key(prepared: PreparedStage, context: Context) -> Rows | None:
    """Compute again what the changes reach."""
    stage = prepared.stage
    if (stage.frames is None and stage.reach is None) or stage.output in context.fresh or limits_of(context, stage.output):
        return run_keyed(prepared, context)
    if prefers_whole(prepared, context):
        return run_whole(prepared, context)
    (delta,) = context.deltas_of(prepared)
    if delta is None:
        return None
    few = delta.is_collected and delta.num_rows <= context.exchange.small
    found = _around(prepared, context, delta.table) if few else None
    if found is None:
        return run_keyed(prepared, context)
    rows, keys = found
    goes_on = stage.following is not None
    context.exchange.put(prepared.view(prepared.slots[0][0], FOLLOWING if goes_on else "rows"), Rows(rows))
    put_windows(prepared, context, rows.num_rows)
    results = collect_rows(prepared, context, prepared.sql[int(goes_on)])
    wanted = combined(pc.unique(pa.chunked_array([*keys, combined(delta.table[KEY])], pa.string())))
    again = results.where(lambda b: pc.is_in(b.column(KEY), value_set=wanted))
    return context.replace(stage.output, KEY, wanted, again)


def _around(prepared: PreparedStage, context: Context, delta: pa.Table) -> tuple[pa.Table, list[pa.Array]] | None:
    """Rows that are enough to compute the results that may have changed, and the keys of these; None where not all of that is known."""
    stage = prepared.stage
    try:
        if stage.frames is not None:
            return frames_around(prepared, context, delta)
        return None if stage.reach is None else windows_around(prepared, context, delta, stage.reach)
    except TooMuch:
        return None
