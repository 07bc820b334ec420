"""Finds the rows of a changed partition for which window functions are recomputed: those whose frames contain a change.

In: the changes of the functions' input rows, and the stored rows. Out: the rows whose results a change affects, and the
rows from which these are computed. For growing frames, the stored results of the previous row replace all rows before
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from belvedere.engine.rows.epoch_rows import combined
from belvedere.engine.work import Work
from belvedere.plan.operators.nodes import Node
from belvedere.rules.frames.frames import Frames
from belvedere.rules.key_ranges import KeyRange, Spans, changes_of, is_mixed
from belvedere.rules.window_by.scan_range import placed
from belvedere.schema import KEY, Column

MIN_ROWS = 200
"""Minimum average number of rows of a partition. Smaller partitions are recomputed whole."""


@dataclass(frozen=True)
class Following:
    """The way in which a stage continues after a stored row of its output, for window functions whose frames grow.

    `plan` computes the output for rows that carry the columns of `last`: columns of the output at the previous row. The
    previous row has the greatest `number` among the rows of its `partition` with the nearest `order`.
    """

    plan: Node
    order: str
    number: str
    partition: tuple[str, ...]
    last: tuple[tuple[str, Column], ...]


def frame_neighbourhood(
    work: Work, delta: pa.Table, frames: Frames, path: str, following: Following | None
) -> tuple[pa.Table, list[pa.Array]] | None:
    """Return the rows around the changes, and the keys of the rows whose results change.

    Return None if whole partitions must be read. Raise TooMuch if the driver has no room. `path` is the output's access
    path. Rows that follow a row with known results carry its accumulators.
    """
    slot, relation = work.slots[0]
    assert slot.path is not None
    changes = changes_of(delta, slot.path, frames.order)
    if changes is None:
        return None
    if not work.costs.has_rows(relation.name, len(changes) * MIN_ROWS, work.storage.count):
        return None
    spans = Spans(work, relation, slot.path, frames.order)
    if following is None:
        found = [partition_neighbourhood(spans, frames, c) for c in changes]
    else:
        results = Spans(work, work.output, path, following.order)
        behind = [_after_change(spans, results, frames, following, c) for c in changes]
        if not any(before is not None for _, _, before in behind) or _is_most(work, relation.name, behind):
            return None
        found = [(beside(rows, before, following), keys) for rows, keys, before in behind]
    return pa.concat_tables([rows for rows, _ in found]), [keys for _, keys in found]


def _is_most(work: Work, relation: str, behind: Sequence[tuple[pa.Table, pa.Array, pa.Table | None]]) -> bool:
    """Return whether so much follows the changes that replacing whole partitions is cheaper than replacing single
    rows.
    """
    costs, rows = work.costs, sum(r.num_rows for r, _, _ in behind)
    return costs.counted and costs.is_most([rows], [relation], work.storage.count, crossed=False)


def partition_neighbourhood(spans: Spans, f: Frames, change: KeyRange) -> tuple[pa.Table, pa.Array]:
    """Return the rows around the change of one partition, and the keys of the rows whose results it affects."""
    low, high, begin, end = _edges(spans, f, change)
    rows = spans.rows(change.key, begin, end)
    if (begin, end) != (None, None) and is_mixed(rows, f.partition):
        rows = spans.rows(change.key, None, None)
        low = high = None
    return rows, _between(rows, f, low, high)


def _after_change(
    spans: Spans, results: Spans, f: Frames, following: Following, change: KeyRange
) -> tuple[pa.Table, pa.Array, pa.Table | None]:
    """Return the rows of one partition from the change on, the keys of the affected results, and the previous row with
    its results.

    Return all rows if there is no previous row, or if it may belong to another partition.
    """
    low, high, begin, end = _edges(spans, f, change)
    edge, up = (begin, True) if f.grows > 0 else (end, False)
    place = None if edge is None else results.place(change.key, edge, 1, after=not up)
    if place is not None:
        before = results.rows(change.key, place, place)
        rows = spans.rows(change.key, begin, end)
        if not is_mixed(_together(before, following.partition, rows, f.partition), f.partition):
            return rows, _between(rows, f, low, high), before
        low = high = None
    rows = spans.rows(change.key, None, None)
    return rows, _between(rows, f, low, high), None


def _together(before: pa.Table, names: Sequence[str], rows: pa.Table, partition: Sequence[str]) -> pa.Table:
    """Return the rows joined with the numbers of their partitions."""
    pairs = zip(names, partition, strict=True)
    return pa.table({p: pa.chunked_array([*before[n].chunks, *rows[p].chunks], rows[p].type) for n, p in pairs})


def beside(rows: pa.Table, before: pa.Table | None, following: Following) -> pa.Table:
    """Add the accumulators of the last row of `before` to each row, or NULLs if there is none."""
    for name, column in following.last:
        if before is None:
            values = pa.nulls(rows.num_rows, column.type)
        else:
            numbers = np.asarray(combined(before[following.number]))
            values = combined(before[name]).take(pa.array(np.full(rows.num_rows, numbers.argmax())))
        rows = rows.append_column(column.name, values)
    return rows


def _edges(spans: Spans, f: Frames, change: KeyRange) -> tuple[int | None, int | None, int | None, int | None]:
    """Return the first and last position of affected results, and of the rows to read; None = the partition's edge."""
    low = high = None
    if f.grows >= 0:
        low = _moved(spans, change.key, change.low, f.rows_above, f.least_above, after=False)
    if f.grows <= 0:
        high = _moved(spans, change.key, change.high, f.rows_below, f.least_below, after=True)
    begin = _moved(spans, change.key, low, f.rows_below, f.least_below, after=False)
    end = _moved(spans, change.key, high, f.rows_above, f.least_above, after=True)
    return low, high, begin, end


def _between(rows: pa.Table, f: Frames, low: int | None, high: int | None) -> pa.Array:
    """Return the keys of the rows between two positions."""
    at = placed(rows[f.order], descending=False)
    since = at.min(initial=0) if low is None else low
    until = at.max(initial=0) if high is None else high
    return combined(rows[KEY]).filter(pa.array((at >= since) & (at <= until)))


def _moved(spans: Spans, key: int, place: int | None, rows: int, distance: int, after: bool) -> int | None:
    """Return the position `rows` rows, and `distance`, from a position; None = the partition's edge."""
    if place is None:
        return None
    found = spans.place(key, place, rows, after) if rows else place
    if found is None:
        return None
    moved = max(found, place + distance) if after else min(found, place - distance)
    return moved if spans.has(moved) else None
