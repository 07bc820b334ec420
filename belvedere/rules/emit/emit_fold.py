"""EMIT and SELECT STREAM by definition: a relation's contents epoch by epoch, folded in memory.

In: all rows of the input after each epoch, the epoch's clock and bounds. Out: the table as emitted, or the changelog.
This module is the test oracle of the engine, which uses deltas and stored state. The two share the definition of groups
and no code.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from belvedere.plan.monotone import NEVER
from belvedere.plan.operators.emit import PTIME, SEQUENCE, UNDO, VERSION
from belvedere.plan.operators.in_order import InOrder
from belvedere.rules.emit.emission import Emission, orderable
from belvedere.values.instants import instant, microseconds

ChangeRow = dict[str, Any]


@dataclass
class _Group:
    version: int = 0
    due: int | None = None
    complete: bool = False
    times: tuple[int | None, ...] = ()
    shown: dict[str, ChangeRow] = field(default_factory=dict)


class EmitFold:
    """The state of one EMIT from epoch to epoch."""

    def __init__(self, emission: Emission, key: tuple[str, ...], columns: tuple[str, ...]):
        self.emission, self.key, self.columns = emission, key, columns
        self.groups: dict[str, _Group] = {}
        self.before: dict[str, dict[str, ChangeRow]] = {}
        self.log: list[ChangeRow] = []

    def epoch(self, rows: list[ChangeRow], clock: int, bounds: tuple[int, ...]) -> list[ChangeRow]:
        """Return the output after an epoch. `rows` are the input's rows after it."""
        now = self._grouped(rows)
        overdue = [(g.due, name) for name, g in self.groups.items() if g.due is not None and g.due < clock]
        entries = [e for due, name in overdue for e in self._emit(name, self.before.get(name, {}), due)]
        changed = {n for n in now.keys() | self.before.keys() if repr(now.get(n)) != repr(self.before.get(n))}
        for name in changed:
            group = self.groups.setdefault(name, _Group())
            row = next(iter((now.get(name) or self.before[name]).values()))
            group.times = tuple(micros(row[t]) for t in self.emission.times)
        for name, group in self.groups.items():
            if self._fires(group, name in changed, clock, bounds):
                entries += self._emit(name, now.get(name, {}), clock)
        self._log(entries)
        self.before = now
        if self.emission.stream:
            return list(self.log)
        return [row for group in self.groups.values() for row in group.shown.values()]

    def _grouped(self, rows: list[ChangeRow]) -> dict[str, dict[str, ChangeRow]]:
        found: dict[str, dict[str, ChangeRow]] = {}
        for row in rows:
            name = repr([row[c] for c in self.emission.group])
            found.setdefault(name, {})[repr([row[k] for k in self.key])] = row
        return {n: dict(sorted(g.items())) for n, g in found.items()}

    def _fires(self, group: _Group, changed: bool, clock: int, bounds: tuple[int, ...]) -> bool:
        emission = self.emission
        if emission.watermark and not group.complete:
            group.complete = any(t is not None and t < b for t, b in zip(group.times, bounds, strict=True))
            if group.complete:
                return True
        if emission.delay is None:
            return changed and (group.complete or not emission.watermark)
        if changed and group.due is None:
            group.due = clock + emission.delay
        return group.due is not None and group.due <= clock

    def _emit(self, name: str, rows: dict[str, ChangeRow], at: int) -> list[tuple[Any, ...]]:
        """Emit the group's rows, and return the changes with their place in the changelog."""
        group = self.groups[name]
        group.due = None
        entries = []
        for key in group.shown.keys() | rows.keys():
            old, new = group.shown.get(key), rows.get(key)
            if repr(old) == repr(new):
                continue
            kind = 1 if old is not None and new is not None else (0 if new is None else 2)
            entries += [
                self._entry(name, at, kind, undo, row) for undo, row in ((True, old), (False, new)) if row is not None
            ]
        group.shown = dict(rows)
        return entries

    def _entry(self, name: str, at: int, kind: int, undo: bool, row: ChangeRow) -> tuple[Any, ...]:
        group = tuple(orderable(row[c]) for c in self.emission.group)
        key = tuple(orderable(row[k]) for k in self.key)
        return (at, group, kind, key, not undo), name, undo, row

    def _log(self, entries: list[tuple[Any, ...]]) -> None:
        for (at, *_), name, undo, row in sorted(entries, key=lambda e: e[0]):
            added = {UNDO: undo, PTIME: instant(at), VERSION: self.groups[name].version}
            self.groups[name].version += 1
            self.log.append({c: row[c] for c in self.columns} | added | {SEQUENCE: len(self.log) + 1})


class OrderFold:
    """The state of one SELECT STREAM from epoch to epoch. It emits each row once, with its values in that epoch."""

    def __init__(self, node: InOrder, key: tuple[str, ...], columns: tuple[str, ...]):
        self.node, self.key, self.columns = node, key, columns
        self.seen: set[str] = set()
        self.waiting: list[tuple[int, int, str]] = []
        self.highest: int | None = None
        self.out: list[ChangeRow] = []

    def epoch(self, rows: list[ChangeRow], bound: int, clock: datetime) -> list[ChangeRow]:
        """Return the stream after an epoch. `rows` are the input's rows after it."""
        now = {
            repr([r[k] for k in self.key]): r for r in sorted(rows, key=lambda r: [orderable(r[k]) for k in self.key])
        }
        for name, row in now.items():
            if name not in self.seen:
                self.seen.add(name)
                self._arrive(name, micros(row[self.node.time]))
        if self.node.within is not None:
            bound = NEVER if self.highest is None else self.highest - self.node.within
        if self.node.then and bound > NEVER:
            bound -= 1
        ready = sorted(w for w in self.waiting if w[0] <= bound)
        for name, descending, nulls_first in reversed(self.node.then):  # sorts are stable: the last key first
            ready.sort(key=lambda w, n=name: orderable(now[w[2]][n]), reverse=descending)  # type: ignore[misc]
            ready.sort(key=lambda w, n=name, first=nulls_first: (now[w[2]][n] is None) != first)  # type: ignore[misc]
        ready.sort(key=lambda w: w[0])
        self.waiting = [w for w in self.waiting if w[0] > bound]
        self.out += [{**{c: now[name][c] for c in self.columns}, self.node.came: clock} for _, _, name in ready]
        return [row | {SEQUENCE: n} for n, row in enumerate(self.out, 1)]

    def _arrive(self, name: str, time: int | None) -> None:
        if self.node.within is None:
            self.waiting.append((NEVER if time is None else time, len(self.seen), name))
        elif time is not None and (self.highest is None or time >= self.highest - self.node.within):
            self.waiting.append((time, len(self.seen), name))
            self.highest = time if self.highest is None else max(self.highest, time)


def micros(value: Any) -> int | None:
    """Return a timestamp or date as microseconds since 1970, and a number unchanged."""
    if value is None:
        return None
    if isinstance(value, int):
        return value
    if not isinstance(value, datetime) and isinstance(value, date):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    return microseconds(value)
