"""The sink: an export's events as messages, exactly once, or at least once where the sink says so.

In: events behind the outlet's mark, in the order of `_seq`. Out: messages in transactions of Kafka. Each transaction also commits, as the
offset of a consumer group of the export's own, the number of the last event in it: this mark and the messages are there together or not at
all. After a crash the producer of the same transactional id ends what the old one left open, and then the mark says what was sent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from itertools import islice
from threading import Thread
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from belvedere.connectors.connector import Outgoing
from belvedere.connectors.kafka.client import Settings, client_settings, told
from belvedere.connectors.kafka.topics import Cluster
from belvedere.connectors.writing import json_lines
from belvedere.errors import BelvedereError, fail
from belvedere.rules.events import EVENT_TIME, OPERATION, SEQUENCE

MOST_MESSAGES = 50_000
"""So many are in one transaction."""
SECONDS = 10.0
"""So long a call waits for the cluster, before it is tried again as a whole."""
TRANSACTION: Settings = {
    "enable.idempotence": True,
    "transaction.timeout.ms": 30_000,
    "message.timeout.ms": 20_000,
    "linger.ms": 5,
    "queue.buffering.max.messages": 2 * MOST_MESSAGES,
}
DELETED = "DELETE"
Sent = tuple[bytes | None, bytes | None, list[tuple[str, bytes]], int]
"""Key, value, headers, and the number of the event."""


class KafkaOutlet:
    """One export on its way into a topic."""

    def __init__(self, outgoing: Outgoing):
        sink = outgoing.sink
        self.sink, self.outgoing = sink.name, outgoing
        self.topic = str(sink.options.get("names", {}).get(outgoing.target, outgoing.target))
        self.settings = client_settings("sink", sink.name, sink.options)
        self.name = f"belvedere-{outgoing.store}-{sink.name}-{outgoing.target}"
        self.is_exact = sink.options.get("exactly_once", True) is True
        self._producer: Producer | None = None
        self._failed: KafkaError | None = None

    def reached(self) -> int | None:
        """The number of the last event that was sent; None for none, or where it cannot know. Raises B6201, B6202, B6210."""
        self._producer = None
        if self.topic not in Cluster(self.sink, self.settings, "sink").names():
            raise fail(
                "B6202",
                f'sink "{self.sink}" has no topic "{self.topic}"',
                hint="make it with the partitions that it is to have",
            )
        with self._told("cannot begin to send"):
            if not self.is_exact:
                self._producer = Producer(
                    self.settings | {k: v for k, v in TRANSACTION.items() if k != "transaction.timeout.ms"}
                )
                return None
            made = Producer(self.settings | TRANSACTION | {"transactional.id": self.name})
            made.init_transactions(SECONDS)  # the old one's open transaction ends here: only then the mark says all
            mark = self._mark()
        self._producer = made
        return mark

    def _mark(self) -> int | None:
        consumer = self._group()
        try:
            (found,) = consumer.committed([TopicPartition(self.topic, 0)], SECONDS)
        finally:
            consumer.close()
        return None if found.offset < 0 else int(found.offset)

    def _group(self) -> Consumer:
        given = {"group.id": self.name, "isolation.level": "read_committed", "enable.auto.commit": False}
        return Consumer(self.settings | given)

    def write(self, pieces: Iterable[pa.Table]) -> None:
        """Send the events. Raises B6201 where the cluster does not answer: ask `reached` then, and send what is behind it."""
        producer = self._producer
        assert producer is not None
        try:
            with self._told("cannot send"):
                messages = self._messages(pieces)
                while some := list(islice(messages, MOST_MESSAGES)):
                    self._send(producer, some)
        except BaseException:
            self._producer = None
            raise

    def _send(self, producer: Producer, some: list[Sent]) -> None:
        self._failed = None
        if self.is_exact:
            producer.begin_transaction()
        for key, value, headers, _ in some:
            producer.produce(self.topic, value, key, headers=headers, on_delivery=self._heed)
            producer.poll(0)
        if not self.is_exact:
            left = producer.flush(SECONDS)
            if left or self._failed is not None:
                raise KafkaException(self._failed or KafkaError(KafkaError._TIMED_OUT, f"{left:,} messages wait"))
            return
        group = self._group()
        try:
            mark = TopicPartition(self.topic, 0, some[-1][-1])
            metadata = group.consumer_group_metadata()
            _within(2 * SECONDS, lambda: producer.send_offsets_to_transaction([mark], metadata, SECONDS))
            producer.commit_transaction(SECONDS)
        finally:
            group.close()

    def _heed(self, error: KafkaError | None, _: Any) -> None:
        self._failed = self._failed or error

    def _messages(self, pieces: Iterable[pa.Table]) -> Iterator[Sent]:
        """Changes by the view's key, with tombstones; rows as they are where it has none, and events of a subscription."""
        key = self.outgoing.key
        for events in pieces:
            shown = events.drop_columns([OPERATION, EVENT_TIME, SEQUENCE]) if key else events
            keys = _keys(events.select(key)) if key else [None] * events.num_rows
            operations = events[OPERATION].to_pylist()
            numbers = events[SEQUENCE].to_pylist()
            for named, line, operation, number in zip(keys, json_lines(shown), operations, numbers, strict=True):
                value = None if key and operation == DELETED else line.encode()
                yield named, value, [("op", operation.encode()), ("seq", str(number).encode())], number

    def _told(self, what: str) -> Any:
        return told(f'sink "{self.sink}" {what} to the topic "{self.topic}"', other=self._fenced)

    def _fenced(self, error: KafkaError) -> BelvedereError | None:
        if error.code() not in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED):
            return None
        hint = "one run at a time sends the events of a store: end the other one"
        return fail("B6210", f'another process sends to the topic "{self.topic}" for this store', hint=hint)

    def close(self) -> None:
        """What was sent is there: nothing waits here."""
        self._producer = None


def _within(seconds: float, call: Callable[[], object]) -> None:
    """A call that may pass over its own timeout: librdkafka's of offsets waits for ever where the group's coordinator is gone (its #5456).

    Raises what it raises, or KafkaException where it does not end: its thread is left behind with its producer, which the next one fences.
    """
    ended: Future[object] = Future()

    def run() -> None:
        try:
            ended.set_result(call())
        except BaseException as error:  # told where it is waited for
            ended.set_exception(error)

    Thread(target=run, name="kafka-offsets", daemon=True).start()
    if not wait([ended], seconds).done:
        raise KafkaException(
            KafkaError(KafkaError._TIMED_OUT, f"the group's coordinator did not answer for {seconds:.0f} seconds")
        )
    ended.result()


def _keys(rows: pa.Table) -> list[bytes]:
    """One column as its bare value, more as a JSON object."""
    lines = json_lines(rows)
    if rows.num_columns > 1:
        return [line.encode() for line in lines]
    values = (next(iter(json.loads(line).values())) for line in lines)
    return [(v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)).encode() for v in values]
