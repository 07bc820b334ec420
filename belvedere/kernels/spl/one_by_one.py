"""Windows evaluated row by row, for clauses that the faster kernels do not support.

These clauses forget partitions by their number or rows, fire on eviction, or evict in another order than arrival.

In: `WindowRows`, the state of the partitions. Out: the same as the other kernels return.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np

from belvedere.kernels.spl.window_rows import NEVER, Firings, Found, Partitions, WindowRows
from belvedere.plan.operators.spl_windows import (
    Count,
    Delta,
    PartitionAge,
    PartitionCount,
    Policy,
    Punctuation,
    Sliding,
    SplWindow,
    Time,
    Tumbling,
    TupleCount,
)


@dataclass
class PartitionWindow:
    """The state of one partition."""

    rows: list[int] = field(default_factory=list)
    since: int = 0
    limit: int = NEVER
    full: bool = False
    last: int = NEVER
    touched: int = -1


class Simulation:
    """One call: the rows of all partitions in order of arrival."""

    def __init__(self, window: SplWindow, rows: WindowRows, ticked: int, now: int):
        assert isinstance(window.kind, Tumbling | Sliding)
        self.window, self.rows = window, rows
        self.eviction: Policy | Punctuation = window.kind.eviction
        self.trigger: Policy | Punctuation = (
            window.kind.trigger if isinstance(window.kind, Sliding) else window.kind.eviction
        )
        self.slides = isinstance(window.kind, Sliding)
        self.ticked, self.now = ticked, now
        self.at = rows.at.tolist()
        self.partition = rows.partition.tolist()
        self.number = rows.number.tolist()
        self.parts: OrderedDict[int, PartitionWindow] = OrderedDict()
        """Partitions in order of their last insertion."""
        self.held = 0
        self.mark: int | None = None
        self.fired: list[tuple[int, int, bool, int, list[int]]] = []

    def load(self, known: Partitions) -> None:
        """Load the initial state."""
        order = np.lexsort((known.touched,))
        for part in order.tolist():
            if known.last[part] != NEVER:
                self.parts[part] = PartitionWindow(
                    [],
                    int(known.since[part]),
                    int(known.limit[part]),
                    bool(known.full[part]),
                    int(known.last[part]),
                    int(known.touched[part]),
                )
        for row in np.flatnonzero(~self.rows.is_new).tolist():
            self.parts[self.partition[row]].rows.append(row)
            self.held += 1

    def run(self) -> None:
        """Process all new rows, and all timers up to now."""
        new = np.flatnonzero(self.rows.is_new)
        for row in new[np.argsort(self.rows.number[new])].tolist():
            self._tick(self.at[row])
            self._mark(row)
            self._age(self.at[row], row)
            self._insert(row)
            self._forget(row)
        self._tick(self.now)
        self._mark(None)

    # --- events

    def _tick(self, until: int) -> None:
        """Run the timers up to a time."""
        if not isinstance(self.trigger, Time):
            return
        period = self.trigger.micros
        tick = max(self.ticked, min((self.at[h.rows[-1]] for h in self.parts.values() if h.rows), default=until))
        self.ticked = max(self.ticked, until)
        for at in range((tick // period + 1) * period, until + 1, period):
            self._age(at, None)
            for held in self.parts.values():
                self._expire(held, at)
            for part in self._by_oldest():
                self._fire(part, at, None)
            if not any(h.rows for h in self.parts.values()):
                return

    def _mark(self, row: int | None) -> None:
        """Process a punctuation before a row, or at the end."""
        if self.rows.marks is None:
            return
        mark = None if row is None else int(self.rows.marks[row])
        if mark != self.mark and self.held:
            at = max(h.last for h in self.parts.values())
            self._age(at, None)
            for part in self._by_oldest():
                self._fire(part, at, None)
        self.mark = mark

    def _by_oldest(self) -> list[int]:
        """Return the partitions that hold rows, ordered by their oldest row."""
        return [p for _, p in sorted((self.number[h.rows[0]], p) for p, h in self.parts.items() if h.rows)]

    def _insert(self, row: int) -> None:
        part, at = self.partition[row], self.at[row]
        held = self.parts.setdefault(part, PartitionWindow())
        self.parts.move_to_end(part)
        values = self.rows.triggering
        if isinstance(self.trigger, Delta):
            assert values is not None
            oldest = int(values.limits[held.rows[0]]) if held.rows else NEVER
            reference = held.limit if self.slides else oldest
            exceeded = reference != NEVER and int(values.codes[row]) > reference
            if exceeded:
                self._expire(held, at)
                self._fire(part, at, row)
            if self.slides and (exceeded or held.limit == NEVER):
                held.limit = int(values.limits[row])
        self._evict(held, row)
        if not (isinstance(self.eviction, Count) and self.eviction.rows == 0):
            held.rows.append(row)
            self.held += 1
        held.last, held.touched = at, self.number[row]
        if isinstance(self.eviction, Count) and len(held.rows) >= self.eviction.rows:
            held.full = True
        if isinstance(self.trigger, Count):
            held.since += self.slides
            if (held.since if self.slides else len(held.rows)) == self.trigger.rows:
                self._expire(held, at)
                self._fire(part, at, row)
                held.since = 0

    def _evict(self, held: PartitionWindow, row: int) -> None:
        """Evict rows of a sliding window before a row is inserted."""
        if not self.slides:
            return
        if isinstance(self.eviction, Count):
            while held.rows and len(held.rows) >= self.eviction.rows:
                held.rows.pop(0)
                self.held -= 1
        elif isinstance(self.eviction, Delta):
            values = self.rows.evicting
            assert values is not None
            code = int(values.codes[row])
            kept = [r for r in held.rows if code <= int(values.limits[r])]
            held.full |= len(kept) < len(held.rows)
            self.held -= len(held.rows) - len(kept)
            held.rows = kept

    def _expire(self, held: PartitionWindow, at: int) -> None:
        if self.slides and isinstance(self.eviction, Time):
            kept = [r for r in held.rows if self.at[r] >= at - self.eviction.micros]
            self.held -= len(held.rows) - len(kept)
            held.rows = kept

    def _fire(self, part: int, at: int, row: int | None) -> None:
        held = self.parts[part]
        full = not self.slides or held.full or self.window.incomplete or isinstance(self.eviction, Time)
        if held.rows and full:
            self._note(part, at, row)
        if not self.slides:
            self._empty(held)

    def _note(self, part: int, at: int, row: int | None) -> None:
        rows = list(self.parts[part].rows)
        self.fired.append((part, at, row is not None, self.number[rows[0] if row is None else row], rows))

    def _empty(self, held: PartitionWindow) -> None:
        self.held -= len(held.rows)
        held.rows = []

    # --- partitions

    def _age(self, at: int, row: int | None) -> None:
        """Before an event, forget partitions that received no row for too long."""
        if not isinstance(self.window.forgetting, PartitionAge):
            return
        while self.parts and next(iter(self.parts.values())).last + self.window.forgetting.micros < at:
            self._leave(at, row)

    def _forget(self, row: int) -> None:
        """After a row, forget partitions while their number or rows exceed the limit."""
        match self.window.forgetting:
            case PartitionCount(partitions=most):
                while len(self.parts) > most:
                    self._leave(self.at[row], row)
            case TupleCount(rows=most):
                for held in self.parts.values():
                    self._expire(held, self.at[row])
                while self.held > most:
                    self._leave(self.at[row], row)

    def _leave(self, at: int, row: int | None) -> None:
        part = next(iter(self.parts))
        if self.window.evicted and self.parts[part].rows:
            self._note(part, at, row)
        self._empty(self.parts.pop(part))

    # --- the result

    def found(self, known: Partitions) -> Found:
        """Return the same result as the other kernels."""
        kept = np.zeros(len(self.rows), np.bool_)
        after, forgotten = Partitions.fresh(len(known)), np.ones(len(known), np.bool_)
        for part, held in self.parts.items():
            kept[held.rows] = True
            forgotten[part] = False
            after.since[part], after.limit[part], after.full[part] = held.since, held.limit, held.full
            after.last[part], after.touched[part] = held.last, held.touched
        if isinstance(self.eviction, Time) and self.slides:
            kept &= self.rows.at >= self.now - self.eviction.micros
        lengths = np.array([len(f[4]) for f in self.fired], np.int64)
        end = np.cumsum(lengths)
        members = np.array([r for f in self.fired for r in f[4]], np.int64)
        firings = Firings(
            np.array([f[0] for f in self.fired], np.int64),
            np.array([f[1] for f in self.fired], np.int64),
            end - lengths,
            end - 1,
            np.array([f[2] for f in self.fired], np.bool_),
            np.array([f[3] for f in self.fired], np.int64),
        )
        return Found(firings, kept, after, forgotten, members)


def one_by_one(window: SplWindow, rows: WindowRows, known: Partitions, ticked: int, now: int) -> Found:
    """Evaluate windows row by row. Firings are in order of time."""
    simulation = Simulation(window, rows, ticked, now)
    simulation.load(known)
    simulation.run()
    return simulation.found(known)
