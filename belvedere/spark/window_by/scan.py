"""Find the windows of one sorted partition by reading the rules as they stand.

In: the items in order, the clause, and its conditions as functions. Out: `ScanBounds` per window, in rule 10's order. Costs one
evaluation of END per pair of start and later tuple until it holds: the kernels in `bounds` are for large partitions.
Source: VLDB Journal 33(3), 2024, sections 3.3 and 3.4; numbers of rules as in docs/window-by.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from belvedere.kernels.values import MISSING
from belvedere.lang.window_by.tree import Boundary, WindowBy

Conditions = Mapping[str, Callable[[Mapping[str, Any]], Any]]


@dataclass(frozen=True, slots=True)
class ScanBounds:
    """One window, by positions from 0: `started` and `closed` tell whether START and END were found."""

    label: int
    start: int
    end: int
    started: bool = True
    closed: bool = True


def boundary_variables(items: list[Any], boundary: Boundary | None, place: int | None) -> dict[str, Any]:
    """The variables of a boundary at a position; MISSING where the boundary was not found (rules 7 and 8)."""
    if boundary is None:
        return {}
    found: dict[str, Any] = {}
    for role, name in boundary.variables:
        if place is None:
            found[name.text] = MISSING
        elif role == "position":
            found[name.text] = place + 1
        else:
            index = place + {"item": 0, "previous": -1, "next": 1}[role]
            found[name.text] = items[index] if 0 <= index < len(items) else MISSING
    return found


def window_variables(items: list[Any], window: WindowBy, bounds: ScanBounds) -> dict[str, Any]:
    """All variables after WINDOW BY: those of the boundaries and the window itself (rule 7)."""
    found: dict[str, Any] = {}
    if window.label is not None:
        found |= boundary_variables(items, window.label, bounds.label)
    found |= boundary_variables(items, window.start, bounds.start if bounds.started else None)
    found |= boundary_variables(items, window.end, bounds.end if bounds.closed else None)
    members = items[bounds.start : bounds.end + 1]
    found[window.name.text] = [MISSING] * (not bounds.started) + members + [MISSING] * (not bounds.closed)
    return found


class _Partition:
    """One partition and the tests of its boundaries."""

    def __init__(self, items: list[Any], window: WindowBy, conditions: Conditions, env: Mapping[str, Any]):
        self.items, self.window, self.conditions, self.env = items, window, conditions, env

    def holds(self, role: str, boundary: Boundary, scope: Mapping[str, Any], place: int) -> bool:
        condition = self.conditions.get(role)
        if condition is None:
            return True
        return condition({**scope, **boundary_variables(self.items, boundary, place)}) is True

    def end(self, scope: Mapping[str, Any], start: int) -> tuple[int, bool]:
        """The first END at or after `start`, or the last tuple and False."""
        last = len(self.items) - 1
        boundary = self.window.end
        if boundary is None or boundary.unbounded:
            return last, True
        for place in range(start, len(self.items)):
            if self.holds("end", boundary, scope, place):
                return place, True
        return last, False

    def from_start(self, start: int) -> ScanBounds:
        scope = {**self.env, **boundary_variables(self.items, self.window.start, start)}
        end, closed = self.end(scope, start)
        return ScanBounds(start, start, end, True, closed)

    def starts(self, place: int) -> bool:
        boundary = self.window.start
        if boundary.unbounded:
            return place == 0
        return self.holds("start", boundary, self.env, place)

    def sliding(self) -> Iterator[ScanBounds]:
        return (self.from_start(i) for i in range(len(self.items)) if self.starts(i))

    def tumbling(self) -> Iterator[ScanBounds]:
        place = 0
        while place < len(self.items):
            if self.starts(place):
                found = self.from_start(place) if self.window.end is not None else self.until_next_start(place)
                yield found
                place = found.end
            place += 1

    def until_next_start(self, start: int) -> ScanBounds:
        following = (i for i in range(start + 1, len(self.items)) if self.starts(i))
        return ScanBounds(start, start, next(following, len(self.items)) - 1)

    def labelled(self) -> Iterator[ScanBounds]:
        label, opening = self.window.label, self.window.start
        assert label is not None
        for place in range(len(self.items)):
            if not self.holds("label", label, self.env, place):
                continue
            scope = {**self.env, **boundary_variables(self.items, label, place)}
            everywhere = range(len(self.items))
            start = 0 if opening.unbounded else next((i for i in everywhere if self.holds("start", opening, scope, i)), None)
            inner = {**scope, **boundary_variables(self.items, opening, start)}
            end, closed = self.end(inner, start or 0)
            yield ScanBounds(place, start or 0, end, start is not None, closed)


def without_overlap(candidates: list[ScanBounds]) -> list[ScanBounds]:
    """TUMBLING with LABEL: by (start, label), those that start after the end of the one kept before (decision 19)."""
    kept: list[ScanBounds] = []
    for bounds in sorted(candidates, key=lambda b: (b.start, b.label)):
        if not kept or bounds.start > kept[-1].end:
            kept.append(bounds)
    return sorted(kept, key=lambda b: b.label)


def find_windows(items: list[Any], window: WindowBy, conditions: Conditions, env: Mapping[str, Any]) -> list[ScanBounds]:
    """The windows of a sorted partition (rules 4 to 7 and 10)."""
    partition = _Partition(items, window, conditions, env)
    if window.label is not None:
        found = list(partition.labelled())
        if window.tumbling:
            found = without_overlap(found)
    else:
        found = list(partition.tumbling() if window.tumbling else partition.sliding())
    return [b for b in found if b.closed] if window.only else found
