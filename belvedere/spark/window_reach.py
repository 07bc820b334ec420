"""Find again only those windows of a changed partition that the change can reach.

In: the changes of the rows that WINDOW BY reads, and the stored rows. Out: the change of the windows. Of each changed partition a stretch
of rows around the change is read, and made longer until it is proven that no window outside depends on the change; in the end it is the
whole partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.incremental.settling import Reach
from belvedere.plan.window_by import Ranges
from belvedere.schema import KEY
from belvedere.spark.exchange import Rows, combined
from belvedere.spark.prepare import PreparedStage
from belvedere.spark.stages import Context, collect_rows, prefers_whole, put_windows, run_keyed, run_whole
from belvedere.spark.window_by.maintain import window_reach
from belvedere.spark.window_by.stretch import Stretch, Windows, mirrored, numbers, placed, sliding, tumbling, windows_of

FIRST_ROWS = 4_096
"""So many rows, over all changed partitions, are read before and behind the changes at first."""
LEAST_ROWS = 64
MOST_PARTITIONS = 1_000
"""With more changed partitions one look-up of all their rows is cheaper than one for each."""


class Source(Protocol):
    """The stored rows, and the windows over some of them."""

    def read(self, stretch: Stretch) -> pa.Table:
        """The rows of the stretch, whose edges are set."""

    def windows(self, tables: Sequence[pa.Table]) -> list[Windows]:
        """How far the windows in each of the tables reach."""

    def stored(self, keys: pa.Array) -> pa.Array:
        """Those of the keys that a window had before the change."""


class TooMuch(Exception):
    """The stretches are more than the driver should hold."""


def run_reach(prepared: PreparedStage, context: Context) -> Rows | None:
    """KEYED, by less than all rows of a key where the stage knows how."""
    reach, slot = prepared.stage.reach, prepared.slots[0][0]
    if reach is None or prepared.stage.output in context.fresh:
        return run_keyed(prepared, context)
    if prefers_whole(prepared, context):
        return run_whole(prepared, context)
    (delta,) = context.deltas_of(prepared)
    if delta is None:
        return None
    assert slot.path is not None
    few = delta.is_collected and delta.num_rows <= context.exchange.small
    stretches = first_stretches(delta.table, slot.path, reach.order, reach.ranges) if few else None
    if stretches is None:
        return run_keyed(prepared, context)
    try:
        rows, keys = reached_rows(_Stored(prepared, context, reach), reach.ranges, reach.order, stretches)
    except TooMuch:
        return run_keyed(prepared, context)
    context.exchange.put(prepared.view(slot, "rows"), Rows(rows))
    put_windows(prepared, context, rows.num_rows)
    found = collect_rows(prepared, context, prepared.sql[0])
    wanted = combined(pc.unique(pa.chunked_array([*keys, combined(delta.table[KEY])], pa.string())))
    again = found.where(lambda b: pc.is_in(b.column(KEY), value_set=wanted))
    return context.replace(prepared.stage.output, KEY, wanted, again)


def first_stretches(delta: pa.Table, path: str, order: str, ranges: Ranges) -> list[Stretch] | None:
    """The changed partitions; None where all of their rows are to be read."""
    if delta[order].null_count:
        return None
    places = pa.table({"key": delta[path], "at": numbers(delta[order])})
    found = places.group_by("key").aggregate([("at", "min"), ("at", "max")])
    if found.num_rows > MOST_PARTITIONS:
        return None
    rows = max(LEAST_ROWS, FIRST_ROWS // max(1, found.num_rows))
    # the tuple after a start may be a changed one; the last start but one before the change has the last one after it
    back = (2 if ranges.ahead else 1) if ranges.tumbling else rows
    edges = [(r["key"], *sorted(mirrored(r[n], ranges.descending) for n in ("at_min", "at_max"))) for r in found.to_pylist()]
    return [Stretch(key, low, high, back, rows) for key, low, high in edges]


def reached_rows(source: Source, ranges: Ranges, order: str, stretches: list[Stretch]) -> tuple[pa.Table, list[pa.Array]]:
    """Rows that are enough to find the windows that may have changed, and the keys of the rows where such can start."""
    done: list[pa.Table] = []
    keys: list[pa.Array] = []
    while stretches:
        tables = [source.read(s) for s in stretches]
        found = iter(source.windows([t for s, t in zip(stretches, tables, strict=True) if not s.is_whole]))
        longer = []
        for stretch, table in zip(stretches, tables, strict=True):
            chosen = combined(table[KEY])
            if not stretch.is_whole:
                at, windows = placed(table[order], ranges.descending), next(found)
                span = tumbling(stretch, at, windows, source.stored) if ranges.tumbling else sliding(ranges, stretch, windows)
                if span is None:
                    longer.append(stretch)
                    continue
                chosen = chosen.filter(pa.array((at >= span[0]) & (at <= span[1]) if span[1] is not None else at >= span[0]))
            done.append(table)
            keys.append(chosen)
        stretches = longer
    return pa.concat_tables(done), keys


class _Stored:
    """The `Source` of one stage in one epoch."""

    def __init__(self, prepared: PreparedStage, context: Context, reach: Reach):
        self.prepared, self.context, self.reach = prepared, context, reach
        self.slot, relation = prepared.slots[0]
        assert self.slot.path is not None
        assert prepared.stage.path is not None
        self.path, self.out = self.slot.path, prepared.stage.path
        self.type = relation.schema[reach.order].type
        self.bytes = 0

    def read(self, stretch: Stretch) -> pa.Table:
        """The rows; all of the partition's where it cannot be told from another."""
        relation, order, by = self.slot.relation, self.reach.order, list(self.reach.partition)
        if self.reach.start is None:
            stretch.begin = self._place(relation, self.path, order, stretch, after=False)
        else:
            stretch.begin = self._place(self.prepared.stage.output, self.out, self.reach.start, stretch, after=False)
        stretch.end = self._place(relation, self.path, order, stretch, after=True)
        rows = self._rows(stretch)
        if by and not stretch.is_whole and rows.select(by).group_by(by).aggregate([]).num_rows > 1:
            stretch.begin = stretch.end = None  # another partition has the same hash
            rows = self._rows(stretch)
        return rows

    def _place(self, relation: str, path: str, column: str, stretch: Stretch, after: bool) -> int | None:
        number, count = (stretch.high, stretch.ahead) if after else (stretch.low, stretch.back)
        falls = self.reach.ranges.descending
        found = self.context.transaction.place(relation, path, stretch.key, column, self._value(number), count, after != falls)
        return None if found is None else mirrored(int(numbers(pa.array([found], self.type))[0].as_py()), falls)

    def _value(self, number: int | None) -> Any:
        """An order key as the store takes it."""
        if number is None:
            return None
        type_ = pa.int32() if pa.types.is_date32(self.type) else pa.int64()
        return pa.array([mirrored(number, self.reach.ranges.descending)], type_).cast(self.type)[0].as_py()

    def _rows(self, stretch: Stretch) -> pa.Table:
        begin, end = self._value(stretch.begin), self._value(stretch.end)
        if self.reach.ranges.descending:
            begin, end = end, begin
        order = self.reach.order
        return self.context.transaction.lookup_span(self.slot.relation, self.path, stretch.key, order, begin, end).read_all()

    def windows(self, tables: Sequence[pa.Table]) -> list[Windows]:
        """By one query over all of the tables."""
        if not tables:
            return []
        rows = pa.concat_tables(tables)
        self.context.exchange.put(self.prepared.view(self.slot, "rows"), Rows(rows))
        spark, operator = self.context.exchange.spark, self.prepared.windows[0]
        small = rows.num_rows <= self.context.exchange.small
        reached = window_reach(spark, operator.block, operator.frames(spark), self.reach.ranges, small).toArrow()
        number = np.repeat(np.arange(len(tables)), [t.num_rows for t in tables])
        place = pc.index_in(combined(reached[KEY]).cast(pa.string()), value_set=combined(rows[KEY]))
        owner = number[np.asarray(place, np.int64)]
        return [windows_of(reached.filter(pa.array(owner == n)), self.reach.ranges) for n in range(len(tables))]

    def stored(self, keys: pa.Array) -> pa.Array:
        return combined(self.context.look_up(self.prepared.stage.output, KEY, keys).table[KEY])
