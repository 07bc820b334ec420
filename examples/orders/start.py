"""Start the whole example with one command: a Kafka broker, a Postgres, the run with its API, and a stream of orders.

    python examples/orders/start.py [--port 8080] [--rate 2] [--seconds N]

In: the packages of Belvedere's `dev` extra, and Java. Out: lines with the URLs. All data is in `examples/orders/data`;
a second start continues with it. Ctrl-C ends all processes.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import psycopg  # noqa: E402
import traffic  # noqa: E402
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition  # noqa: E402
from confluent_kafka.admin import AdminClient, NewTopic  # noqa: E402

from tools.servers.kafka import Broker, NoPrograms, NotStarted  # noqa: E402
from tools.servers.postgres import running_postgres  # noqa: E402

ORDERS, PAYMENTS, REVENUE, ALERTS = "shop.orders", "shop.payments", "shop.revenue-by-city", "shop.late-payments"
PARTITIONS = 3


@contextmanager
def servers(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the addresses of a broker with the topics, and of a Postgres with the customers."""
    folder.mkdir(parents=True, exist_ok=True)
    broker = Broker(folder / "kafka").start()
    try:
        with running_postgres(folder / "postgres") as url:
            make_topics(broker.address)
            make_customers(url)
            yield broker.address, url
    finally:
        broker.stop()


def make_topics(address: str) -> None:
    """Create the topics if they do not exist. The view's topic is compacted."""
    admin = AdminClient({"bootstrap.servers": address})
    there = admin.list_topics(timeout=10).topics
    compact = {"cleanup.policy": "compact"}
    wanted = [NewTopic(t, PARTITIONS, 1) for t in (ORDERS, PAYMENTS)] + [
        NewTopic(REVENUE, 1, 1, config=compact),
        NewTopic(ALERTS, 1, 1),
    ]
    missing = [t for t in wanted if t.topic not in there]
    for future in admin.create_topics(missing).values() if missing else ():
        future.result()


def make_customers(url: str) -> None:
    """Create the table of customers and its publication if they do not exist."""
    with psycopg.connect(url, autocommit=True) as connection:
        if connection.execute("SELECT to_regclass('customers')").fetchone() != (None,):
            return
        with connection.transaction():
            connection.execute("CREATE TABLE customers (id bigint PRIMARY KEY, name text NOT NULL, city text NOT NULL)")
            for row in traffic.customers():
                connection.execute("INSERT INTO customers VALUES (%(id)s, %(name)s, %(city)s)", row)
            connection.execute(
                "CREATE PUBLICATION belvedere FOR TABLE customers WITH (publish_via_partition_root = true)"
            )


def orders_so_far(address: str, patience: float = 30.0) -> int:
    """Return the number of orders in the topic, from which numbers continue. A new topic may need a moment to
    appear."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "none", "log_level": 0})
    deadline = time.monotonic() + patience
    try:
        while True:
            try:
                ends = (
                    consumer.get_watermark_offsets(TopicPartition(ORDERS, p), timeout=10) for p in range(PARTITIONS)
                )
                return sum(end for _, end in ends)
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
    finally:
        consumer.close()


def trade(address: str, url: str, rate: float) -> Iterator[None]:
    """Create orders, due payments, and moves of customers: `rate` orders per second. Each step is one order."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5})
    coming: list[tuple[str, int, dict[str, Any]]] = []

    def send(topic: str, row: dict[str, Any], key: int) -> None:
        producer.produce(topic, json.dumps(row).encode(), str(key))
        producer.poll(0)

    with psycopg.connect(url, autocommit=True) as connection:
        for number in count(orders_so_far(address) + 1):
            now = datetime.now(UTC)
            send(ORDERS, traffic.order(number, now), number)
            if (payment := traffic.payment(number, now)) is not None:
                heapq.heappush(coming, (payment["paid_at"], number, payment))
            while coming and coming[0][0] <= now.isoformat():
                _, paid, payment = heapq.heappop(coming)
                send(PAYMENTS, payment, paid)
            if number % 20 == 0:
                customer, city = traffic.move(number)
                connection.execute("UPDATE customers SET city = %s WHERE id = %s", (city, customer))
            producer.flush(10)
            yield
            time.sleep(random.expovariate(rate))


def told(kafka: str, postgres: str, port: int) -> str:
    """Return the URLs to look at."""
    script = HERE / "orders.sqrl"
    return f"""
revenue by city, late payments, live:  http://127.0.0.1:{port}
GraphQL:                               http://127.0.0.1:{port}/graphql
Kafka:                                 {kafka}   (out: {REVENUE}, {ALERTS})
Postgres:                              {postgres}
what was read, and what waits:         ORDERS_KAFKA={kafka} ORDERS_POSTGRES='{postgres}' belvedere sources {script}
Ctrl-C ends all of it
"""


def is_free(port: int) -> bool:
    """Return whether the API can listen on a port, before anything is started."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="An order stream in Kafka, customers in Postgres, views over both.")
    parser.add_argument("--port", type=int, default=8080, help="the API's")
    parser.add_argument("--rate", type=float, default=2.0, help="orders a second")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if not is_free(options.port):
        parser.error(f"port {options.port} is taken by another program: give another one by --port")
    print("a broker of Kafka and a Postgres start; the broker's programs are fetched the first time", flush=True)
    try:
        with servers(HERE / "data") as (kafka, postgres):
            return run_over(kafka, postgres, options)
    except NoPrograms as error:
        print(f"the programs of Kafka cannot be fetched: {error}", file=sys.stderr)
    except NotStarted as error:
        print(f"the broker does not start; the end of {HERE / 'data/kafka/server.log'}:\n{error}", file=sys.stderr)
    except KeyboardInterrupt:  # while the servers start
        return 0
    return 1


def run_over(kafka: str, postgres: str, options: argparse.Namespace) -> int:
    """Run the example until Ctrl-C, the given time, or the end of the run. Return the exit code."""
    end = time.monotonic() + options.seconds
    orders_so_far(kafka)
    environment = os.environ | {"ORDERS_KAFKA": kafka, "ORDERS_POSTGRES": postgres}
    command = [sys.executable, "-m", "belvedere.cli", "run", str(HERE / "orders.sqrl"), "--port", str(options.port)]
    run = subprocess.Popen(command, env=environment, start_new_session=True)
    print(told(kafka, postgres, options.port), flush=True)
    try:
        for _ in trade(kafka, postgres, options.rate):
            if run.poll() is not None:
                return run.returncode
            if time.monotonic() > end:
                break
    except KeyboardInterrupt:
        pass
    finally:
        run.terminate()
        run.wait(60)
    return 0


if __name__ == "__main__":
    sys.exit(main())
