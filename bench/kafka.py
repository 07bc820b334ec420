"""Messages of Kafka a second, read and decoded, by a broker on this machine: `python -m bench.kafka`.

In: how many messages, over how many partitions. Out: seconds by the clock for one span of all of them, by Spark's tasks and in the driver,
and of a small one. The broker uses the same processors.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from belvedere.compiler import compile_script
from belvedere.connectors.connector import Wanted
from belvedere.connectors.kafka import feed as kafka_feed
from belvedere.connectors.kafka.feed import KafkaFeed
from belvedere.settings import Source
from belvedere.spark.session import local_session
from tools.servers.kafka import Broker

SCRIPT = "CREATE STREAM Orders (id BIGINT, customer STRING, amount DOUBLE, at TIMESTAMP, note STRING);"


def message(number: int) -> bytes:
    """An order, of some 120 bytes."""
    at = f"2024-01-01T00:{number // 60 % 60:02d}:{number % 60:02d}Z"
    order = {"id": number, "customer": f"customer{number % 5000}", "amount": number / 7, "at": at, "note": "x" * 20}
    return json.dumps(order).encode()


def fill(address: str, topic: str, messages: int, partitions: int) -> None:
    """A topic with so many messages."""
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result()
    producer = Producer({"bootstrap.servers": address, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    for number in range(messages):
        producer.produce(topic, message(number), partition=number % partitions)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def feed_of(address: str, topic: str) -> KafkaFeed:
    """A feed at its beginning."""
    table = next(iter(compile_script(SCRIPT).catalog.inputs.values()))
    columns = tuple(c for c in table.schema if not c.hidden)
    source = Source("bus", "kafka", options={"servers": address}, tables={"Orders": {"topic": topic}})
    return KafkaFeed(Wanted(table, source, "Orders", columns, source.options))


def measure(spark: Any, address: str, topic: str, most: int, in_driver: bool) -> tuple[int, float]:
    """Rows of one span, and seconds to look and read."""
    kafka_feed.FEW_MESSAGES = 1 << 40 if in_driver else 30_000
    feed = feed_of(address, topic)
    feed.most = most
    started = time.perf_counter()
    span = feed.look(datetime.now(UTC), False)
    assert span is not None
    found: Any = feed.read(spark, span).rows
    seconds = time.perf_counter() - started
    feed.close()
    return int(found.num_rows), seconds


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.kafka")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder) / "broker").start()
        spark = local_session()
        try:
            fill(broker.address, "Orders", options.messages, options.partitions)
            for name, most, in_driver in (("tasks", 10**9, False), ("driver", 10**9, True), ("small", 800, True)):
                found = [measure(spark, broker.address, "Orders", most, in_driver) for _ in range(options.rounds)]
                rows, best = min(found, key=lambda f: f[1])
                times = ", ".join(f"{s:.2f}" for _, s in found)
                print(
                    f"{name:7} {rows:>10,} messages  {best:7.3f} s  {rows / best:>10,.0f} a second  (rounds: {times})",
                    flush=True,
                )
        finally:
            spark.stop()
            broker.stop()


if __name__ == "__main__":
    main()
