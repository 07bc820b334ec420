"""Which windows of a changed partition are found again: those that the change can reach.

In: the changes of the rows that WINDOW BY reads, and the stored rows. Out: rows to find windows in, and where these start. Of each changed
partition a stretch of rows around the change is read, and made longer until it is proven that no window outside depends on the change; in
the end it is the whole partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.plan.window_by import Ranges
from belvedere.rules.window_by.settling import Reach
from belvedere.schema import KEY
from belvedere.spark.exchange import Rows, combined
from belvedere.spark.prepare import PreparedStage
from belvedere.spark.spans import Spans, changes_of, is_mixed
from belvedere.spark.stages import Context
from belvedere.spark.stretch import (
    GREATEST,
    LEAST,
    Bools,
    Ints,
    Span,
    Stretch,
    Windows,
    ended,
    labelled,
    mirrored,
    placed,
    sliding,
    tumbling,
    windows_of,
)
from belvedere.spark.window_by.maintain import window_reach, window_tuples
from belvedere.spark.window_ends import Ends

FIRST_ROWS = 8_192
"""So many rows, over all changed partitions, are read before and behind the changes at first. A shorter partition is read whole: that saves
the query for the reach of its windows."""
LEAST_ROWS = 64


class Source(Protocol):
    """The stored rows, and the windows over some of them."""

    def read(self, stretch: Stretch) -> pa.Table:
        """The rows of the stretch, whose edges are set."""

    def windows(self, tables: Sequence[pa.Table]) -> list[Windows]:
        """How far the windows in each of the tables reach."""

    def stored(self, keys: pa.Array) -> pa.Array:
        """Those of the keys that a window had before the change."""

    def keep(self, stretch: Stretch, rows: pa.Table, windows: Windows, chosen: Bools) -> None:
        """Remember where the chosen ones of the windows in a stretch end."""


def windows_around(
    prepared: PreparedStage, context: Context, delta: pa.Table, reach: Reach
) -> tuple[pa.Table, list[pa.Array]] | None:
    """Rows that are enough to find the windows that may have changed, and the keys of the rows where such can start.

    None where all rows of the changed partitions are to be read. Raises TooMuch.
    """
    path = prepared.slots[0][0].path
    assert path is not None
    stretches = first_stretches(delta, path, reach.order, reach.ranges)
    if stretches is None:
        return None
    source = _Stored(prepared, context, reach)
    rows, keys = reached_rows(source, reach.ranges, reach.order, stretches)
    source.write([*keys, combined(delta[KEY])])
    return rows, keys


def first_stretches(delta: pa.Table, path: str, order: str, ranges: Ranges) -> list[Stretch] | None:
    """The changed partitions; None where all of their rows are to be read."""
    changes = changes_of(delta, path, order)
    if changes is None:
        return None
    rows = max(LEAST_ROWS, FIRST_ROWS // max(1, len(changes)))
    # the tuple after a start may be a changed one; the last start but one before the change has the last one after it
    back = rows
    if ranges.tumbling:
        back = 1 + ranges.ahead + 2 * ranges.before
    elif ranges.by_ends:
        back = ranges.before + ranges.ahead
    edges = [(c.key, *sorted(mirrored(n, ranges.descending) for n in (c.low, c.high))) for c in changes]
    return [Stretch(key, low, high, back, rows) for key, low, high in edges]


def reached_rows(source: Source, ranges: Ranges, order: str, stretches: list[Stretch]) -> tuple[pa.Table, list[pa.Array]]:
    """Rows that are enough to find the windows that may have changed, and the keys of the rows where such can start."""
    done: list[pa.Table] = []
    keys: list[pa.Array] = []
    while stretches:
        tables = [source.read(s) for s in stretches]
        told = [(s, t) for s, t in zip(stretches, tables, strict=True) if ranges.by_ends or not s.is_whole]
        found = iter(source.windows([_with_open(s, t, order, ranges) for s, t in told]))
        longer = []
        for stretch, table in zip(stretches, tables, strict=True):
            at = placed(table[order], ranges.descending)
            windows = next(found) if ranges.by_ends or not stretch.is_whole else None
            span: Span | None = (LEAST, None)
            if windows is not None and not stretch.is_whole:
                span = _span(source, ranges, stretch, at, windows)
            if span is None:
                longer.append(stretch)
                continue
            if windows is not None and ranges.by_ends:
                source.keep(stretch, table, windows, _within(windows.since, span))
            done.append(table)
            keys.append(combined(table[KEY]).filter(pa.array(_within(at, span))))
        stretches = longer
    return pa.concat_tables(done), keys


def _span(source: Source, ranges: Ranges, stretch: Stretch, at: Ints, windows: Windows) -> Span | None:
    """Where windows may have changed; None where the stretch must be longer."""
    if ranges.tumbling:
        return tumbling(ranges, stretch, at, windows, source.stored)
    if ranges.labelled:
        return labelled(ranges, stretch, windows)
    return ended(ranges, stretch, windows) if ranges.by_ends else sliding(ranges, stretch, windows)


def _with_open(stretch: Stretch, rows: pa.Table, order: str, ranges: Ranges) -> pa.Table:
    """The rows, behind those where windows without an end start before them."""
    if stretch.is_whole or stretch.open is None or stretch.first is None:
        return rows
    before = placed(stretch.open[order], ranges.descending) < stretch.first
    return pa.concat_tables([stretch.open.filter(pa.array(before)), rows])


def _within(places: Ints, span: Span) -> Bools:
    found: Bools = (places >= span[0]) & (places <= (GREATEST if span[1] is None else span[1]))
    return found


def _where(found: pa.Table, rows: pa.Table) -> Ints:
    """At which of the rows results stand."""
    return np.asarray(pc.index_in(combined(found[KEY]).cast(pa.string()), value_set=combined(rows[KEY])), np.int64)


class _Stored:
    """The `Source` of one stage in one epoch."""

    def __init__(self, prepared: PreparedStage, context: Context, reach: Reach):
        self.prepared, self.context, self.reach = prepared, context, reach
        self.slot, relation = prepared.slots[0]
        assert self.slot.path is not None
        self.spans = self.starts = Spans(context, relation, self.slot.path, reach.order)
        if reach.start is not None:
            assert prepared.stage.path is not None
            self.starts = Spans(context, prepared.output, prepared.stage.path, reach.start)
        self.ends = Ends(prepared, context, reach) if reach.ranges.by_ends else None
        self.around: list[pa.Table] = []
        self.whole: dict[int, list[pa.Table]] = {}

    def read(self, stretch: Stretch) -> pa.Table:
        """The rows; all of the partition's where it cannot be told from another."""
        if self.ends is not None:
            self._from_ends(self.ends, stretch)
        else:
            stretch.begin = self._begin(stretch)
            stretch.end = self._place(self.spans, stretch, after=True)
        rows = self._rows(stretch)
        if not stretch.is_whole and is_mixed(rows, self.reach.partition):
            stretch.begin = stretch.end = None
            rows = self._rows(stretch)
        return rows

    def _from_ends(self, ends: Ends, stretch: Stretch) -> None:
        """Set the edges, and which windows may have changed, by where the windows ended before."""
        ranges = self.reach.ranges
        if stretch.first is None:
            touched = ends.touched(stretch.key, stretch.low, stretch.high)
            if touched is None:
                return  # from edge to edge
            stretch.first, stretch.closed = touched.first, touched.closed
            if ranges.pairs:
                stretch.open = self.rows_of(touched.open)
        stretch.begin = stretch.first if stretch.first > LEAST else None
        if stretch.begin is not None and (ranges.before or ranges.ahead):
            stretch.begin = self._moved(self.spans, stretch.key, stretch.begin, stretch.back, after=False)
        stretch.end = self._place(self.spans, stretch, after=True) if stretch.closed else None

    def rows_of(self, keys: pa.Array) -> pa.Table:
        """The rows with these keys."""
        return self.context.look_up(self.slot.relation, KEY, keys).table

    def _begin(self, stretch: Stretch) -> int | None:
        """Where the stretch begins. TUMBLING: to find the windows of few rows takes less time than to tell which of them changed."""
        if self.reach.ranges.tumbling and self._moved(self.spans, stretch.key, stretch.low, stretch.ahead, after=False) is None:
            return None
        return self._place(self.starts, stretch, after=False)

    def _place(self, spans: Spans, stretch: Stretch, after: bool) -> int | None:
        number, count = (stretch.high, stretch.ahead) if after else (stretch.low, stretch.back)
        return self._moved(spans, stretch.key, number, count, after)

    def _moved(self, spans: Spans, key: int, number: int, count: int, after: bool) -> int | None:
        falls = self.reach.ranges.descending
        found = spans.place(key, mirrored(number, falls), count, after != falls)
        return None if found is None else mirrored(found, falls)

    def _rows(self, stretch: Stretch) -> pa.Table:
        falls = self.reach.ranges.descending
        begin, end = (None if n is None else mirrored(n, falls) for n in (stretch.begin, stretch.end))
        return self.spans.rows(stretch.key, end, begin) if falls else self.spans.rows(stretch.key, begin, end)

    def windows(self, tables: Sequence[pa.Table]) -> list[Windows]:
        """By one query over all of the tables."""
        if not tables:
            return []
        rows = pa.concat_tables(tables)
        self.context.exchange.put(self.prepared.view(self.slot, "rows"), Rows(rows))
        spark, operator = self.context.exchange.spark, self.prepared.windows[0]
        small = rows.num_rows <= self.context.exchange.small
        reached = window_reach(spark, operator.block, operator.frames(spark), self.reach.ranges, small).toArrow()
        places, ranges = placed(rows[self.reach.order], self.reach.ranges.descending), self.reach.ranges
        kept = np.arange(rows.num_rows)
        if ranges.by_ends and ranges.filtered and (ranges.before or ranges.ahead):
            kept = _where(window_tuples(spark, operator.block, operator.frames(spark), small).toArrow(), rows)
        number = np.repeat(np.arange(len(tables)), [t.num_rows for t in tables])
        owner = number[_where(reached, rows)]
        found = (windows_of(reached.filter(pa.array(owner == n)), ranges) for n in range(len(tables)))
        return [replace(w, tuples=places[kept[number[kept] == n]]) for n, w in enumerate(found)]

    def stored(self, keys: pa.Array) -> pa.Array:
        return combined(self.context.look_up(self.prepared.stage.output, KEY, keys).table[KEY])

    def keep(self, stretch: Stretch, rows: pa.Table, windows: Windows, chosen: Bools) -> None:
        """For `write`; nothing of partitions that cannot be told from each other, which are read whole again."""
        assert self.ends is not None
        if not stretch.is_whole:
            if chosen.any():
                self.around.append(self.ends.rows(stretch.key, rows, windows, chosen, known=False))
            return
        alone = rows.num_rows and not is_mixed(rows, self.reach.partition)
        self.whole[stretch.key] = [self.ends.rows(stretch.key, rows, windows, chosen, known=True)] if alone else []

    def write(self, gone: Sequence[pa.Array]) -> None:
        """Store where the windows end, instead of those that start at rows of these keys."""
        if self.ends is not None:
            keys = combined(pc.unique(pa.chunked_array(list(gone), pa.string())))
            self.ends.write(keys, self.around, list(self.whole), [t for tables in self.whole.values() for t in tables])
