"""Who sends messages while a test goes on, whatever happens to the broker."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.kafka.conftest import Bus


class Sender(threading.Thread):
    """Sends messages while it may, each once; those that the broker has taken are counted by partition."""

    def __init__(self, bus: Bus, topic: str, message: Callable[[int], tuple[dict[str, Any], int]]):
        """`message` says of a number what the message is, and its partition."""
        from confluent_kafka import Producer

        super().__init__(daemon=True)
        given = {"bootstrap.servers": bus.address, "log_level": 0, "linger.ms": 5, "enable.idempotence": True}
        self.producer, self.topic, self.message = Producer(given), topic, message
        self.stopped = False
        self.number = 0
        self.taken: Counter[int] = Counter()
        self.seen: list[dict[str, Any]] = []
        """The messages that the broker has taken."""

    def run(self) -> None:
        while not self.stopped:
            for _ in range(20):
                value, partition = self.message(self.number)
                self.producer.produce(self.topic, json.dumps(value), partition=partition, on_delivery=self.took)
                self.number += 1
            self.producer.poll(0)
            time.sleep(0.05)
        assert self.producer.flush(60) == 0

    def took(self, error: Any, message: Any) -> None:
        assert error is None, error
        self.taken[message.partition()] += 1
        self.seen.append(json.loads(message.value()))
