"""What a reader of messages sees."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka import Message

    from tests.kafka.conftest import Bus


def messages(address: str, topic: str, partition: int = 0, isolation: str = "read_committed") -> Iterator[Message]:
    """All messages of a partition."""
    from confluent_kafka import Consumer, TopicPartition

    given = {
        "group.id": "test",
        "enable.partition.eof": True,
        "isolation.level": isolation,
        "enable.auto.commit": False,
    }
    consumer = Consumer({"bootstrap.servers": address, "log_level": 0, "auto.offset.reset": "earliest", **given})
    consumer.assign([TopicPartition(topic, partition, 0)])
    try:
        while True:
            message = consumer.poll(30)
            assert message is not None
            if message.error() is not None:
                return
            yield message
    finally:
        consumer.close()


def key_and_value(message: Message) -> tuple[str | None, Any]:
    """The key as text, the value as JSON."""
    key, value = message.key(), message.value()
    return None if key is None else key.decode(), None if value is None else json.loads(value)


def committed(bus: Bus, topic: str, partition: int = 0) -> list[tuple[str | None, Any, int]]:
    """Keys, values, and numbers of events (0 for messages that are none)."""
    return [
        (*key_and_value(m), int(dict(m.headers() or []).get("seq", 0))) for m in messages(bus.address, topic, partition)
    ]
