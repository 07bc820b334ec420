"""The range of a partition's rows around a change that contains all windows that depend on the change.

In: the order keys of the rows in a range, as integers that never decrease from row to row (`mirrored` if ORDER BY
descends), and the reach of the windows in it. Out: the order keys between which windows may have changed, or None if
more rows must be read. `belvedere.sqlpp.windows.ranges` gives the reasons.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.kernels.search import GREATEST, LEAST, Bools, Ints
from belvedere.plan.operators.predicate_window import AFTER, FROM, LABEL, TO, Neighbour, Ranges, WindowEnd, WindowForm
from belvedere.schema import KEY

KeyRange = tuple[int, int | None]
"""The least and the greatest order key of what may have changed; None = to the end."""
LONGER = 8


@dataclass
class ScanRange:
    """The rows of one partition that are read: `back` rows before the change in [`low`, `high`] and `ahead` rows after
    it.

    `begin` and `end` are the (mirrored) order keys of the first and the last row; None = the partition's edge.
    TUMBLING: `back` counts windows.
    """

    key: int
    low: int
    high: int
    back: int
    ahead: int
    begin: int | None = None
    end: int | None = None

    @property
    def is_whole(self) -> bool:
        return self.begin is None and self.end is None


@dataclass(frozen=True)
class ScannedWindows:
    """The windows in one range in the order of their starts: order keys of start, end and the tuple after it, LEAST if
    there is none.

    `complete`: no row after the range can change the window. `keys` are the `_key`s of the rows at the starts. With
    LABEL, `since` and `keys` are of the labels, and `starts` has the starts.
    """

    since: Ints
    to: Ints
    after: Ints
    complete: Bools
    keys: pa.Array
    starts: Ints = field(default_factory=lambda: np.zeros(0, np.int64))


def numbers(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return order keys as integers, in their order."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    return column.cast(pa.int64())


def mirrored(number: int, descending: bool) -> int:
    """Convert an order key to a number that never decreases from row to row, and back."""
    return ~number if descending else number


def placed(column: pa.ChunkedArray | pa.Array, descending: bool, nowhere: int | None = None) -> Ints:
    """Return order keys as non-decreasing numbers; NULL is `nowhere`, or the edge where it sorts: last if they
    descend.
    """
    keys = numbers(column)
    edge = nowhere if nowhere is not None else GREATEST if descending else LEAST
    values: Ints = np.asarray(pc.fill_null(keys, 0), np.int64)
    found: Ints = np.where(np.asarray(pc.is_null(keys)), edge, ~values if descending else values)
    return found


def windows_of(table: pa.Table, ranges: Ranges) -> ScannedWindows:
    """Return the windows from the result of `reaches` over one range, with `_key`."""
    falls = ranges.descending
    by = LABEL if ranges.form is WindowForm.LABELLED else FROM
    table = table.take(pa.array(np.argsort(placed(table[by], falls), kind="stable")))
    since, keys = placed(table[by], falls), table[KEY].combine_chunks().cast(pa.string())
    if TO not in table.column_names:  # without END a window is complete with the next one's start
        return ScannedWindows(since, since, since, np.arange(len(since)) < len(since) - 1, keys)
    to, after = placed(table[TO], falls, LEAST), placed(table[AFTER], falls, LEAST)
    complete = (to > LEAST) & (after > LEAST) if Neighbour.NEXT in ranges.neighbours else to > LEAST
    if ranges.form is not WindowForm.LABELLED:
        return ScannedWindows(
            since,
            to,
            after if Neighbour.NEXT in ranges.neighbours or ranges.form is WindowForm.TUMBLING else to,
            complete,
            keys,
            starts=since,
        )
    starts = placed(table[FROM], falls, LEAST)
    if Neighbour.NEXT in ranges.neighbours:  # the tuple after the label matters too
        after = np.maximum(after, np.append(since[1:], GREATEST)[: len(since)])
    complete = (complete | (ranges.end is WindowEnd.BEFORE_LABEL)) & (after < GREATEST)
    return ScannedWindows(since, np.maximum(to, since), after, complete, keys, starts=starts)


def moving(ranges: Ranges, scan_range: ScanRange, windows: ScannedWindows) -> KeyRange | None:
    """Return the changed range for SLIDING or LABEL.

    The range goes from the last window that ends before the change to the change itself, or to the first label whose
    window begins after it. `windows` has one window for every tuple, by conditions on END that close all earlier
    windows too. Return None if one in between ends after the range.
    """
    since, starts = windows.since, windows.starts
    closed = windows.complete & (np.maximum(windows.to, windows.after) < scan_range.low)
    if scan_range.begin is not None and (ranges.form is WindowForm.LABELLED or Neighbour.PREVIOUS in ranges.neighbours):
        # unread tuples may begin these windows, or precede them
        unsure = starts <= since.min(initial=GREATEST)
        closed &= since > since[unsure].max(initial=LEAST)
    begin = int(since[closed].max(initial=LEAST))
    last: int | None = scan_range.high
    if ranges.form is WindowForm.LABELLED or Neighbour.PREVIOUS in ranges.neighbours:
        behind = since[since > scan_range.high]
        if ranges.form is WindowForm.LABELLED:
            behind = behind[starts[since > scan_range.high] > behind.min(initial=GREATEST)]
        last = int(behind.min()) if len(behind) else None
    proven = scan_range.begin is None or bool(closed.any())
    if not proven:
        scan_range.back *= LONGER
    if scan_range.end is not None:
        inside = (since >= begin) & (since <= (GREATEST if last is None else last))
        if last is None or not windows.complete[inside].all():
            scan_range.ahead *= LONGER
            proven = False
    return (begin, last) if proven else None


def tumbling(
    ranges: Ranges, scan_range: ScanRange, at: Ints, windows: ScannedWindows, stays: Callable[[pa.Array], pa.Array]
) -> KeyRange | None:
    """Return the range from a stored window's start before the change to the first unchanged start after it.

    `at` are the order keys of the range's rows. `stays` selects the keys of stored windows.
    """
    begin = _resumed(ranges, scan_range, at, windows, stays)
    if begin is None or scan_range.end is None:
        return None if begin is None else (begin, None)
    sure = windows.since[~windows.complete].min(initial=GREATEST)
    seen = np.maximum(windows.since, np.maximum(windows.to, windows.after)).max(initial=LEAST)
    after = scan_range.high
    if Neighbour.PREVIOUS in ranges.neighbours:  # the tuple before the start has not changed
        after = int(windows.since[windows.since > scan_range.high].min(initial=GREATEST))
    behind = np.flatnonzero((windows.since > after) & (windows.since < min(sure, seen)))
    kept = behind[_stored(windows, behind, stays)]
    if len(kept):
        return begin, int(windows.since[kept[0]])
    scan_range.ahead *= LONGER
    return None


def _resumed(
    ranges: Ranges, scan_range: ScanRange, at: Ints, windows: ScannedWindows, stays: Callable[[pa.Array], pa.Array]
) -> int | None:
    """Return the start of a window that the change cannot affect, where the search continues as before.

    Return None if more rows must be read.

    This is the start of the range, or with PREV, whose value is not known there, a later window that is both found and
    stored.
    """
    if scan_range.begin is None:
        return LEAST
    found = np.array([scan_range.begin])
    if Neighbour.PREVIOUS in ranges.neighbours:
        places = np.flatnonzero((windows.since < scan_range.low) & (windows.since > at.min(initial=GREATEST)))
        if Neighbour.NEXT in ranges.neighbours:  # the tuple after the last start may be a changed one
            places = places[:-1]
        found = windows.since[places[_stored(windows, places, stays)]]
    for place in found[::-1]:
        if np.count_nonzero(at == place) == 1:  # ties with the start might precede it
            return int(place)
    scan_range.back *= LONGER
    return None


def _stored(windows: ScannedWindows, places: Ints, stays: Callable[[pa.Array], pa.Array]) -> Bools:
    """Return a mask of the windows that are stored."""
    keys = windows.keys.take(pa.array(places))
    return np.asarray(pc.is_in(keys, value_set=stays(keys)), np.bool_)
