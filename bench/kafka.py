"""Kafka messages per second, read and decoded, with a broker on this machine: `python -m bench.kafka`.

In: numbers of messages and partitions. Out: elapsed seconds for one range of all messages, by Spark's tasks and in the
driver, and for a small range. Then `belvedere run --once` reads the same messages and keeps two views of them in a
store. This gives seconds of its epochs, and processor seconds beyond those of a run with few messages. The broker uses
the same processors.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from belvedere.compiler import compile_script
from belvedere.connectors.connector import FeedRequest
from belvedere.connectors.kafka import feed as kafka_feed
from belvedere.connectors.kafka.feed import KafkaFeed
from belvedere.project.settings import Source
from belvedere.spark.session import local_session
from belvedere.store import open_store
from belvedere.store.system import EPOCH
from belvedere.values.instants import instant
from tools.servers.kafka import Broker

SCRIPT = "CREATE STREAM Orders (id BIGINT, customer STRING, amount DOUBLE, at TIMESTAMP, note STRING);"
VIEWS = """
IMPORT bus.Orders;
Customers := SELECT customer, count(*) AS orders, sum(amount) AS total, max(at) AS newest FROM Orders GROUP BY customer;
Minutes := SELECT date_trunc('minute', at) AS minute, count(*) AS orders, sum(amount) AS total FROM Orders
  GROUP BY date_trunc('minute', at);
"""
PROJECT = """
[sources.bus]
connector = "kafka"
servers = "{address}"
max_rows = {most}
[sources.bus.tables.Orders]
topic = "{topic}"
columns = {{ id = "BIGINT", customer = "STRING", amount = "DOUBLE", at = "TIMESTAMP", note = "STRING" }}
"""


def message(number: int) -> bytes:
    """Return an order of about 120 bytes."""
    at = f"2024-01-01T00:{number // 60 % 60:02d}:{number % 60:02d}Z"
    order = {"id": number, "customer": f"customer{number % 5000}", "amount": number / 7, "at": at, "note": "x" * 20}
    return json.dumps(order).encode()


def fill(address: str, topic: str, messages: int, partitions: int) -> None:
    """Fill a topic with `messages` messages."""
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
    """Return a feed at its beginning."""
    table = next(iter(compile_script(SCRIPT).catalog.inputs.values()))
    columns = tuple(c for c in table.schema if not c.hidden)
    source = Source("bus", "kafka", options={"servers": address}, tables={"Orders": {"topic": topic}})
    return KafkaFeed(FeedRequest(table, source, "Orders", columns, source.options))


def measure(spark: Any, address: str, topic: str, most: int, in_driver: bool) -> tuple[int, float]:
    """Return the rows of one range, and the seconds to find and read it."""
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


def through(folder: Path, address: str, topic: str, most: int) -> tuple[list[float], float]:
    """Run over a topic with `most` messages per epoch.

    Return the seconds from each epoch's clock to its commit, and the processor seconds in total.
    """
    folder.mkdir()
    (folder / "shop.sqrl").write_text(VIEWS)
    (folder / "belvedere.toml").write_text(PROJECT.format(address=address, topic=topic, most=most))
    url = f"sqlite:///{folder}/shop.db"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "belvedere.cli", "run", str(folder / "shop.sqrl"), "--once", "--store", url]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    with closing(open_store(url)) as store:
        rows = store.reader().execute(f"SELECT clock, committed_at FROM {EPOCH} ORDER BY epoch")
    seconds = [(instant(committed) - instant(clock)).total_seconds() for clock, committed in rows]
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.kafka")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--most", type=int, default=250_000, help="messages an epoch of the run takes at most")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder) / "broker").start()
        spark = local_session()
        try:
            fill(broker.address, "Orders", options.messages, options.partitions)
            fill(broker.address, "Few", options.partitions, options.partitions)
            for name, most, in_driver in (("tasks", 10**9, False), ("driver", 10**9, True), ("small", 800, True)):
                found = [measure(spark, broker.address, "Orders", most, in_driver) for _ in range(options.rounds)]
                rows, best = min(found, key=lambda f: f[1])
                times = ", ".join(f"{s:.2f}" for _, s in found)
                print(
                    f"{name:7} {rows:>10,} messages  {best:7.3f} s  {rows / best:>10,.0f} a second  (rounds: {times})",
                    flush=True,
                )
            _, idle = through(Path(folder) / "few", broker.address, "Few", options.most)
            seconds, busy = through(Path(folder) / "orders", broker.address, "Orders", options.most)
            least, processors = min(seconds[:-1] or seconds), busy - idle
            print(
                f"run     {options.messages:>10,} messages  {sum(seconds):7.3f} s  "
                f"{options.messages / sum(seconds):>10,.0f} a second  (epochs: "
                f"{', '.join(f'{s:.2f}' for s in seconds)}; at best "
                f"{min(options.most, options.messages) / least:,.0f})  processors {processors:.2f} s  "
                f"{options.messages / processors:,.0f} a second of one",
                flush=True,
            )
        finally:
            spark.stop()
            broker.stop()


if __name__ == "__main__":
    main()
