"""Read exactly the messages of ranges of offsets, with one consumer per process.

In: settings of a client, ranges. Out: the messages of each range in order, in batches of one partition. Transaction
markers, aborted and compacted messages have offsets too: a range ends at a message after it, or at the end of its
partition. Runs in the driver and in Spark's tasks.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from belvedere.connectors.kafka.client import Settings, diagnostic
from belvedere.connectors.kafka.topics import Place
from belvedere.errors import fail

MAX_MESSAGES = 1 << 16
"""Maximum number of messages of a partition in one batch."""
MAX_BYTES = 16 << 20
FEW_MESSAGES = 64
"""Minimum number of messages in a batch before `MAX_BYTES` ends it."""
AT_ONCE = 10_000
FEW_TOGETHER = 50_000
"""Maximum number of messages of all ranges that are fetched concurrently."""
WAIT_SECONDS = 0.01
ASK_AGAIN_SECONDS = 2.0
"""Seconds without a message after which the consumer seeks again: the end of a partition is reported only once."""
AWAY_SECONDS = 300.0
"""Maximum seconds to wait for an unavailable broker."""
CONSUMER: Settings = {
    "group.id": "belvedere",  # no group is joined, and no offset is committed
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "fetch.queue.backoff.ms": 5,  # a full queue would pause for a second
    "fetch.wait.max.ms": 20,
    "queued.max.messages.kbytes": 32 << 10,
}


_AWAY = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._RESOLVE)
"""Errors after which the client retries by itself."""


@dataclass(frozen=True)
class MessageRange:
    """The messages of a partition from offset `start` up to, but not including, `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def place(self) -> Place:
        """Return the partition."""
        return self.topic, self.partition

    @property
    def label(self) -> str:
        """Return the partition's name for users."""
        return f"{self.topic}[{self.partition}]"


@dataclass
class _Standing:
    """Position of a consumer in a partition: `ahead` was fetched after `next`, up to `reached`, but not returned."""

    next: int
    reached: int
    ahead: list[Message] = field(default_factory=list)

    def taken(self, end: int) -> list[Message]:
        """Return the fetched messages below `end`."""
        taken = self.ahead
        if taken and taken[-1].offset() >= end:
            cut = next(n for n, m in enumerate(taken) if m.offset() >= end)
            self.ahead = taken[cut:]
            return taken[:cut]
        self.ahead = []
        return taken


@dataclass
class _BufferedMessages:
    """Fetched messages of a partition that were not returned yet."""

    messages: list[Message] = field(default_factory=list)
    size: int = 0

    def add(self, messages: list[Message]) -> None:
        self.messages += messages
        self.size += sum(map(len, messages))

    @property
    def is_much(self) -> bool:
        return len(self.messages) >= MAX_MESSAGES or (len(self.messages) >= FEW_MESSAGES and self.size >= MAX_BYTES)


class RangeReader:
    """A consumer that stays assigned to its partitions: a range that continues the previous one needs no new
    request."""

    def __init__(self, settings: Settings):
        self.consumer = Consumer(CONSUMER | settings)
        self._standing: dict[Place, _Standing] = {}

    def close(self) -> None:
        """Close the connection to the cluster."""
        self.consumer.close()

    def read(
        self, ranges: Iterable[MessageRange], patience: float = AWAY_SECONDS
    ) -> Iterator[tuple[MessageRange, list[Message]]]:
        """Yield the messages range by range, so equal ranges give an equal order.

        Raises B6203 (missing offsets), B6201 (no message for `patience` seconds).
        """
        left = deque(r for r in ranges if r.start < r.end)
        together = sum(r.end - r.start for r in left) <= FEW_TOGETHER
        for range_ in left if together else ():
            self._go_to(range_.place, range_.start)
        while left:
            range_ = left.popleft()
            self._go_to(range_.place, range_.start)
            yield from ((range_, messages) for messages in self._range(range_, patience))
            if not together:
                self._leave(range_.place)  # messages after the range are not read ahead

    def _range(self, range_: MessageRange, patience: float) -> Iterator[list[Message]]:
        held, standing = _BufferedMessages(), self._standing[range_.place]
        heard = asked = time.monotonic()
        while True:
            is_done = standing.reached >= range_.end
            held.add(standing.taken(range_.end))
            if held.messages and (is_done or held.is_much):
                yield held.messages
                held = _BufferedMessages()
            if is_done:
                standing.next = range_.end
                return
            now = time.monotonic()
            if self._fetch(range_.place):
                heard = asked = now
            elif now - heard > patience:
                raise fail(
                    "B6201",
                    f"no message of {range_.label} arrived for {patience:.0f} seconds",
                    hint="check that the brokers are running",
                )
            elif now - asked > ASK_AGAIN_SECONDS:
                asked = now
                self._go_to(range_.place, standing.reached, again=True)

    def _fetch(self, requested: Place) -> bool:
        """Fetch messages. Return whether the `requested` partition had any; some messages of each other are read
        ahead."""
        found, before = self.consumer.consume(AT_ONCE, WAIT_SECONDS), self._standing[requested].reached
        events = [m for m in found if m.error() is not None]
        for place, messages in _runs([m for m in found if m.error() is None] if events else found):
            standing = self._standing.get(place)
            if standing is None:
                continue
            standing.ahead += messages
            standing.reached = max(standing.reached, messages[-1].offset() + 1)
            if place != requested and len(standing.ahead) >= FEW_TOGETHER:
                self._leave(place)
        for event in events:
            self._heed((event.topic(), event.partition()), event)
        return self._standing[requested].reached > before

    def _heed(self, place: Place, message: Message) -> None:
        error, label = message.error(), f"{place[0]}[{place[1]}]"
        if error.code() == KafkaError._PARTITION_EOF:
            if place in self._standing:
                self._standing[place].reached = max(self._standing[place].reached, message.offset())
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            self._leave(place)
            raise lost_offsets(label, error.str())
        elif error.fatal() or not (error.retriable() or error.code() in _AWAY):
            raise diagnostic(f"{label} cannot be read", error)

    def _go_to(self, place: Place, offset: int, again: bool = False) -> None:
        """Seek to an offset, unless the consumer is there already. `again` keeps the fetched messages."""
        standing = self._standing.get(place)
        if not again:
            if standing is not None and standing.next == offset:
                return
            standing = _Standing(offset, offset)
        if place in self._standing:
            self._leave(place)
        assert standing is not None
        self._standing[place] = standing
        self.consumer.incremental_assign([TopicPartition(*place, offset)])

    def _leave(self, place: Place) -> None:
        if self._standing.pop(place, None) is not None:
            self.consumer.incremental_unassign([TopicPartition(*place)])


def _runs(messages: list[Message]) -> Iterator[tuple[Place, list[Message]]]:
    """Yield runs of consecutive messages of one partition."""
    if not messages:
        return
    partitions = np.array([m.partition() for m in messages])
    topics = [m.topic() for m in messages]
    differ = partitions[1:] != partitions[:-1]
    if topics.count(topics[0]) != len(topics):
        differ |= np.array([a != b for a, b in pairwise(topics)])
    cuts = [0, *(np.flatnonzero(differ) + 1).tolist(), len(messages)]
    for start, end in pairwise(cuts):
        yield (topics[start], int(partitions[start])), messages[start:end]


def lost_offsets(label: str, detail: str) -> Exception:
    """Return the diagnostic B6203."""
    hint = (
        'its messages are gone: set `on_lost = "skip"` in the source to continue with the available ones, '
        "or start with a new store"
    )
    return fail("B6203", f"offsets of {label} that were not read yet are no longer available", detail=detail, hint=hint)


_readers: dict[str, RangeReader] = {}


def reader_of(settings: Settings) -> RangeReader:
    """Return this process's reader for these settings, which is kept between tasks."""
    key = json.dumps(settings, sort_keys=True, default=str)
    if key not in _readers:
        _readers[key] = RangeReader(settings)
    return _readers[key]
