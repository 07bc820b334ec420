"""Keep the first rows of an input whose rows come and go.

In: the change of the input. Out: the change of the stored first rows, which are more than anybody sees. Rows behind the last stored one are
not known: as long as enough stored rows are left nothing else is read; when too few are, all rows are read once.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.plan.nodes import TopK
from belvedere.rules.pipeline import OWN
from belvedere.schema import KEY, WEIGHT
from belvedere.spark.exchange import Rows, combined
from belvedere.spark.merge_sql import view_name
from belvedere.spark.prepare import PLACE, PreparedStage
from belvedere.spark.stages import WEIGHT_FIELD, Context, collect_rows, put_deltas, put_rows

COMPLETE = "$complete"
"""Suffix of the number beside the epoch that is 1 where the stored first rows are all rows there are."""
PLACE_FIELD = pa.field(PLACE, pa.int64())


def run_first(prepared: PreparedStage, context: Context) -> Rows | None:
    """Put changed rows in their place among the stored ones, or read all rows where that leaves too few."""
    name = prepared.stage.output
    if name not in context.fresh:
        if not put_deltas(prepared, context):
            return None
        if sum(d.num_rows for d in context.deltas_of(prepared) if d is not None) <= context.exchange.small:
            known, changed = _ordered(prepared, context)
            if not len(changed):
                return None
            if known is not None:
                return context.replace(name, KEY, *_difference(known, changed, prepared, context))
    return _read_all(prepared, context)


def _limit(prepared: PreparedStage) -> int:
    assert isinstance(prepared.stage.plan, TopK)
    return prepared.stage.plan.limit or 0


def _read_all(prepared: PreparedStage, context: Context) -> Rows:
    put_rows(prepared, context, None)
    rows = collect_rows(prepared, context, prepared.sql[0])
    context.sequences[prepared.stage.output + COMPLETE] = int(rows.num_rows < _limit(prepared))
    return context.replace(prepared.stage.output, None, None, rows.reader())


def _ordered(prepared: PreparedStage, context: Context) -> tuple[pa.Table | None, pa.Array]:
    """The first rows after the change in their order, as far as they are known, and all keys that changed; None where too few are known.

    Whatever is not stored comes after the last stored row, be that one still there or not.
    """
    name = prepared.stage.output
    context.exchange.put(view_name(prepared.number, OWN, "rows"), context.look_up(name, None, None))
    both = collect_rows(prepared, context, prepared.sql[1], WEIGHT_FIELD, PLACE_FIELD).table
    both = both.take(pc.sort_indices(both[PLACE]))
    weights = combined(both[WEIGHT]).to_numpy(zero_copy_only=False)
    changed = combined(pc.unique(both.filter(pa.array(weights != 0))[KEY]))
    touched = combined(pc.is_in(both[KEY], value_set=changed)).to_numpy(zero_copy_only=False)
    there = (weights > 0) | ((weights == 0) & ~touched)
    if not context.sequences.get(name + COMPLETE):
        own = np.flatnonzero(weights == 0)
        there[own[-1] + 1 if len(own) else 0 :] = False
        if there.sum() < prepared.stage.least:
            return None, changed
    return both.filter(pa.array(there)), changed


def _difference(
    known: pa.Table, changed: pa.Array, prepared: PreparedStage, context: Context
) -> tuple[pa.Array, pa.RecordBatchReader]:
    """The keys whose stored rows change, and the rows that they have then: what is over the limit goes."""
    limit = _limit(prepared)
    if known.num_rows > limit:
        context.sequences[prepared.stage.output + COMPLETE] = 0
    over = combined(known[KEY].slice(limit))
    first = known.slice(0, limit)
    rows = first.filter(pc.is_in(first[KEY], value_set=changed)).drop_columns([WEIGHT, PLACE])
    return combined(pc.unique(pa.chunked_array([changed, over]))), rows.combine_chunks().to_reader()
