"""SPL windows event by event, as in the language's documentation: the oracle of the kernels.

In: a window clause and events, one at a time. Out: the firings in order. Nothing here is fast, and nothing is shared
with the kernels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from belvedere.plan.operators.spl_windows import (
    Count,
    Delta,
    Interval,
    PartitionAge,
    PartitionCount,
    Punctuation,
    Sliding,
    SplWindow,
    Time,
    Tumbling,
    TupleCount,
)


@dataclass(frozen=True)
class Tuple:
    """A row: its arrival number, time in microseconds, partition, and the columns of policies."""

    number: int
    at: int
    partition: Any
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Fired:
    """One firing."""

    at: int
    partition: Any
    contents: tuple[int, ...]
    pane: int | None = None
    index: int | None = None


@dataclass
class Partition:
    contents: list[Tuple] = field(default_factory=list)
    counter: int = 0
    reference: Any = None
    full: bool = False
    last: int = 0


class Simulator:
    """One tumbling or sliding window."""

    def __init__(self, window: SplWindow):
        assert isinstance(window.kind, Tumbling | Sliding)
        self.window, self.kind = window, window.kind
        self.partitions: dict[Any, Partition] = {}
        self.firings: list[Fired] = []
        self.time: int | None = None

    # --- events

    def tuple(self, x: Tuple) -> None:
        self.clock(x.at)
        self._forget_old(x.at)
        p = self.partitions.pop(x.partition, None) or Partition()
        self.partitions[x.partition] = p  # the last of them all
        if isinstance(self.kind, Tumbling):
            self._tumble(p, x)
        else:
            self._slide(self.kind, p, x)
        p.last = x.at
        self._forget(x.at)

    def punct(self, at: int) -> None:
        self._forget_old(at)
        if isinstance(self.kind, Tumbling) and isinstance(self.kind.eviction, Punctuation):
            for p in self._by_oldest():
                self._flush(p, at)

    def clock(self, until: int) -> None:
        """All timers up to a time; the first event says when time begins."""
        before = until if self.time is None else self.time
        self.time = until
        timer = self.kind.eviction if isinstance(self.kind, Tumbling) else self.kind.trigger
        if not isinstance(timer, Time):
            return
        at = (before // timer.micros + 1) * timer.micros
        while at <= until:
            self._forget_old(at)
            for p in self.partitions.values():
                self._expire(p, at)
            for p in self._by_oldest():
                if isinstance(self.kind, Tumbling):
                    self._flush(p, at)
                else:
                    self._trigger(p, at)
            at += timer.micros

    def _by_oldest(self) -> list[Partition]:
        return sorted((p for p in self.partitions.values() if p.contents), key=lambda p: p.contents[0].number)

    # --- tumbling

    def _tumble(self, p: Partition, x: Tuple) -> None:
        eviction = self.kind.eviction
        if isinstance(eviction, Delta) and p.contents:
            column = eviction.column
            if x.values[column] - p.contents[0].values[column] > eviction.step:
                self._flush(p, x.at)
        p.contents.append(x)
        if isinstance(eviction, Count) and len(p.contents) == eviction.rows:
            self._flush(p, x.at)

    def _flush(self, p: Partition, at: int) -> None:
        if p.contents:
            self._out(p, at)
        p.contents = []

    # --- sliding

    def _slide(self, kind: Sliding, p: Partition, x: Tuple) -> None:
        eviction, trigger = kind.eviction, kind.trigger
        if isinstance(trigger, Delta):
            value = x.values[trigger.column]
            if p.reference is None:
                p.reference = value
            elif value - p.reference > trigger.step:
                self._expire(p, x.at)
                self._trigger(p, x.at)
                p.reference = value
        if isinstance(eviction, Count) and eviction.rows == 0:
            pass
        else:
            if isinstance(eviction, Count) and len(p.contents) == eviction.rows:
                p.contents.pop(0)
            if isinstance(eviction, Delta):
                column = eviction.column
                stay = [r for r in p.contents if not x.values[column] - r.values[column] > eviction.step]
                if len(stay) < len(p.contents):
                    p.full = True
                p.contents = stay
            p.contents.append(x)
        if isinstance(eviction, Count) and len(p.contents) == eviction.rows:
            p.full = True
        if isinstance(trigger, Count):
            p.counter += 1
            if p.counter == trigger.rows:
                self._expire(p, x.at)
                self._trigger(p, x.at)
                p.counter = 0

    def _expire(self, p: Partition, at: int) -> None:
        eviction = self.kind.eviction
        if isinstance(self.kind, Sliding) and isinstance(eviction, Time):
            p.contents = [r for r in p.contents if not at - r.at > eviction.micros]

    def _trigger(self, p: Partition, at: int) -> None:
        full = p.full or isinstance(self.kind.eviction, Time)
        if p.contents and (full or self.window.incomplete):
            self._out(p, at)

    # --- partitions

    def _forget_old(self, now: int) -> None:
        forgetting = self.window.forgetting
        if isinstance(forgetting, PartitionAge):
            for key, p in list(self.partitions.items()):
                if p.last + forgetting.micros < now:
                    self._leave(key, now)

    def _forget(self, now: int) -> None:
        forgetting = self.window.forgetting
        if isinstance(forgetting, PartitionCount):
            while len(self.partitions) > forgetting.partitions:
                self._leave(next(iter(self.partitions)), now)
        if isinstance(forgetting, TupleCount):
            for p in self.partitions.values():
                self._expire(p, now)
            while sum(len(p.contents) for p in self.partitions.values()) > forgetting.rows:
                self._leave(next(iter(self.partitions)), now)

    def _leave(self, key: Any, now: int) -> None:
        p = self.partitions.pop(key)
        if self.window.evicted and p.contents:
            self._out(p, now)

    def _out(self, p: Partition, at: int) -> None:
        self.firings.append(Fired(at, p.contents[0].partition, tuple(r.number for r in p.contents)))


@dataclass
class Pane:
    contents: list[Tuple] = field(default_factory=list)
    changed: bool = False
    fired: int = 0


class PaneSimulator:
    """One `timeInterval` window; the event time of a row is its `time`."""

    def __init__(self, kind: Interval):
        self.kind = kind
        self.watermark = -(1 << 62)
        self.panes: dict[tuple[int, Any], Pane] = {}
        self.firings: list[Fired] = []
        self.dropped: list[int] = []

    def tuple(self, x: Tuple) -> None:
        time, kind = x.values["time"], self.kind
        if time < self.watermark - kind.discard:
            self.dropped.append(x.number)
            return
        first = (time - kind.offset - kind.duration) // kind.period
        for n in range(first, (time - kind.offset) // kind.period + 2):
            start = n * kind.period + kind.offset
            if start <= time < start + kind.duration:
                pane = self.panes.setdefault((start, x.partition), Pane())
                pane.contents.append(x)
                pane.changed = True

    def advance(self, watermark: int) -> None:
        if watermark <= self.watermark:
            return
        self.watermark = watermark
        ready = [k for k, p in self.panes.items() if p.changed and k[0] + self.kind.duration <= watermark]
        for start, partition in sorted(ready, key=lambda k: (k[0], self.panes[k].contents[0].number)):
            pane = self.panes[start, partition]
            numbers = tuple(r.number for r in pane.contents)
            self.firings.append(Fired(watermark, partition, numbers, start, pane.fired))
            pane.fired, pane.changed = pane.fired + 1, False
        for key in [k for k in self.panes if k[0] + self.kind.duration + self.kind.discard <= watermark]:
            del self.panes[key]
