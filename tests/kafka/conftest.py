"""One broker for the tests of a process, by two listeners; topics of a test's own."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.certificates import PASSWORD, make_certificate
from tools.servers.kafka import Broker, NoPrograms, free_port
from tools.servers.kafka_cluster import Cluster

_topics = count()
ENCRYPTED = """
listeners=PLAINTEXT://127.0.0.1:{{port}},SASL_SSL://127.0.0.1:{secured},CONTROLLER://127.0.0.1:{{controller}}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
listener.name.sasl_ssl.plain.sasl.jaas.config=\\
  org.apache.kafka.common.security.plain.PlainLoginModule required user_anna="plain!1";
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
ssl.keystore.location={keys}
ssl.keystore.password={password}
ssl.keystore.type=PKCS12
"""
"""Settings of a broker with a second listener, which wants encryption and passwords."""


@dataclass(frozen=True)
class Encrypted:
    """Where a broker wants encryption and passwords, and the certificate that it shows there."""

    address: str
    certificate: Path


class Bus:
    """Topics of a broker, and messages into them."""

    def __init__(self, broker: Broker | Cluster, encrypted: Encrypted | None = None):
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient

        self.broker, self.address, self.encrypted = broker, broker.address, encrypted
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
    folder, port = tmp_path_factory.mktemp("kafka"), free_port()
    keys, certificate = make_certificate(folder, "broker")
    broker = running(folder / "broker", ENCRYPTED.format(secured=port, keys=keys, password=PASSWORD))
    yield Bus(broker, Encrypted(f"127.0.0.1:{port}", certificate))
    broker.stop()


@pytest.fixture
def empty_bus(bus: Bus) -> Bus:
    """The broker of this process without the topics of the tests before."""
    left = [name for name in bus.admin.list_topics(timeout=10).topics if not name.startswith("__")]
    if left:
        bus.drop(*left)
    return bus


@pytest.fixture
def own_bus(tmp_path: Any) -> Iterator[Bus]:
    """A broker of the test's own, to be ended and started."""
    broker = running(tmp_path / "broker")
    yield Bus(broker)
    broker.stop()
