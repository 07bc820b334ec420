"""A Kafka cluster of several brokers on this machine, for tests that move partitions and stop their leaders.

In: a folder. Out: a controller and brokers, in one process each. Only `stop` ends the controller.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.servers.kafka import Broker, free_port, java, new_identity, programs

CONTROLLER = """process.roles=controller
listeners=CONTROLLER://127.0.0.1:{port}
controller.quorum.bootstrap.servers=127.0.0.1:{port}
broker.session.timeout.ms=3000
"""
MEMBER = """process.roles=broker
node.id=%d
listeners=PLAINTEXT://127.0.0.1:{port}
controller.quorum.bootstrap.servers=127.0.0.1:%d
offsets.topic.replication.factor=2
transaction.state.log.replication.factor=2
broker.heartbeat.interval.ms=500
replica.lag.time.max.ms=5000
"""
"""Settings of a broker; the last line of a name counts.

A killed broker is noticed after three seconds, like its followers.
"""
FIRST = 2
"""Number of the first broker; the controller's is 1."""


class Cluster:
    """A controller and `brokers` brokers; internal topics have two replicas."""

    def __init__(self, folder: Path, brokers: int = 2):
        port, identity = free_port(), new_identity()
        self.controller = Broker(folder / "controller", port, CONTROLLER, identity)
        numbers = range(FIRST, FIRST + brokers)
        self.brokers = {
            n: Broker(folder / f"broker{n}", more=MEMBER % (n, port), cluster=identity, leads=False) for n in numbers
        }
        self.address = ",".join(b.address for b in self.brokers.values())

    def start(self) -> Cluster:
        """Start the cluster and wait until all brokers answer."""
        self.controller.launch()
        for broker in self.brokers.values():
            broker.launch()
        for broker in self.brokers.values():
            broker.wait(len(self.brokers))
        return self

    def move(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """Move partitions of a topic to these brokers, the first of which becomes the leader, and wait until they are
        moved."""
        moves = [f"{partition}={','.join(map(str, numbers))}" for partition, numbers in replicas.items()]
        program = Path(__file__).with_name("Reassign.java")
        command = [*java(), "-cp", f"{programs()}/*", str(program), self.address, topic, *moves]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr[-2_000:]

    def stop(self) -> None:
        """Stop the cluster."""
        for broker in (*self.brokers.values(), self.controller):
            broker.stop()
