"""The clock of one event-time column of one stream: its producers' promises and the bound that follows from them.

In: producers that come, send rows or bounds, and go. Out: immutable `StreamClock`s. A bound t says that no later row is below t;
the stream's bound is the least over its attached producers, it never goes back and outlives them (SQLstream, 'Semantics of Rowtime
Bounds'). Times are microseconds since 1970. Nothing here knows rows, policies or epochs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

STRICT = 1_000
"""A strict bound t is the non-strict bound t + 1 ms: the precision of rowtimes."""


@dataclass(frozen=True)
class Producer:
    """One attached producer: its own bound (None before its first row or bound) and when it was last heard of."""

    bound: int | None = None
    heard: int | None = None


@dataclass(frozen=True)
class StreamClock:
    """The bound of one event-time column, and who may still send rows.

    `reached` is the highest bound that rows imply: the bound once every producer has gone. `started` is False until the
    first row or explicit bound: a bound that a producer names as it opens binds that producer alone. `assumed` marks a bound for
    which silent producers were passed over (IDLE AFTER).
    """

    bound: int | None = None
    producers: Mapping[str | None, Producer] = field(default_factory=dict)
    reached: int | None = None
    started: bool = False
    assumed: bool = False

    def least_for(self, producer: str | None) -> int | None:
        """The least time that a row of this producer may have."""
        own = self.producers.get(producer)
        return highest(self.bound, own.bound if own is not None else None)

    def as_document(self) -> dict[str, Any]:
        """The clock as JSON data."""
        return vars(self) | {"producers": [[name, p.bound, p.heard] for name, p in self.producers.items()]}

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> StreamClock:
        """The clock that `as_document` wrote."""
        producers = {name: Producer(bound, heard) for name, bound, heard in document.get("producers", ())}
        return cls(**{**document, "producers": producers})


def highest(*bounds: int | None) -> int | None:
    """The greatest of those that are known."""
    return max((b for b in bounds if b is not None), default=None)


def opened(clock: StreamClock, producer: str | None, bound: int | None, now: int) -> StreamClock:
    """A producer attaches; without a bound it has no clock of its own and holds the stream where it is."""
    return advanced(_raised(clock, producer, bound, now), None, now)


def bounded(clock: StreamClock, producer: str | None, bound: int, now: int) -> StreamClock:
    """A producer says that none of its later rows is below `bound`; a bound lower than its present one changes nothing."""
    return advanced(replace(_raised(clock, producer, bound, now), started=True), None, now)


def rows_seen(clock: StreamClock, producer: str | None, implied: int | None, now: int) -> StreamClock:
    """A producer has sent rows whose greatest implied bound is `implied` (None: its rows imply none)."""
    moved = replace(_raised(clock, producer, implied, now), started=True, reached=highest(clock.reached, implied))
    return advanced(moved, None, now)


def closed(clock: StreamClock, producer: str | None, now: int) -> StreamClock:
    """A producer goes: it holds nothing back any more. When the last one goes, all rows that wait may pass."""
    left = {name: p for name, p in clock.producers.items() if name != producer}
    if clock.producers and not left:
        return replace(clock, producers=left, bound=highest(clock.bound, clock.reached))
    return advanced(replace(clock, producers=left), None, now)


def advanced(clock: StreamClock, idle_after: int | None, now: int) -> StreamClock:
    """The clock with the bound that its producers allow; those silent for `idle_after` microseconds are passed over."""
    if not clock.started or not clock.producers:
        return clock
    promised = _least(clock.producers)
    passed = _least_of_active(clock.producers, idle_after, now) if idle_after is not None else None
    known = highest(clock.bound, promised)
    bound = highest(known, passed)
    assumed = bound != known or (clock.assumed and (promised is None or bound != promised))
    return replace(clock, bound=bound, assumed=assumed)


def holding_back(clock: StreamClock) -> tuple[str | None, ...]:
    """Return the producers that the stream waits for: those without a bound, else those with the least one.

    A single producer with a bound does not hold the stream back, nor do producers excluded as silent.
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
    """The least bound of those heard of lately; where all are silent none holds another back."""
    active = {n: p for n, p in known.items() if p.heard is None or now - p.heard < idle_after}
    return _least(active) if active else highest(*(p.bound for p in known.values()))


def _least(producers: Mapping[str | None, Producer]) -> int | None:
    """The least bound; None where some producer has none."""
    bounds = [p.bound for p in producers.values()]
    known = [b for b in bounds if b is not None]
    return min(known) if known and len(known) == len(bounds) else None


def _raised(clock: StreamClock, producer: str | None, bound: int | None, now: int) -> StreamClock:
    known = clock.producers.get(producer, Producer())
    return replace(clock, producers={**clock.producers, producer: Producer(highest(known.bound, bound), now)})
