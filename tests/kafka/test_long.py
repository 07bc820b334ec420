"""1,000,000 messages from a topic over two views into topics again.

Bad ones are among them; meanwhile a partition is added, and the broker is away.
"""

from __future__ import annotations

import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from belvedere.store import open_store
from belvedere.time.event_time import Clocks
from tests.kafka.conftest import Bus
from tests.kafka.reading import key_and_value, messages
from tests.run.processes import drain, first_line, graphql, linux, run_once, start_run, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.nightly, linux]

SCRIPT = """
IMPORT bus.Orders WATERMARK FOR at AS at - INTERVAL 1 HOUR;
Totals := SELECT city, sum(amount) AS amount, count(*) AS n, max(n) AS last FROM Orders GROUP BY city;
Spans := SELECT window_end, count(*) AS n, sum(amount) AS amount FROM Tumble(Orders, at, INTERVAL 10 MINUTES)
    GROUP BY window_end;
EXPORT Totals TO bus.Totals;
EXPORT Spans TO bus.Spans;
"""
PROJECT = """
store = "{store}"
[sources.bus]
connector = "kafka"
servers = "{address}"
max_rows = 100_000
[sources.bus.tables.Orders]
columns = {{ n = "BIGINT", city = "STRING", amount = "BIGINT", at = "TIMESTAMP" }}
[sinks.bus]
connector = "kafka"
servers = "{address}"
"""
TOTALS = (
    "SELECT 'ö' || n % 1000 AS city, sum(n % 997)::BIGINT AS amount, count(*) AS n, max(n) AS last FROM numbers "
    "GROUP BY 1"
)
SPANS = "SELECT n // 6000 + 1 AS span, count(*) AS n, sum(n % 997)::BIGINT AS amount FROM numbers GROUP BY 1"
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
PARTITIONS = 8
BAD = (b"not json", b'{"n": 1, "city": "a"}{"n": 2}', b'{"n": "x"}', b'{"city": "\xff"}', b"null", b"", b"[]", None)


class Million:
    """What was sent into a topic: numbers in good messages, and the places of bad ones."""

    def __init__(self, bus: Bus):
        self.bus, self.partitions, self.sent = bus, PARTITIONS, 0
        self.numbers: list[int] = []
        self.bad: list[tuple[str, int]] = []
        """Partitions and offsets."""

    def send(self, count: int) -> None:
        """So many messages more, over all partitions; every 9,973rd is a bad one."""
        producer = self.bus.producer
        for n in range(self.sent, self.sent + count):
            if n % 9_973 == 11:
                producer.produce("Orders", BAD[n % len(BAD)], None, n % self.partitions, on_delivery=self.took_bad)
            else:
                self.numbers.append(n)
                producer.produce("Orders", message(n), None, n % self.partitions)
            if n % 1_000 == 0:
                producer.poll(0)
        assert producer.flush(60) == 0
        self.sent += count

    def took_bad(self, error: Any, found: Any) -> None:
        assert error is None, error
        self.bad.append((f"Orders[{found.partition()}]", found.offset()))

    def add_partition(self) -> None:
        """One more; the sender knows it at once."""
        from confluent_kafka.admin import NewPartitions

        self.partitions += 1
        for future in self.bus.admin.create_partitions([NewPartitions("Orders", self.partitions)]).values():
            future.result()
        self.bus = Bus(self.bus.broker)


def message(n: int) -> bytes:
    """An order: ten a second."""
    minutes, second = divmod(n // 10, 60)
    hours, minute = divmod(minutes, 60)
    at = f"2024-01-{hours // 24 + 1:02}T{hours % 24:02}:{minute:02}:{second:02}Z"
    return f'{{"n": {n}, "city": "ö{n % 1000}", "amount": {n % 997}, "at": "{at}"}}'.encode()


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_a_million_messages_with_bad_ones_a_new_partition_and_a_broker_that_is_away(
    own_bus: Bus, tmp_path: Path, store: str, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path}/s.db" if store == "sqlite" else request.getfixturevalue("postgres_url")
    for topic, partitions in (("Orders", PARTITIONS), ("Totals", 1), ("Spans", 1)):
        own_bus.topic(partitions, topic)
    script, sent = tmp_path / "s.sqrl", Million(own_bus)
    script.write_text(SCRIPT)
    (tmp_path / "belvedere.toml").write_text(PROJECT.format(store=url, address=own_bus.address))
    sent.send(500_000)
    process = start_run(script, "--yes")
    try:
        address = first_line(process)
        lines = drain(process)
        wait_for(lambda: any("Orders" in line for line in lines), "no epoch came")
        sent.add_partition()
        sent.send(200_000)
        own_bus.broker.stop(signal.SIGKILL)
        ends = time.monotonic() + 30
        while time.monotonic() < ends:
            assert process.poll() is None, "the run goes on"
            assert graphql(address, "{ totals(limit: 1) { n } }")["totals"], "what is stored is served"
            time.sleep(1)
        own_bus.broker.start()
        sent.send(300_000)
        wait_for(lambda: taken(url) == sent.sent, "not all messages were taken")
    finally:
        process.terminate()
        process.wait(60)
    run_once(script)

    rows, epochs = stored(url)
    assert epochs > 5
    assert sorted((r["file"], r["line"]) for r in rows["_belvedere_rejected"]) == sorted(sent.bad)
    assert len(sent.bad) > 100
    totals, spans = answers(sent.numbers)
    assert {r["city"]: (r["amount"], r["n"], r["last"]) for r in rows["Totals"]} == totals
    assert {r["window_end"]: (r["n"], r["amount"]) for r in rows["Spans"]} == spans
    assert {k: (v["amount"], v["n"], v["last"]) for k, v in folded(own_bus, "Totals").items()} == totals
    ends_ = {datetime.fromisoformat(k): (v["n"], v["amount"]) for k, v in folded(own_bus, "Spans").items()}
    assert ends_ == spans


def answers(numbers: list[int]) -> tuple[dict[str, tuple[int, ...]], dict[datetime, tuple[int, ...]]]:
    """What the views say of these orders, by DuckDB."""
    with duckdb.connect() as connection:
        connection.register("numbers", pa.table({"n": np.array(numbers)}))
        totals, spans = (connection.execute(query).fetchall() for query in (TOTALS, SPANS))
    return {c: (a, n, m) for c, a, n, m in totals}, {
        BEGIN + int(s) * timedelta(minutes=10): (n, a) for s, n, a in spans
    }


def taken(url: str) -> int:
    """How many messages the store has taken."""
    store = open_store(url)
    last = store.last_epoch()
    store.close()
    return 0 if last is None else sum(sum(t["partitions"].values()) for t in last.offsets["Orders"]["topics"].values())


def stored(url: str) -> tuple[dict[str, list[dict[str, Any]]], int]:
    """All tables, and how many epochs there were; the counts of the input are those of its rows."""
    store = open_store(url)
    reader = store.reader()
    try:
        last = store.last_epoch()
        assert last is not None
        counts = Clocks.of_document(last.bounds).counts["Orders"]
        assert (counts.given, counts.late) == (counts.used + counts.malformed, 0)
        return {t.name: reader.rows(t).to_pylist() for t in store.tables()}, last.epoch
    finally:
        reader.close()
        store.close()


def folded(bus: Bus, topic: str) -> dict[str, Any]:
    """The last value of each key, as a reader of committed messages sees it."""
    found: dict[str, Any] = {}
    for number, read in enumerate(messages(bus.address, topic)):
        assert int(dict(read.headers() or [])["seq"]) == number + 1, "each change once, in order"
        key, value = key_and_value(read)
        assert key is not None
        found[key] = value
    return {k: v for k, v in found.items() if v is not None}
