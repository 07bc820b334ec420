"""Panes of `timeInterval` windows.

In: rows by partition and arrival with their event times and the watermark at their arrival, and the watermarks after
them. Out: the firings of panes. A pane fires at the first watermark that reaches its end, and again at the next
watermark after late rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from belvedere.kernels.search import Bools, Ints
from belvedere.kernels.spl.window_rows import Firings
from belvedere.plan.operators.spl_windows import Interval


@dataclass(frozen=True)
class PaneRows:
    """Rows by partition, in each by arrival; `under` is the watermark at the arrival."""

    partition: Ints
    number: Ints
    time: Ints
    under: Ints


@dataclass(frozen=True)
class PanesFound:
    """Firings, whose contents are ranges of `members`, and the rows that panes still need."""

    firings: Firings
    members: Ints
    kept: Bools


def find_panes(kind: Interval, rows: PaneRows, before: int, watermarks: Ints) -> PanesFound:
    """Return the firings at each of the increasing `watermarks`, which are greater than `before`.

    A row that is more than `discard` below the watermark at its arrival belongs to no pane.
    """
    row, pane = _members(kind, rows)
    start = pane * kind.period + kind.offset
    end = start + kind.duration
    due = np.maximum(rows.under[row] + 1, end)
    """The least watermark at which the pane fires for the row."""
    order = np.lexsort((rows.number[row], start, rows.partition[row]))
    row, start, end, due = row[order], start[order], end[order], due[order]
    partition = rows.partition[row]
    begins = np.ones(len(row), np.bool_)
    begins[1:] = (partition[1:] != partition[:-1]) | (start[1:] != start[:-1])
    groups = begins.copy()
    groups[1:] |= due[1:] != due[:-1]
    last = np.append(np.flatnonzero(groups)[1:], len(row)) - 1
    first = np.flatnonzero(begins)[np.cumsum(begins)[last] - 1] if len(row) else last[:0]
    last = last[: len(first)]
    group = np.cumsum(groups)[last] - 1 if len(row) else last
    index = group - (np.cumsum(groups)[first] - 1) if len(row) else last
    step = np.searchsorted(watermarks, due[last])
    fires = (due[last] > before) & (step < len(watermarks))
    last, first, index, step = last[fires], first[fires], index[fires], step[fires]
    firings = Firings(
        partition[last],
        watermarks[step],
        first,
        last,
        np.zeros(len(last), np.bool_),
        rows.number[row[first]],
        start[last],
        index,
    )
    now = int(watermarks[-1]) if len(watermarks) else before
    return PanesFound(firings.in_order(), row, _needed(kind, rows, now))


def _members(kind: Interval, rows: PaneRows) -> tuple[Ints, Ints]:
    """Return pairs of row and pane number for each pane that contains the row."""
    high = (rows.time - kind.offset) // kind.period
    low = (rows.time - kind.offset - kind.duration) // kind.period + 1
    times = np.where(in_time(kind, rows.time, rows.under), np.maximum(high - low + 1, 0), 0)
    row = np.repeat(np.arange(len(rows.time), dtype=np.int64), times)
    begun = np.cumsum(times) - times
    return row, np.arange(len(row)) - np.repeat(begun - low, times)


def in_time(kind: Interval, time: Ints, under: Ints) -> Bools:
    """Return whether rows are in time for any pane, by the watermark at their arrival."""
    return time >= np.where(under < np.iinfo(np.int64).min + kind.discard, np.iinfo(np.int64).min, under - kind.discard)


def _needed(kind: Interval, rows: PaneRows, now: int) -> Bools:
    """Return the rows whose last pane is not yet closed at a watermark."""
    high = (rows.time - kind.offset) // kind.period
    start = high * kind.period + kind.offset
    inside = rows.time < start + kind.duration
    return inside & in_time(kind, rows.time, rows.under) & (start + kind.duration + kind.discard > now)
