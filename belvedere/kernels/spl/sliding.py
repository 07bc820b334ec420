"""Sliding windows with any eviction and trigger policy, if rows leave in their order of arrival.

In: `WindowRows` and their `Episodes`. Out: the firings, the retained rows, and the state of each episode afterwards.
The cost does not depend on the size of the windows: contents are consecutive rows, found by search.
"""

from __future__ import annotations

import numpy as np

from belvedere.kernels.search import Bools, Ints, first_above, lower_bound
from belvedere.kernels.spl.episodes import Episodes
from belvedere.kernels.spl.tumbling import by_rows, by_time, chains, following
from belvedere.kernels.spl.window_rows import NEVER, Firings, Partitions, WindowRows
from belvedere.plan.operators.spl_windows import Count, Delta, Sliding, Time


def falls(codes: Ints, of_row: Ints) -> Bools:
    """Return a mask of the values below the previous value of the same partition."""
    found = np.zeros(len(codes), np.bool_)
    found[1:] = (codes[1:] < codes[:-1]) & (of_row[1:] == of_row[:-1])
    return found


class Slide:
    """The sliding windows of all episodes in one call."""

    def __init__(self, kind: Sliding, rows: WindowRows, parts: Episodes, ticked: int, now: int):
        """Prepare one call. Timers up to `ticked` have run already."""
        self.eviction, self.trigger = kind.eviction, kind.trigger
        self.rows, self.parts, self.ticked, self.now = rows, parts, ticked, now
        self.place = np.arange(len(rows), dtype=np.int64)
        self.begin = parts.begin[parts.of_row]
        self.start = self._starts()

    @property
    def in_order(self) -> bool:
        """Return whether rows leave in their order of arrival. For `delta` the values must not decrease."""
        return self.rows.evicting is None or not falls(self.rows.evicting.codes, self.parts.of_row).any()

    def _starts(self) -> Ints:
        """Return the first row in the contents just after each row, without eviction by time."""
        match self.eviction:
            case Count(rows=size):
                return np.maximum(self.begin, self.rows.first_after(self.rows.through - size))
            case Delta():
                assert self.rows.evicting is not None
                return lower_bound(self.rows.evicting.limits, self.begin, self.place, self.rows.evicting.codes, False)
            case Time():
                return self.begin

    def _first_at(self, place: Ints, at: Ints) -> Ints:
        """Return the first row of the contents that end at `place`, at a time."""
        if not isinstance(self.eviction, Time):
            return self.start[place]
        return lower_bound(self.rows.at, self.begin[place], place, at - self.eviction.micros, False)

    def _full(self) -> Bools:
        """Return whether the window has been full at some time up to just after each row."""
        known = self.parts.known.full[self.parts.of_row]
        match self.eviction:
            case Count(rows=size):
                return known | (self.rows.through - self.rows.before(self.begin) >= size)
            case Delta():
                return known | (self.start > self.begin)
            case Time():
                return np.ones(len(self.rows), np.bool_)

    def firings(self, incomplete: bool) -> Firings:
        """Return all firings; those of windows that were never full only if `incomplete`."""
        match self.trigger:
            case Count(rows=every):
                found, after = self._by_count(every)
            case Delta():
                found, after = self._by_delta()
            case Time(micros=period):
                found, after = self._by_timer(period)
        there = found.first <= found.last
        if not incomplete:
            there &= self._full()[after]
        return found.take(there)

    def _by_count(self, every: int) -> tuple[Firings, Ints]:
        """Return the firings after every `every` rows of the partition, including that row."""
        new = self.parts.new[self.parts.of_row]
        count = self.parts.known.since[self.parts.of_row] + self.place - new + 1
        trigger = np.flatnonzero((self.place >= new) & (count % every == 0))
        return by_rows(self.rows, trigger, self._first_at(trigger, self.rows.at[trigger]), trigger), trigger

    def _triggers(self) -> tuple[Ints, Ints]:
        """For trigger `delta`, return the triggering rows and the last reference of each episode (NEVER: same)."""
        assert self.rows.triggering is not None
        parts, values = self.parts, self.rows.triggering
        known = parts.known.limit != NEVER
        first = first_above(values.codes, parts.new, parts.known.limit) if len(self.rows) else parts.new
        begin = np.where(known, np.minimum(first, parts.end), parts.new)
        chosen, before = chains(following(values, parts), begin, parts.end)
        last = np.full(len(parts.begin), NEVER, np.int64)
        np.maximum.at(last, parts.of_row[chosen], chosen)
        starts = chosen == before
        return chosen[~starts | known[parts.of_row[chosen]]], last

    def _by_delta(self) -> tuple[Firings, Ints]:
        """Return the firings before each row that is more than the step above the reference, without that row."""
        trigger, self.references = self._triggers()
        before = np.maximum(trigger - 1, self.begin[trigger])
        first = np.where(trigger > before, self._first_at(before, self.rows.at[trigger]), trigger)
        return by_rows(self.rows, trigger, first, trigger - 1), before

    def _by_timer(self, period: int) -> tuple[Firings, Ints]:
        """Return the firings at each multiple of the period, with the rows held at that time."""
        parts = self.parts
        since = np.maximum(self.rows.at, self.ticked)
        until = np.minimum(np.minimum(parts.next_at, self.now), parts.dies[parts.of_row])
        if isinstance(self.eviction, Time):
            until = np.minimum(until, self.rows.at + self.eviction.micros)
        low, high = since // period, until // period
        times = np.maximum(high - low, 0)
        row = np.repeat(self.place, times)
        begun = np.cumsum(times) - times
        at = (np.repeat(low - begun, times) + np.arange(len(row)) + 1) * period
        first = self._first_at(row, at)
        some = first <= row
        return by_time(self.rows, at[some], first[some], row[some]), row[some]

    def retained(self) -> Bools:
        """Return the rows that windows hold at the end."""
        last = self.parts.is_last & (self.parts.dies >= self.now)
        if isinstance(self.eviction, Time):
            return last[self.parts.of_row] & (self.rows.at >= self.now - self.eviction.micros)
        return last[self.parts.of_row] & (self.place >= self.start[self.parts.end - 1][self.parts.of_row])

    def known(self) -> Partitions:
        """Return the state of each episode at the end, without its last insertion."""
        parts, before = self.parts, self.parts.known
        known = before.take(slice(None))
        if isinstance(self.trigger, Count):
            known.since = (before.since + parts.end - parts.new) % self.trigger.rows
        if len(self.rows):
            known.full = before.full | self._full()[parts.end - 1]
        if isinstance(self.trigger, Delta):
            assert self.rows.triggering is not None
            moved = self.references != NEVER
            known.limit[moved] = self.rows.triggering.limits[self.references[moved]]
        return known
