"""What a reader of committed messages sees."""

from __future__ import annotations

import json
from typing import Any

from tests.kafka.conftest import Bus


def committed(bus: Bus, topic: str, partition: int = 0) -> list[tuple[str | None, Any, int]]:
    """Keys, values as JSON, and numbers of events (0 for messages that are none)."""
    from confluent_kafka import Consumer, TopicPartition

    given = {"group.id": "test", "enable.partition.eof": True, "isolation.level": "read_committed", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bus.address, "log_level": 0, "auto.offset.reset": "earliest", **given})
    consumer.assign([TopicPartition(topic, partition, 0)])
    found = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error() is not None:
            consumer.close()
            return found
        key, value = message.key(), message.value()
        number = int(dict(message.headers() or []).get("seq", 0))
        found.append((None if key is None else key.decode(), None if value is None else json.loads(value), number))
