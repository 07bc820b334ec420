"""A model of a Kafka cluster: topics with logs, transactions, compaction, retention, rights; and a client's view of it.

In: what producers and administrators do. Out: answers as `topics.Cluster` and `ranges.RangeReader` give them, without a
broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from belvedere.connectors.kafka.ranges import MessageRange, lost_offsets
from belvedere.connectors.kafka.topics import Place, Topic

KEPT = 60_000
"""Milliseconds for which deletions are kept."""


@dataclass
class Record:
    """A message, or the marker of a transaction (without a place in it)."""

    place: Place
    number: int
    sent: int
    key_: bytes | None = None
    value_: bytes | None = None
    state: str = "committed"

    # -- as confluent_kafka.Message has it --
    def key(self) -> bytes | None:
        return self.key_

    def value(self) -> bytes | None:
        return self.value_

    def offset(self) -> int:
        return self.number

    def topic(self) -> str:
        return self.place[0]

    def partition(self) -> int:
        return self.place[1]

    def timestamp(self) -> tuple[int, int]:
        return 1, self.sent

    def headers(self) -> list[tuple[str, bytes | None]]:
        return [("k", b"v"), ("k", None)]

    def __len__(self) -> int:
        return len(self.value_ or b"")


@dataclass
class Log:
    """A partition: its first and last offset, and what is between."""

    first: int = 0
    end: int = 0
    records: dict[int, Record] = field(default_factory=dict)

    @property
    def stable(self) -> int:
        """Where readers of committed messages end."""
        return min((r.number for r in self.records.values() if r.state == "open"), default=self.end)


class Broker:
    """Topics by name, each with an identity."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000
        self.made = 0
        self.ids: dict[str, str] = {}
        self.logs: dict[str, list[Log]] = {}
        self.hidden: set[str] = set()

    # -- what is done to it -------------------------------------------------------------------------------------------

    def make(self, name: str) -> None:
        self.made += 1
        self.ids[name], self.logs[name] = f"id{self.made}", [Log()]

    def delete(self, name: str) -> None:
        self.ids.pop(name, None)
        self.logs.pop(name, None)

    def send(self, place: Place, key: bytes | None, value: bytes | None, state: str = "committed") -> Record:
        log = self.logs[place[0]][place[1]]
        made = log.records[log.end] = Record(place, log.end, self.now, key, value, state)
        log.end += 1
        return made

    def end_transaction(self, state: str) -> list[Record]:
        """All that is open is committed or aborted, with a marker in each partition."""
        ended = []
        for name, logs in self.logs.items():
            for number, log in enumerate(logs):
                found = [r for r in log.records.values() if r.state == "open"]
                for record in found:
                    record.state = state
                ended += found
                if found:
                    self.send((name, number), None, None, "marker")
        return ended

    def compact(self, name: str) -> list[Record]:
        """Of each key the last message stays; deletions for some time. What has left."""
        gone = []
        for log in self.logs[name]:
            stable, last = log.stable, {r.key_: n for n, r in log.records.items() if r.state == "committed"}
            for number, record in list(log.records.items()):
                is_old = record.value_ is None and self.now - record.sent >= KEPT
                is_last = record.state == "committed" and last[record.key_] == number and not is_old
                if number < stable and not is_last and record.state != "marker":
                    gone.append(log.records.pop(number))
        return gone

    def remove_old(self, name: str) -> list[Record]:
        """The older half of each partition goes. What has left."""
        gone = []
        for log in self.logs[name]:
            log.first = (log.first + log.stable + 1) // 2
            gone += [log.records.pop(n) for n in list(log.records) if n < log.first]
        return gone

    # -- what a client asks -------------------------------------------------------------------------------------------

    def topics(self, requested: str) -> list[Topic]:
        return [
            Topic(n, self.ids[n], tuple(range(len(p)))) for n, p in sorted(self.logs.items()) if n not in self.hidden
        ]

    def ends(self, places: Iterable[Place]) -> dict[Place, int]:
        return {(t, p): self.logs[t][p].stable for t, p in places}

    def starts(self, places: Iterable[Place]) -> dict[Place, int]:
        return {(t, p): self.logs[t][p].first for t, p in places}

    def deletion_retention(self, topic: str) -> int:
        return KEPT

    def read(self, ranges: Iterable[MessageRange], patience: float = 0) -> Iterator[tuple[MessageRange, list[Any]]]:
        for range_ in ranges:
            log = self.logs[range_.topic][range_.partition]
            if range_.start < log.first:
                raise lost_offsets(range_.label, "they are gone")
            found = [
                r for n, r in sorted(log.records.items()) if range_.start <= n < range_.end and r.state == "committed"
            ]
            if found:
                yield range_, found

    def close(self) -> None:
        pass
