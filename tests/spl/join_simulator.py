"""Joins of two SPL windows event by event, as in the language's documentation: the oracle of kernels and views.

In: the windows, which sides are outer, what matches; events, one at a time. Out: the results in order. Nothing here is
fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from belvedere.plan.operators.spl_windows import Count, Delta, Policy, Time
from tests.spl.simulator import Tuple


@dataclass
class Held:
    row: Tuple
    matched: bool = False


@dataclass
class JoinSimulator:
    """Windows that evict by these policies; `outer`: whose rows without a match are results; `matches` says of a left
    and a right row."""

    evictions: tuple[Policy, Policy]
    outer: tuple[bool, bool]
    matches: Callable[[Tuple, Tuple], bool]
    windows: tuple[list[Held], list[Held]] = field(default_factory=lambda: ([], []))
    results: list[tuple[int, Any, Any]] = field(default_factory=list)
    """The time, the number of the left row and of the right one, None for none."""

    def tuple(self, side: int, x: Tuple) -> None:
        self.clock(x.at)
        arrived = Held(x)
        for held in self.windows[1 - side]:
            left, right = (x, held.row) if side == 0 else (held.row, x)
            if self.matches(left, right):
                arrived.matched = held.matched = True
                self.results.append((x.at, left.number, right.number))
        eviction, window = self.evictions[side], self.windows[side]
        mine = [h for h in window if h.row.partition == x.partition]
        if isinstance(eviction, Delta):
            values = eviction.column
            self._leave(side, [h for h in mine if x.values[values] - h.row.values[values] > eviction.step], x.at)
        window.append(arrived)
        if isinstance(eviction, Count):
            mine.append(arrived)
            self._leave(side, mine[: max(0, len(mine) - eviction.rows)], x.at)

    def clock(self, now: int) -> None:
        """Rows leave that have become too old, at their times, of one time the left side's first."""
        due: list[tuple[int, int, int, Held]] = []
        for side, eviction in enumerate(self.evictions):
            if isinstance(eviction, Time):
                due += [
                    (h.row.at + eviction.micros + 1, side, h.row.number, h)
                    for h in self.windows[side]
                    if now - h.row.at > eviction.micros
                ]
        for at, side, _, held in sorted(due, key=lambda d: d[:3]):
            self._leave(side, [held], at)

    def _leave(self, side: int, leaving: Iterable[Held], at: int) -> None:
        for held in leaving:
            self.windows[side].remove(held)
            if self.outer[side] and not held.matched:
                number = held.row.number
                self.results.append((at, number, None) if side == 0 else (at, None, number))
