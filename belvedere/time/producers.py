"""The clock of one event-time column of one stream: its producers' promises and the resulting bound.

In: producers that attach, send rows or bounds, and detach. Out: immutable `StreamClock`s. A bound t says that no later
row is below t. The stream's bound is the least bound of its attached producers. It never decreases, and remains after
they detach (SQLstream, 'Semantics of Rowtime Bounds'). Times are microseconds since 1970. Rows, late-row policies and
epochs are not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

STRICT = 1_000
"""Precision of rowtimes in microseconds: a strict bound t is the non-strict bound t + 1 ms."""


@dataclass(frozen=True)
class Producer:
    """One attached producer: its own bound (None before its first row or bound) and the time of its last message."""

    bound: int | None = None
    heard: int | None = None


@dataclass(frozen=True)
class StreamClock:
    """The bound of one event-time column, and the producers that may still send rows.

    `reached` is the highest bound that rows imply. It becomes the bound when every producer has detached. `started` is
    False until the first row or explicit bound; a bound given on opening applies to that producer alone. `assumed`
    marks a bound that ignores idle producers (IDLE AFTER).
    """

    bound: int | None = None
    producers: Mapping[str | None, Producer] = field(default_factory=dict)
    reached: int | None = None
    started: bool = False
    assumed: bool = False

    def least_for(self, producer: str | None) -> int | None:
        """Return the least time that a row of this producer may have."""
        own = self.producers.get(producer)
        return highest(self.bound, own.bound if own is not None else None)

    def as_document(self) -> dict[str, Any]:
        """Return the clock as JSON data."""
        return vars(self) | {"producers": [[name, p.bound, p.heard] for name, p in self.producers.items()]}

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> StreamClock:
        """Read a clock from the result of `as_document`."""
        producers = {name: Producer(bound, heard) for name, bound, heard in document.get("producers", ())}
        return cls(**{**document, "producers": producers})


def highest(*bounds: int | None) -> int | None:
    """Return the greatest of the known bounds; None if there is none."""
    return max((b for b in bounds if b is not None), default=None)


def opened(clock: StreamClock, producer: str | None, bound: int | None, now: int) -> StreamClock:
    """Attach a producer. Without a bound it has no clock of its own and keeps the stream's bound where it is."""
    return advanced(_raised(clock, producer, bound, now), None, now)


def bounded(clock: StreamClock, producer: str | None, bound: int, now: int) -> StreamClock:
    """Apply a producer's promise that no later row is below `bound`. A lower bound than its present one is ignored."""
    return advanced(replace(_raised(clock, producer, bound, now), started=True), None, now)


def rows_seen(clock: StreamClock, producer: str | None, implied: int | None, now: int) -> StreamClock:
    """Apply rows of a producer whose greatest implied bound is `implied` (None: they imply none)."""
    moved = replace(_raised(clock, producer, implied, now), started=True, reached=highest(clock.reached, implied))
    return advanced(moved, None, now)


def closed(clock: StreamClock, producer: str | None, now: int) -> StreamClock:
    """Detach a producer: it no longer holds back the stream.

    After the last one, the bound rises to the highest implied one.
    """
    left = {name: p for name, p in clock.producers.items() if name != producer}
    if clock.producers and not left:
        return replace(clock, producers=left, bound=highest(clock.bound, clock.reached))
    return advanced(replace(clock, producers=left), None, now)


def advanced(clock: StreamClock, idle_after: int | None, now: int) -> StreamClock:
    """Return the clock with the bound that its producers allow, ignoring those idle for `idle_after` microseconds."""
    if not clock.started or not clock.producers:
        return clock
    promised = _least(clock.producers)
    passed = _least_of_active(clock.producers, idle_after, now) if idle_after is not None else None
    known = highest(clock.bound, promised)
    bound = highest(known, passed)
    assumed = bound != known or (clock.assumed and (promised is None or bound != promised))
    return replace(clock, bound=bound, assumed=assumed)


def holding_back(clock: StreamClock) -> tuple[str | None, ...]:
    """Return the producers that hold back the stream: those without a bound, else those with the least one.

    A single producer with a bound does not hold the stream back, nor do producers excluded as idle.
    """
    unknown = tuple(name for name, p in clock.producers.items() if p.bound is None)
    if unknown and not clock.assumed:
        return unknown
    floor = clock.bound if clock.assumed else None
    active = {
        name: p.bound
        for name, p in clock.producers.items()
        if p.bound is not None and (floor is None or p.bound >= floor)
    }
    if len(set(active.values())) < 2:
        return ()
    least = min(active.values())
    return tuple(name for name, bound in active.items() if bound == least)


def _least_of_active(known: Mapping[str | None, Producer], idle_after: int, now: int) -> int | None:
    """Return the least bound of the producers that are not idle. If all are idle, return the greatest known bound."""
    active = {n: p for n, p in known.items() if p.heard is None or now - p.heard < idle_after}
    return _least(active) if active else highest(*(p.bound for p in known.values()))


def _least(producers: Mapping[str | None, Producer]) -> int | None:
    """Return the least bound; None if some producer has none."""
    bounds = [p.bound for p in producers.values()]
    known = [b for b in bounds if b is not None]
    return min(known) if known and len(known) == len(bounds) else None


def _raised(clock: StreamClock, producer: str | None, bound: int | None, now: int) -> StreamClock:
    known = clock.producers.get(producer, Producer())
    return replace(clock, producers={**clock.producers, producer: Producer(highest(known.bound, bound), now)})
