"""The sink: exported events as messages, exactly once, or at least once if the sink is configured so.

In: events after the marks of a sink's exports, in the order of `_seq`. Out: messages in Kafka transactions. All events
of an epoch are in one transaction for all topics, up to a maximum number of messages. Each transaction also commits its
marks: the number of the last event of each export, as offsets of a consumer group of the sink's own. So marks and
messages are committed together or not at all. After a crash the producer with the same transactional id ends the open
transaction, and then the marks show which events were sent.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from threading import Thread
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from belvedere.connectors.connector import Outgoing
from belvedere.connectors.exporting.event_files import json_lines, plain_json
from belvedere.connectors.kafka.client import Settings, client_settings, diagnostic, explaining_failures
from belvedere.connectors.kafka.topics import Cluster
from belvedere.errors import BelvedereError, fail
from belvedere.rules.events import EVENT_TIME, OPERATION, SEQUENCE
from belvedere.values.months import with_month_texts

MAX_MESSAGES = 50_000
"""Maximum number of events in one transaction."""
MAX_BYTES = 64 << 20
"""Maximum bytes of one transaction."""
MAX_MARKS = 120
"""Maximum number of exports to one topic: a mark takes up to 32 bytes."""
ROOM = 10_000
"""Bytes allowed for a message besides its value."""
TIMEOUT_SECONDS = 10.0
"""Maximum seconds that a call waits for the cluster before it is retried as a whole."""
TRANSACTION: Settings = {
    "enable.idempotence": True,
    "transaction.timeout.ms": 30_000,
    "message.timeout.ms": 20_000,
    "linger.ms": 5,
    "queue.buffering.max.messages": 2 * MAX_MESSAGES,
}
DELETED = "DELETE"
Sent = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes]], int]
"""The number of the export, key, value, headers, and the number of the event."""


@dataclass(frozen=True)
class _Export:
    """One export and its topic."""

    outgoing: Outgoing
    topic: str

    @property
    def mark(self) -> str:
        """Return the name of its mark, since exports may share a topic.

        It is short: Kafka stores at most 4,096 bytes for all marks of a topic.
        """
        name = f"{self.outgoing.relation} {self.outgoing.name}"
        return base64.b64encode(hashlib.sha256(name.encode()).digest()[:6]).decode()


class KafkaOutlet:
    """The writer of all exports to a sink."""

    def __init__(self, outgoings: Sequence[Outgoing]):
        sink = outgoings[0].sink
        names = sink.options.get("names", {})
        self.sink = sink.name
        self.exports = tuple(_Export(o, str(names.get(o.target, o.target))) for o in outgoings)
        self.settings = client_settings("sink", sink.name, sink.options)
        self.name = f"belvedere-{outgoings[0].store}-{sink.name}"
        self.is_exact = sink.options.get("exactly_once", True) is True
        self._producer: Producer | None = None
        self._marks: dict[str, dict[str, int]] = {}
        """Numbers of a topic's last events, by the names of marks."""
        self._failed: tuple[str, KafkaError] | None = None
        """Topic and error of the first rejected message."""
        self._large: tuple[str, bytes | None, int] | None = None
        """Topic, key and size of the rejected message if it was too large."""
        self._check_marks()

    def _check_marks(self) -> None:
        """Raise B6209 if a topic has more exports than its marks have space for."""
        for topic in dict.fromkeys(e.topic for e in self.exports):
            count = sum(e.topic == topic for e in self.exports)
            if self.is_exact and count > MAX_MARKS:
                message = (
                    f'{count} exports of the sink "{self.sink}" go to the topic "{topic}"; the maximum is {MAX_MARKS}'
                )
                raise fail("B6209", message, hint=f"give some of them another topic: `names` under [sinks.{self.sink}]")

    def reached(self) -> Sequence[int | None]:
        """Return the numbers of the last sent events; None for none or unknown. Raises B6201, B6202, B6210."""
        self._producer = self._failed = self._large = None
        self._find_topics()
        with self._reported("cannot begin to send"):
            if not self.is_exact:
                self._producer = Producer(
                    self.settings | {k: v for k, v in TRANSACTION.items() if k != "transaction.timeout.ms"}
                )
                return [None] * len(self.exports)
            made = Producer(self.settings | TRANSACTION | {"transactional.id": self.name})
            made.init_transactions(
                TIMEOUT_SECONDS
            )  # this ends the old producer's open transaction: only then the marks are complete
            self._marks = self._committed()
        self._producer = made
        return [self._marks[e.topic].get(e.mark) for e in self.exports]

    def _find_topics(self) -> None:
        there = set(Cluster(self.sink, self.settings, "sink").names())
        missing = sorted({e.topic for e in self.exports} - there)
        if missing:
            named = ", ".join(f'"{t}"' for t in missing)
            message = f'sink "{self.sink}" has no {"topic" if len(missing) == 1 else "topics"} {named}'
            raise fail("B6202", message, hint="create it with the number of partitions that you need")

    def _committed(self) -> dict[str, dict[str, int]]:
        consumer = self._group()
        try:
            found = consumer.committed(
                [TopicPartition(t, 0) for t in sorted({e.topic for e in self.exports})], TIMEOUT_SECONDS
            )
        finally:
            consumer.close()
        return {p.topic: self._with_room(p.topic, json.loads(p.metadata) if p.metadata else {}) for p in found}

    def _with_room(self, topic: str, marks: Mapping[str, int]) -> dict[str, int]:
        """Return the marks of a topic, with those of removed exports, which may return, if there is space."""
        own = {e.mark for e in self.exports if e.topic == topic}
        gone = [m for m in marks if m not in own]
        kept = own.union(gone[max(0, len(gone) - (MAX_MARKS - len(own))) :])
        return {m: n for m, n in marks.items() if m in kept}

    def _group(self) -> Consumer:
        given = {"group.id": self.name, "isolation.level": "read_committed", "enable.auto.commit": False}
        return Consumer(self.settings | given)

    def write(self, events: Iterable[tuple[int, pa.Table]]) -> None:
        """Send the events. Raises B6201 if the cluster does not answer: then send the events after `reached` again."""
        producer = self._producer
        assert producer is not None
        try:
            with self._reported("cannot send"):
                for some in _cut(self._messages(events)):
                    self._send(producer, some)
        except BaseException:
            self._producer = None
            raise

    def _send(self, producer: Producer, some: list[Sent]) -> None:
        if self.is_exact:
            producer.begin_transaction()
        for place, key, value, headers, number in some:
            self._produce(producer, place, key, value, headers, number)
        if self.is_exact:
            self._commit(producer, {place: number for place, *_, number in some})
            return
        left = producer.flush(TIMEOUT_SECONDS)
        if left or self._failed is not None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"{left:,} messages wait"))

    def _produce(
        self,
        producer: Producer,
        place: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes]],
        number: int,
    ) -> None:
        """Put a message into the producer's queue; wait if the queue is full.

        Raises B6209 if the message is too large.
        """
        end = time.monotonic() + TIMEOUT_SECONDS
        topic = self.exports[place].topic
        while True:
            try:
                producer.produce(topic, value, key, headers=headers, on_delivery=self._heed)
            except BufferError:
                if time.monotonic() > end:
                    raise KafkaException(
                        KafkaError(KafkaError._TIMED_OUT, "the queue of messages stays full")
                    ) from None
                producer.poll(0.1)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                    raise self._too_large(topic, key, len(value or b""), f"event {number:,} of it") from error
                raise
            else:
                producer.poll(0)
                return

    def _too_large(self, topic: str, key: bytes | None, size: int, which: str) -> BelvedereError:
        shown = (key or b"").decode(errors="replace")[:200]
        named = f"the row with the key {shown}" if key is not None else which
        hint = (
            f'raise `max.message.bytes` of the topic, and set `"message.max.bytes" = {size + ROOM}` under '
            f"[sinks.{self.sink}]"
        )
        message = f'{named} is too large for the topic "{topic}" of the sink "{self.sink}": {size:,} bytes'
        return fail("B6209", message, hint=hint)

    def _commit(self, producer: Producer, last: Mapping[int, int]) -> None:
        """Commit the transaction. `last` has the number of its last event by export number."""
        for place, number in last.items():
            self._marks[self.exports[place].topic][self.exports[place].mark] = number
        changed = {self.exports[place].topic: number for place, number in last.items()}
        offsets = [
            TopicPartition(t, 0, n, json.dumps(self._marks[t], separators=(",", ":"))) for t, n in changed.items()
        ]
        group = self._group()
        try:
            metadata = group.consumer_group_metadata()
            _within(
                2 * TIMEOUT_SECONDS, lambda: producer.send_offsets_to_transaction(offsets, metadata, TIMEOUT_SECONDS)
            )
            producer.commit_transaction(TIMEOUT_SECONDS)
        finally:
            group.close()

    def _heed(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self._failed is None:
            self._failed = (message.topic() or "", error)
            if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                self._large = (message.topic() or "", message.key(), len(message.value() or b""))

    def _messages(self, events: Iterable[tuple[int, pa.Table]]) -> Iterator[Sent]:
        """Return changes as messages with the view's key, and tombstones.

        Rows of a view without a key, and events of a subscription, are sent unchanged.
        """
        for place, rows in events:
            key = self.exports[place].outgoing.key
            shown = rows.drop_columns([OPERATION, EVENT_TIME, SEQUENCE]) if key else rows
            keys = _keys(rows.select(key)) if key else [None] * rows.num_rows
            operations = rows[OPERATION].to_pylist()
            numbers = rows[SEQUENCE].to_pylist()
            for named, line, operation, number in zip(keys, json_lines(shown), operations, numbers, strict=True):
                value = None if key and operation == DELETED else line.encode()
                yield place, named, value, [("op", operation.encode()), ("seq", str(number).encode())], number

    def _reported(self, what: str) -> AbstractContextManager[None]:
        return explaining_failures(f'sink "{self.sink}" {what}', other=self._known)

    def _known(self, error: KafkaError) -> BelvedereError | None:
        """Return the cause of a failed call: another process sends, or why a message was rejected; None if unknown."""
        if error.code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED):
            hint = "only one run at a time can send the events of a store: stop the other one"
            return fail("B6210", f'another process sends to the sink "{self.sink}" for this store', hint=hint)
        if self._large is not None:
            topic, key, size = self._large
            return self._too_large(topic, key, size, "a message of it")
        if self._failed is not None:
            topic, reason = self._failed
            return diagnostic(f'sink "{self.sink}" cannot send to the topic "{topic}"', reason)
        return None

    def close(self) -> None:
        """Do nothing: every sent event is already confirmed."""
        self._producer = None


def _cut(messages: Iterable[Sent]) -> Iterator[list[Sent]]:
    """Group messages into transactions."""
    some, size = list[Sent](), 0
    for message in messages:
        some.append(message)
        size += len(message[1] or b"") + len(message[2] or b"")
        if len(some) >= MAX_MESSAGES or size >= MAX_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def _within(seconds: float, call: Callable[[], object]) -> None:
    """Call a function that may exceed its own timeout, with a limit in seconds.

    librdkafka's request for offsets waits without end if the group's coordinator is gone (its issue 5456). Raises the
    call's error, or KafkaException after the limit: the thread is left behind with its producer, which the next one
    fences.
    """
    ended: Future[object] = Future()

    def run() -> None:
        try:
            ended.set_result(call())
        except BaseException as error:  # reported where the result is awaited
            ended.set_exception(error)

    Thread(target=run, name="kafka-offsets", daemon=True).start()
    if not wait([ended], seconds).done:
        raise KafkaException(
            KafkaError(KafkaError._TIMED_OUT, f"the group's coordinator did not answer for {seconds:.0f} seconds")
        )
    ended.result()


def _keys(rows: pa.Table) -> list[bytes]:
    """Return keys: one column as its bare value, more as a JSON object. Different rows get different keys.

    To keep the keys unambiguous, a NULL and a text that looks like such an object become objects. NaN and infinities
    are texts. A source reads the keys as the original values.
    """
    found = []
    for row in with_month_texts(rows).to_pylist():
        values = {name: _in_key(value) for name, value in row.items()}
        first = next(iter(values.values()))
        is_object = len(values) > 1 or first is None or (isinstance(first, str) and first.lstrip().startswith("{"))
        bare = first if isinstance(first, str) else _compact(first)
        found.append((_compact(values) if is_object else bare).encode())
    return found


def _in_key(value: Any) -> Any:
    """Return a value as JSON; different values give different JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return plain_json(value)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
