"""One broker for the tests of a process; topics of a test's own."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tools.servers.kafka import Broker, NoPrograms
from tools.servers.kafka_cluster import Cluster

_topics = count()


class Bus:
    """Topics of a broker, and messages into them."""

    def __init__(self, broker: Broker | Cluster):
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient

        self.broker, self.address = broker, broker.address
        settings = {"bootstrap.servers": broker.address, "log_level": 0}
        self.admin = AdminClient(settings)
        in_order = {"max.in.flight": 1}  # else a batch that is tried again comes behind the next one
        self.producer = Producer(settings | in_order | {"linger.ms": 2, "queue.buffering.max.messages": 1_000_000})

    def topic(self, partitions: int = 1, name: str | None = None, replicas: int = 1, **config: str) -> str:
        """An empty topic; its name."""
        from confluent_kafka.admin import NewTopic

        made = name or f"Topic{next(_topics)}"
        given = {k.replace("_", "."): v for k, v in config.items()}
        for future in self.admin.create_topics([NewTopic(made, partitions, replicas, config=given)]).values():
            future.result()
        return made

    def drop(self, *topics: str) -> None:
        """Delete topics; returns when they are gone."""
        for future in self.admin.delete_topics(list(topics)).values():
            future.result()
        deadline = time.monotonic() + 30
        while set(topics) & self.admin.list_topics(timeout=10).topics.keys():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def send(self, topic: str, *values: Any, partition: int = 0, key: Any = None, **more: Any) -> None:
        """Messages: bytes as they are, None as a tombstone, all else as JSON."""
        for value in values:
            text = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
            self.producer.produce(topic, text, key, partition, **more)
            self.producer.poll(0)
        assert self.producer.flush(30) == 0


def running(folder: Any, more: str = "") -> Broker:
    """A broker that has started, with `more` settings; the test is skipped where its programs cannot be had."""
    try:
        return Broker(folder, more=more).start()
    except NoPrograms as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    """The broker of this process."""
    broker = running(tmp_path_factory.mktemp("kafka") / "broker")
    yield Bus(broker)
    broker.stop()


@pytest.fixture
def own_bus(tmp_path: Any) -> Iterator[Bus]:
    """A broker of the test's own, to be ended and started."""
    broker = running(tmp_path / "broker")
    yield Bus(broker)
    broker.stop()
