"""Run WINDOW BY over rows that only arrive: find the windows of the stored rows, then drop the rows that no open window needs.

In: the changes of the state relation, the bound on its time. Out: the change of the windows. Windows that are final have no row in the
state any more, so they are neither found again nor replaced.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.incremental.settling import Settling
from belvedere.lang.window_by_resume import AFTER, FROM, TO
from belvedere.plan.monotone import NEVER
from belvedere.plan.window_by import Resume
from belvedere.schema import KEY, TIMESTAMP
from belvedere.spark.exchange import Rows, combined, keys_of
from belvedere.spark.prepare import PreparedStage
from belvedere.spark.stages import Context, collect_rows, put_windows
from belvedere.spark.window_by.maintain import window_extents

LAST = int(np.iinfo(np.int64).max)
Span = tuple[int, int, int]  # the times of a window's start, of its end, and of the row after it; LAST where there is none


def run_windows(prepared: PreparedStage, context: Context) -> Rows | None:
    """The windows of the partitions in which rows arrived. A window's key is that of the row at its start."""
    slot, _ = prepared.slots[0]
    settling = prepared.stage.settling
    (delta,) = context.deltas_of(prepared)
    if delta is None or slot.path is None or settling is None:
        return None
    rows = context.look_up(slot.relation, slot.path, keys_of([(delta, slot.path)])).table
    context.exchange.put(prepared.view(slot, "rows"), Rows(rows))
    put_windows(prepared, context, rows.num_rows)
    found = collect_rows(prepared, context, prepared.sql[0])
    changed = context.replace(prepared.stage.output, KEY, combined(rows[KEY]), found.reader())
    bound = settling.bound(context.bounds.__getitem__)
    if bound > NEVER and pc.min(micros(rows[settling.resume.column])).as_py() < bound:
        _forget(prepared, context, settling, rows, bound)
    return changed


def _forget(prepared: PreparedStage, context: Context, settling: Settling, rows: pa.Table, bound: int) -> None:
    """Drop the rows before the first that may still matter, partition by partition."""
    spark, operator = context.exchange.spark, prepared.windows[0]
    reach = window_extents(spark, operator.block, operator.frames(spark), settling.resume).toArrow()
    by = settling.block.partition
    spans: dict[Any, list[Span]] = defaultdict(list)
    bounds = zip(*(micros(reach[n]).to_pylist() for n in (FROM, TO, AFTER)), strict=True)
    for key, span in zip(_partitions(reach, tuple(f"$by{n}" for n in range(len(by)))), bounds, strict=True):
        spans[key].append(span)
    members: dict[Any, list[int]] = defaultdict(list)
    for place, key in enumerate(_partitions(rows, by)):
        members[key].append(place)
    times = micros(rows[settling.resume.column]).to_numpy()
    gone = [p for key, places in members.items() for p in settled(times[places], spans[key], settling.resume, bound, places)]
    if gone:
        keys = combined(rows[KEY].take(pa.array(gone)))
        context.overwrite(prepared.slots[0][0].relation, KEY, keys, rows.schema.empty_table().to_reader())


def settled(times: Any, spans: list[Span], resume: Resume, bound: int, places: list[int]) -> list[int]:
    """Of the rows of one partition, with their times and the reach of its windows, those that no later row can bring into a window.

    No later row has a time below `bound`. A row at or after the start of an open window stays, and so does the last one where windows look
    ahead: what it starts or ends is not known yet.
    """
    below = times[times < bound]
    kept = int(below.max()) if resume.ahead and len(below) else bound
    for first, last, after in sorted(spans, reverse=True):
        # a missing time is LAST; a tumbling window that reaches into what is kept (by rows of equal time) stays whole
        if (after if resume.ahead else last) >= bound or (resume.tumbling and last >= kept):
            kept = min(kept, first)
    return [place for place, time in zip(places, times, strict=True) if time < kept]


def micros(column: pa.ChunkedArray) -> pa.Array:
    """Times as microseconds since 1970; the greatest number where there is none."""
    instants = column.cast(TIMESTAMP) if pa.types.is_timestamp(column.type) else column.cast(pa.timestamp("us")).cast(TIMESTAMP)
    return combined(pc.fill_null(instants.cast(pa.int64()), LAST))


def _partitions(table: pa.Table, names: tuple[str, ...]) -> list[Any]:
    """The partition of every row, as a value to look up by."""
    columns = [[repr(v) for v in table[n].to_pylist()] for n in names]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows
