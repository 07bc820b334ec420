"""Finds the windows of a changed partition that a change can affect, to recompute only these.

In: the changes of the rows that WINDOW BY reads, and the stored rows. Out: rows to find windows in, and where these
start. Of each changed partition, a range of rows around the change is read. It is extended until no window outside
depends on the change, at most to the whole partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.engine.rows.epoch_rows import Rows, combined
from belvedere.engine.sql.row_identity import key_text
from belvedere.engine.sql.stage_sql import ROWS
from belvedere.engine.sql.staged_operators import WindowOperator
from belvedere.engine.work import Work
from belvedere.functions.spark_types import quote
from belvedere.kernels.search import GREATEST, LEAST, Bools, Ints
from belvedere.plan.operators.predicate_window import Neighbour, Ranges, WindowForm, reach_of
from belvedere.rules.key_ranges import Spans, changes_of, is_mixed
from belvedere.rules.window_by.scan_range import (
    KeyRange,
    ScannedWindows,
    ScanRange,
    mirrored,
    moving,
    placed,
    tumbling,
    windows_of,
)
from belvedere.schema import KEY

FIRST_ROWS = 8_192
"""Number of rows, over all changed partitions, that are read first before and after the changes.

Shorter partitions are read completely, which saves the query for the reach of their windows.
"""
MIN_ROWS = 64


@dataclass(frozen=True)
class Reach:
    """The data for finding the reach of a change in the store. `ranges` are those of the stage's block.

    `order` is ORDER BY's first key in the looked-up rows, `partition` the columns of PARTITION BY there. `start` is the
    column of the output with the order key of each window's start (TUMBLING).
    """

    ranges: Ranges
    order: str
    partition: tuple[str, ...]
    start: str | None


class StoredWindows(Protocol):
    """The stored rows, and the windows over some of them."""

    def read(self, scan_range: ScanRange) -> pa.Table:
        """Read the rows of the range, whose edges are set."""

    def windows(self, tables: Sequence[pa.Table]) -> list[ScannedWindows]:
        """Return the reach of the windows in each of the tables."""

    def stored(self, keys: pa.Array) -> pa.Array:
        """Return the keys that had a window before the change."""


def window_neighbourhood(
    work: Work, delta: pa.Table, reach: Reach, path: str
) -> tuple[pa.Table, list[pa.Array]] | None:
    """Return the rows from which the changed windows can be found, and the keys of the rows where they can start.

    Return None if all rows of the changed partitions must be read. `path` is the output's access path. Raise TooMuch if
    the driver has no room.
    """
    slot, _ = work.slots[0]
    assert slot.path is not None
    stretches = first_stretches(delta, slot.path, reach.order, reach.ranges)
    if stretches is None:
        return None
    return affected_rows(_Stored(work, reach, path), reach.ranges, reach.order, stretches)


def first_stretches(delta: pa.Table, path: str, order: str, ranges: Ranges) -> list[ScanRange] | None:
    """Return the first ranges of the changed partitions, or None if all of their rows must be read."""
    changes = changes_of(delta, path, order)
    if changes is None:
        return None
    rows = max(MIN_ROWS, FIRST_ROWS // max(1, len(changes)))
    # the tuple after a start may have changed; the second last start before the change has the last one after it
    back = (
        1 + (Neighbour.NEXT in ranges.neighbours) + 2 * (Neighbour.PREVIOUS in ranges.neighbours)
        if ranges.form is WindowForm.TUMBLING
        else rows
    )
    edges = [(c.key, *sorted(mirrored(n, ranges.descending) for n in (c.low, c.high))) for c in changes]
    return [ScanRange(key, low, high, back, rows) for key, low, high in edges]


def affected_rows(
    source: StoredWindows, ranges: Ranges, order: str, stretches: list[ScanRange]
) -> tuple[pa.Table, list[pa.Array]]:
    """Return the rows from which the changed windows can be found, and the keys of the rows where they can start."""
    done: list[pa.Table] = []
    keys: list[pa.Array] = []
    while stretches:
        tables = [source.read(s) for s in stretches]
        found = iter(source.windows([t for s, t in zip(stretches, tables, strict=True) if not s.is_whole]))
        longer = []
        for scan_range, table in zip(stretches, tables, strict=True):
            at = placed(table[order], ranges.descending)
            span = (LEAST, None) if scan_range.is_whole else _span(source, ranges, scan_range, at, next(found))
            if span is None:
                longer.append(scan_range)
                continue
            done.append(table)
            keys.append(combined(table[KEY]).filter(pa.array(_within(at, span))))
        stretches = longer
    return pa.concat_tables(done), keys


def _span(
    source: StoredWindows, ranges: Ranges, scan_range: ScanRange, at: Ints, windows: ScannedWindows
) -> KeyRange | None:
    """Return the range in which windows may have changed, or None if more rows must be read."""
    if ranges.form is WindowForm.TUMBLING:
        return tumbling(ranges, scan_range, at, windows, source.stored)
    return moving(ranges, scan_range, windows)


def _within(places: Ints, span: KeyRange) -> Bools:
    found: Bools = (places >= span[0]) & (places <= (GREATEST if span[1] is None else span[1]))
    return found


class _Stored:
    """The `StoredWindows` of one stage in one epoch."""

    def __init__(self, work: Work, reach: Reach, path: str):
        self.work, self.reach = work, reach
        slot, relation = work.slots[0]
        assert slot.path is not None
        self.spans = self.starts = Spans(work, relation, slot.path, reach.order)
        if reach.start is not None:
            self.starts = Spans(work, work.output, path, reach.start)

    def read(self, scan_range: ScanRange) -> pa.Table:
        """Return the rows, or all rows of the partition if it cannot be distinguished from another one."""
        scan_range.begin = self._begin(scan_range)
        scan_range.end = self._place(self.spans, scan_range, after=True)
        rows = self._rows(scan_range)
        if not scan_range.is_whole and is_mixed(rows, self.reach.partition):
            scan_range.begin = scan_range.end = None
            rows = self._rows(scan_range)
        return rows

    def _begin(self, scan_range: ScanRange) -> int | None:
        """Return the start of the range.

        TUMBLING: for few rows, finding all windows takes less time than finding the changed ones.
        """
        if (
            self.reach.ranges.form is WindowForm.TUMBLING
            and self._moved(self.spans, scan_range.key, scan_range.low, scan_range.ahead, after=False) is None
        ):
            return None
        return self._place(self.starts, scan_range, after=False)

    def _place(self, spans: Spans, scan_range: ScanRange, after: bool) -> int | None:
        number, count = (scan_range.high, scan_range.ahead) if after else (scan_range.low, scan_range.back)
        return self._moved(spans, scan_range.key, number, count, after)

    def _moved(self, spans: Spans, key: int, number: int, count: int, after: bool) -> int | None:
        falls = self.reach.ranges.descending
        found = spans.place(key, mirrored(number, falls), count, after != falls)
        return None if found is None else mirrored(found, falls)

    def _rows(self, scan_range: ScanRange) -> pa.Table:
        falls = self.reach.ranges.descending
        begin, end = (None if n is None else mirrored(n, falls) for n in (scan_range.begin, scan_range.end))
        return self.spans.rows(scan_range.key, end, begin) if falls else self.spans.rows(scan_range.key, begin, end)

    def windows(self, tables: Sequence[pa.Table]) -> list[ScannedWindows]:
        """Find the windows by one query over all of the tables."""
        if not tables:
            return []
        rows = pa.concat_tables(tables)
        scan = self.work.slots[0][0].name
        self.work.put(scan, ROWS, Rows(rows))
        self.work.put(scan, "reach", reach_rows(self.work, self.reach.ranges, self.reach.ranges.column, rows.num_rows))
        node = _operator(self.work).node
        names = ", ".join(map(quote, reach_of(node, self.reach.ranges, self.reach.ranges.column).shown))
        found = self.work.compute.compute(
            f"SELECT {names}, {key_text(node.schema)} AS {quote(KEY)} FROM {self.work.view(scan, 'reach')}"
        )
        reached = found.table
        at = pc.index_in(combined(reached[KEY]).cast(pa.string()), value_set=combined(rows[KEY]))
        owner = np.repeat(np.arange(len(tables)), [t.num_rows for t in tables])[np.asarray(at, np.int64)]
        return [windows_of(reached.filter(pa.array(owner == n)), self.reach.ranges) for n in range(len(tables))]

    def stored(self, keys: pa.Array) -> pa.Array:
        return combined(self.work.look_up(self.work.output.name, KEY, keys).table[KEY])


def _operator(work: Work) -> WindowOperator:
    operator = work.prepared.windows[0]
    assert isinstance(operator, WindowOperator)
    return operator


def reach_rows(work: Work, ranges: Ranges | None, column: str, count: int) -> Rows:
    """Return the reach of the windows over the present view of the slot. `count` is the number of its rows."""
    operator = _operator(work)
    found = work.compute.windows(
        replace(operator, node=reach_of(operator.node, ranges, column)), count <= work.compute.small
    )
    return Rows(frame=found.frame, schema=found.schema, count=count)  # an approximate number
