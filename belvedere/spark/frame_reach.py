"""Compute window functions again only for those rows of a changed partition whose frames hold a change.

In: the changes of the rows that the functions see, and the stored rows. Out: the change of their results. Of each changed partition those
rows around the change are read whose results it touches, and those that these depend on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.incremental.frames import Frames
from belvedere.schema import KEY
from belvedere.spark.exchange import Rows, combined
from belvedere.spark.prepare import PreparedStage
from belvedere.spark.stages import Context, collect_rows, prefers_whole, run_keyed, run_whole
from belvedere.spark.window_by.stretch import numbers, placed

MOST_PARTITIONS = 1_000
"""With more changed partitions one look-up of all their rows is cheaper than one for each."""
LEAST_ROWS = 200
"""Partitions of fewer rows, on the average, are computed again as a whole."""


@dataclass(frozen=True)
class Change:
    """The changes of a partition are from `low` to `high` in its order."""

    key: int
    low: int
    high: int


class TooMuch(Exception):
    """The rows around the changes are more than the driver should hold."""


def run_frames(prepared: PreparedStage, context: Context, frames: Frames) -> Rows | None:
    """KEYED, for window functions whose frames end."""
    if prepared.stage.output in context.fresh or context.standing.get(prepared.stage.output):
        return run_keyed(prepared, context)
    if prefers_whole(prepared, context):
        return run_whole(prepared, context)
    (delta,) = context.deltas_of(prepared)
    if delta is None:
        return None
    few = delta.is_collected and delta.num_rows <= context.exchange.small
    changes = _changes(prepared, context, delta.table, frames.order) if few else None
    if changes is None:
        return run_keyed(prepared, context)
    source = _Stored(prepared, context, frames)
    try:
        found = [source.around(c) for c in changes]
    except TooMuch:
        return run_keyed(prepared, context)
    rows = pa.concat_tables([table for table, _ in found])
    context.exchange.put(prepared.view(prepared.slots[0][0], "rows"), Rows(rows))
    results = collect_rows(prepared, context, prepared.sql[0])
    wanted = combined(pc.unique(pa.chunked_array([*(keys for _, keys in found), combined(delta.table[KEY])], pa.string())))
    again = results.where(lambda b: pc.is_in(b.column(KEY), value_set=wanted))
    return context.replace(prepared.stage.output, KEY, wanted, again)


def _changes(prepared: PreparedStage, context: Context, delta: pa.Table, order: str) -> list[Change] | None:
    """The changed partitions; None where all of their rows are to be read."""
    path = prepared.slots[0][0].path
    if path is None or delta[order].null_count:
        return None
    found = (
        pa.table({"key": delta[path], "at": numbers(delta[order])}).group_by("key").aggregate([("at", "min"), ("at", "max")])
    )
    rows = context.transaction.count(prepared.stage.slots[0].relation)
    if found.num_rows > MOST_PARTITIONS or found.num_rows * LEAST_ROWS > rows:
        return None
    return [Change(r["key"], r["at_min"], r["at_max"]) for r in found.to_pylist()]


class _Stored:
    """The stored rows of one stage's input in one epoch."""

    def __init__(self, prepared: PreparedStage, context: Context, frames: Frames):
        slot, relation = prepared.slots[0]
        assert slot.path is not None
        self.context, self.frames, self.relation, self.path = context, frames, slot.relation, slot.path
        self.type = relation.schema[frames.order].type
        self.size = 0

    def around(self, change: Change) -> tuple[pa.Table, pa.Array]:
        """The rows that the touched results depend on, and the keys of the touched ones."""
        f = self.frames
        low = self._below(change.key, change.low, f.rows_above, f.least_above)
        high = self._above(change.key, change.high, f.rows_below, f.least_below)
        begin = self._below(change.key, low, f.rows_below, f.least_below)
        end = self._above(change.key, high, f.rows_above, f.least_above)
        rows = self._rows(change.key, begin, end)
        by = list(f.partition)
        if by and (begin, end) != (None, None) and rows.select(by).group_by(by).aggregate([]).num_rows > 1:
            rows = self._rows(
                change.key, None, None
            )  # another partition has the same hash, so places may be nearer than they look
            low = high = None
        at = placed(rows[f.order], descending=False)
        touched = pa.array(
            (at >= (at.min(initial=0) if low is None else low)) & (at <= (at.max(initial=0) if high is None else high))
        )
        return rows, combined(rows[KEY]).filter(touched)

    def _below(self, key: int, place: int | None, rows: int, distance: int) -> int | None:
        """The place so many rows, and so far, below a place; None = the partition's edge, where NULLs are."""
        found = self._moved(key, place, rows, after=False)
        return None if found is None or place is None else self._inside(min(found, place - distance))

    def _above(self, key: int, place: int | None, rows: int, distance: int) -> int | None:
        found = self._moved(key, place, rows, after=True)
        return None if found is None or place is None else self._inside(max(found, place + distance))

    def _moved(self, key: int, place: int | None, rows: int, after: bool) -> int | None:
        if place is None or not rows:
            return place
        found = self.context.transaction.place(
            self.relation, self.path, key, self.frames.order, self._value(place), rows, after
        )
        return None if found is None else int(numbers(pa.array([found], self.type))[0].as_py())

    def _inside(self, place: int) -> int | None:
        """The place, if the order's type has it: beyond there are no rows."""
        try:
            self._value(place)
        except (pa.ArrowInvalid, OverflowError, ValueError):
            return None
        return place

    def _value(self, number: int) -> Any:
        type_ = pa.int32() if pa.types.is_date32(self.type) else pa.int64()
        return pa.array([number], pa.int64()).cast(type_).cast(self.type)[0].as_py()

    def _rows(self, key: int, begin: int | None, end: int | None) -> pa.Table:
        low, high = (None if n is None else self._value(n) for n in (begin, end))
        reader = self.context.transaction.lookup_span(self.relation, self.path, key, self.frames.order, low, high)
        batches = []
        for batch in reader:
            self.size += batch.nbytes
            if not self.context.exchange.memory.has_room(self.size):
                reader.close()
                raise TooMuch
            batches.append(batch)
        return pa.Table.from_batches(batches, reader.schema)
