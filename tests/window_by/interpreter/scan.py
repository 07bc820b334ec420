"""Find the windows of one sorted partition by reading the rules as they stand.

In: the items in order, the clause, and its conditions as functions. Out: `ScanBounds` per window, in rule 10's order.
Costs one evaluation of END per pair of start and later tuple until it holds: the kernels in `bounds` are for large
partitions. Source: VLDB Journal 33(3), 2024, sections 3.3 and 3.4; numbers of rules as in docs/reference/window-by.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from belvedere.sqlpp.query_tree import Boundary, WindowBy
from tests.window_by.interpreter.values import MISSING

SO_FAR = "$so far"
"""The name of the window's tuples up to END's tuple."""

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

    def first(self, role: str, scope: Mapping[str, Any], begin: int) -> int | None:
        """The first tuple at or after `begin` that satisfies a boundary; the partition's edge for UNBOUNDED."""
        boundary, condition = getattr(self.window, role), self.conditions.get(role)
        if boundary.unbounded:
            return 0 if role == "start" else len(self.items) - 1
        for place in range(begin, len(self.items)):
            if role == "end":
                scope = {**scope, SO_FAR: self.items[begin : place + 1]}
            if condition is None or condition({**scope, **boundary_variables(self.items, boundary, place)}) is True:
                return place
        return None

    def window_of(self, label: int, start: int | None, scope: Mapping[str, Any]) -> ScanBounds:
        """The window from its start to the first END, or to the last tuple."""
        scope = {**scope, **boundary_variables(self.items, self.window.start, start)}
        end = self.first("end", scope, start or 0)
        return ScanBounds(
            label, start or 0, len(self.items) - 1 if end is None else end, start is not None, end is not None
        )

    def unlabelled(self) -> Iterator[ScanBounds]:
        begin = 0
        while (start := self.first("start", self.env, begin)) is not None:
            if self.window.end is None:
                following = self.first("start", self.env, start + 1)
                found = ScanBounds(start, start, len(self.items) - 1 if not following else following - 1)
            else:
                found = self.window_of(start, start, self.env)
            yield found
            if self.window.start.unbounded:
                return
            begin = (found.end if self.window.tumbling else start) + 1

    def labelled(self) -> Iterator[ScanBounds]:
        begin = 0
        while (label := self.first("label", self.env, begin)) is not None:
            scope = {**self.env, **boundary_variables(self.items, self.window.label, label)}
            yield self.window_of(label, self.first("start", scope, 0), scope)
            begin = label + 1


def without_overlap(candidates: list[ScanBounds]) -> list[ScanBounds]:
    """TUMBLING with LABEL: by (start, label), those that start after the end of the one kept before (decision 19)."""
    kept: list[ScanBounds] = []
    for bounds in sorted(candidates, key=lambda b: (b.start, b.label)):
        if not kept or bounds.start > kept[-1].end:
            kept.append(bounds)
    return sorted(kept, key=lambda b: b.label)


def find_windows(
    items: list[Any], window: WindowBy, conditions: Conditions, env: Mapping[str, Any]
) -> list[ScanBounds]:
    """The windows of a sorted partition (rules 4 to 7 and 10)."""
    partition = _Partition(items, window, conditions, env)
    found = list(partition.unlabelled() if window.label is None else partition.labelled()) if items else []
    if window.label is not None and window.tumbling:
        found = without_overlap(found)
    return [b for b in found if b.closed] if window.only else found
