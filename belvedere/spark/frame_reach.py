"""Which rows of a changed partition window functions are computed again for: those whose frames hold a change.

In: the changes of the rows that the functions see, and the stored rows. Out: the rows whose results a change touches, and those that these
depend on.
"""

from __future__ import annotations

import pyarrow as pa

from belvedere.incremental.frames import Frames
from belvedere.schema import KEY
from belvedere.spark.exchange import combined
from belvedere.spark.prepare import PreparedStage
from belvedere.spark.spans import Change, Spans, changes_of, is_mixed
from belvedere.spark.stages import Context
from belvedere.spark.window_by.stretch import placed

LEAST_ROWS = 200
"""Partitions of fewer rows, on the average, are computed again as a whole."""


def frames_around(
    prepared: PreparedStage, context: Context, delta: pa.Table, frames: Frames
) -> tuple[pa.Table, list[pa.Array]] | None:
    """The rows around the changes and the keys of those whose results they touch; None where whole partitions are read. Raises TooMuch."""
    slot, relation = prepared.slots[0]
    assert slot.path is not None
    changes = changes_of(delta, slot.path, frames.order)
    if changes is None:
        return None
    if not context.costs.has_rows(relation.name, len(changes) * LEAST_ROWS, context.transaction.count):
        return None
    spans = Spans(context, relation, slot.path, frames.order)
    found = [around(spans, frames, c) for c in changes]
    return pa.concat_tables([rows for rows, _ in found]), [keys for _, keys in found]


def around(spans: Spans, f: Frames, change: Change) -> tuple[pa.Table, pa.Array]:
    """The rows around the change of one partition, and the keys of those whose results it touches."""
    low = _moved(spans, change.key, change.low, f.rows_above, f.least_above, after=False)
    high = _moved(spans, change.key, change.high, f.rows_below, f.least_below, after=True)
    begin = _moved(spans, change.key, low, f.rows_below, f.least_below, after=False)
    end = _moved(spans, change.key, high, f.rows_above, f.least_above, after=True)
    rows = spans.rows(change.key, begin, end)
    if (begin, end) != (None, None) and is_mixed(rows, f.partition):
        rows = spans.rows(change.key, None, None)
        low = high = None
    at = placed(rows[f.order], descending=False)
    since = at.min(initial=0) if low is None else low
    until = at.max(initial=0) if high is None else high
    return rows, combined(rows[KEY]).filter(pa.array((at >= since) & (at <= until)))


def _moved(spans: Spans, key: int, place: int | None, rows: int, distance: int, after: bool) -> int | None:
    """The place so many rows, and so far, from a place; None = the partition's edge."""
    if place is None:
        return None
    found = spans.place(key, place, rows, after) if rows else place
    if found is None:
        return None
    moved = max(found, place + distance) if after else min(found, place - distance)
    return moved if spans.has(moved) else None
