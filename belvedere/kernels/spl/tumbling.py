"""Tumbling windows by `count`, `time`, `delta` and `punct()`.

In: `WindowRows` and their `Episodes`. Out: the firings and the retained rows. A window's contents are consecutive rows.
"""

from __future__ import annotations

import numpy as np

from belvedere.kernels.search import Bools, Ints, first_above, follow
from belvedere.kernels.spl.episodes import Episodes
from belvedere.kernels.spl.window_rows import Firings, Steps, WindowRows
from belvedere.plan.operators.spl_windows import Count, Delta, Policy, Punctuation, Time


def tumble(eviction: Policy | Punctuation, rows: WindowRows, parts: Episodes, now: int) -> tuple[Firings, Bools]:
    """Return the firings up to the time `now`, and the rows that remain for later ones."""
    match eviction:
        case Count(rows=size):
            return _by_count(size, rows, parts)
        case Time(micros=period):
            return _by_time(period, rows, parts, now)
        case Delta():
            assert rows.triggering is not None
            return _by_delta(rows.triggering, rows, parts)
        case Punctuation():
            return _by_mark(rows, parts)


def _by_count(size: int, rows: WindowRows, parts: Episodes) -> tuple[Firings, Bools]:
    """Tumble by count. The row that fills the window belongs to it."""
    if size == 0:
        return by_rows(rows, *(np.zeros(0, np.int64),) * 3), np.zeros(len(rows), np.bool_)
    number = rows.through - rows.before(parts.begin)[parts.of_row]
    closing = np.flatnonzero(number % size == 0)
    kept = number > (number[parts.end - 1] // size * size)[parts.of_row]
    return by_rows(rows, closing, rows.first_after(rows.through[closing] - size), closing), kept & parts.is_last[
        parts.of_row
    ]


def _by_time(period: int, rows: WindowRows, parts: Episodes, now: int) -> tuple[Firings, Bools]:
    """Tumble by time. A timer at multiples of the period since 1970 ends all windows; a row at that time is in the next
    one."""
    due = (rows.at // period + 1) * period
    first = np.ones(len(rows), np.bool_)
    first[1:] = (due[1:] != due[:-1]) | (parts.of_row[1:] != parts.of_row[:-1])
    begin = np.flatnonzero(first)
    last = np.append(begin[1:], len(rows)) - 1
    fires = (due[begin] <= now) & (due[begin] <= parts.dies[parts.of_row[begin]]) if len(rows) else first
    begin, last = begin[fires], last[fires]
    firings = by_time(rows, due[begin], begin, last)
    return firings, (due > now) & parts.is_last[parts.of_row]


def _by_delta(values: Steps, rows: WindowRows, parts: Episodes) -> tuple[Firings, Bools]:
    """Tumble by delta. A row that is more than the step above the oldest one begins the next window."""
    jumps = following(values, parts)
    chosen, begun = chains(jumps, parts.begin, parts.end)
    kept = np.arange(len(rows)) >= _last_begun(chosen, parts)[parts.of_row]
    closing = chosen[begun != chosen]
    before = begun[begun != chosen]
    return by_rows(rows, closing, before, closing - 1), kept & parts.is_last[parts.of_row]


def _last_begun(chosen: Ints, parts: Episodes) -> Ints:
    """Return the first row of the last window of each episode."""
    last = parts.begin.copy()
    np.maximum.at(last, parts.of_row[chosen], chosen)
    return last


def _by_mark(rows: WindowRows, parts: Episodes) -> tuple[Firings, Bools]:
    """Tumble by punctuation. All rows of one firing of the input view form a window, which fires on their arrival."""
    assert rows.marks is not None
    first = np.ones(len(rows), np.bool_)
    first[1:] = (rows.marks[1:] != rows.marks[:-1]) | (parts.of_row[1:] != parts.of_row[:-1])
    begin = np.flatnonzero(first)
    last = np.append(begin[1:], len(rows)) - 1
    return by_rows(rows, last[: len(begin)], begin, last[: len(begin)]), np.zeros(len(rows), np.bool_)


def following(values: Steps, parts: Episodes) -> Ints:
    """Return for each row the next row of its episode that is more than the step above it; the end of the episode for
    none."""
    size = len(values.codes)
    end = parts.end[parts.of_row]
    return np.minimum(first_above(values.codes, np.arange(1, size + 1), values.limits), end) if size else end


def chains(jumps: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Follow the jumps from the first row of each episode.

    Return the rows, each with the one before (itself for the first).
    """
    chosen, before = [], []
    for low, high in zip(begin.tolist(), end.tolist(), strict=True):
        if low >= high:
            continue
        found = follow(jumps[low:high] - low) + low
        chosen.append(found)
        before.append(np.concatenate([found[:1], found[:-1]]))
    nothing = np.zeros(0, np.int64)
    return (np.concatenate(chosen), np.concatenate(before)) if chosen else (nothing, nothing)


def by_rows(rows: WindowRows, trigger: Ints, first: Ints, last: Ints) -> Firings:
    """Return firings that rows trigger."""
    return Firings(
        rows.partition[trigger], rows.at[trigger], first, last, np.ones(len(trigger), np.bool_), rows.number[trigger]
    )


def by_time(rows: WindowRows, at: Ints, first: Ints, last: Ints) -> Firings:
    """Return firings that a timer triggers; their contents are not empty."""
    return Firings(rows.partition[last], at, first, last, np.zeros(len(at), np.bool_), rows.number[first])
