"""kill -9 of the run and of the broker at random moments: every message counts once, and every change is sent once."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.conftest import Bus
from tests.run.processes import drain, first_line, kill, linux, run_once, start_run, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.nightly, linux]

SCRIPT = """
IMPORT bus.Orders;
Totals := SELECT city, sum(amount) AS amount, count(*) AS n FROM Orders GROUP BY city;
EXPORT Totals TO bus.Totals;
"""
PROJECT = """
store = "{store}"
[sources.bus]
connector = "kafka"
servers = "{address}"
max_rows = 2000
[sources.bus.tables.Orders]
columns = {{ n = "BIGINT", city = "STRING", amount = "BIGINT" }}
[sinks.bus]
connector = "kafka"
servers = "{address}"
"""


class Sender(threading.Thread):
    """Sends orders while it may; those that the broker has taken are counted, each once, whatever happens to the broker."""

    def __init__(self, bus: Bus):
        from confluent_kafka import Producer

        super().__init__(daemon=True)
        given = {"bootstrap.servers": bus.address, "log_level": 0, "linger.ms": 5, "enable.idempotence": True}
        self.producer = Producer(given)
        self.stopped = False
        self.number = 0
        self.taken: Counter[str] = Counter()
        self.amounts: Counter[str] = Counter()

    def run(self) -> None:
        while not self.stopped:
            for _ in range(20):
                order = {"n": self.number, "city": f"c{self.number % 7}", "amount": self.number % 13}
                self.producer.produce("Orders", json.dumps(order), partition=self.number % 3, on_delivery=self.took)
                self.number += 1
            self.producer.poll(0)
            time.sleep(0.05)
        assert self.producer.flush(60) == 0

    def took(self, error: Any, message: Any) -> None:
        assert error is None, error
        order = json.loads(message.value())
        self.taken[order["city"]] += 1
        self.amounts[order["city"]] += order["amount"]


def sent(bus: Bus) -> list[tuple[str, Any, int]]:
    """What a reader of committed messages sees: keys, values, numbers."""
    from confluent_kafka import Consumer, TopicPartition

    given = {"group.id": "test", "enable.partition.eof": True, "isolation.level": "read_committed", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bus.address, "log_level": 0, "auto.offset.reset": "earliest", **given})
    consumer.assign([TopicPartition("Totals", 0, 0)])
    found = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error() is not None:
            consumer.close()
            return found
        value = None if message.value() is None else json.loads(message.value())
        found.append((message.key().decode(), value, int(dict(message.headers())["seq"])))


def started(script: Path) -> tuple[subprocess.Popen[str], str]:
    """A run that has taken orders in, and its address."""
    process = start_run(script, "--yes")
    address = first_line(process)
    lines = drain(process)
    try:
        wait_for(lambda: any("Orders" in line for line in lines), "no epoch came", 300)
    except AssertionError:
        process.terminate()
        raise AssertionError([lines, process.communicate(timeout=60)]) from None
    return process, address


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_run_and_broker_are_killed(own_bus: Bus, tmp_path: Path, store: str, request: pytest.FixtureRequest) -> None:
    url = f"sqlite:///{tmp_path}/s.db" if store == "sqlite" else request.getfixturevalue("postgres_url")
    own_bus.topic(3, "Orders")
    own_bus.topic(1, "Totals")
    script = tmp_path / "s.sqrl"
    script.write_text(SCRIPT)
    (tmp_path / "belvedere.toml").write_text(PROJECT.format(store=url, address=own_bus.address))
    sender, chance = Sender(own_bus), random.Random(store)
    sender.start()
    process: subprocess.Popen[str] | None = None
    address = ""
    for _ in range(8):
        if process is None:
            process, address = started(script)
        time.sleep(chance.uniform(0, 4))
        what = chance.choice(["run", "broker", "both"])
        if what != "broker":
            kill(process, address)
            process = None
        if what != "run":
            own_bus.broker.stop(signal.SIGKILL)
            time.sleep(chance.uniform(0, 3))
            own_bus.broker.start()
    if process is not None:
        kill(process, address)
    sender.stopped = True
    sender.join(90)
    run_once(script)
    events = sent(own_bus)
    assert [seq for _, _, seq in events] == list(range(1, len(events) + 1)), "each change once, in order"
    last = {key: value for key, value, _ in events}
    assert sum(sender.taken.values()) == sender.number
    assert {k: (v["n"], v["amount"]) for k, v in last.items()} == {
        k: (sender.taken[k], sender.amounts[k]) for k in sender.taken
    }
