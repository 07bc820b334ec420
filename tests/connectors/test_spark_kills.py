"""kill -9 of a run that reads Postgres by JDBC, by a growing column and by versions: no row is lost or repeated.

The machine is in a zone with summer time, in whose last hour of it the rows' times lie.
"""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from belvedere.store import open_store
from tests.connectors.conftest import PASSWORD, Served
from tests.run.processes import kill, linux, run_once, started

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.nightly, linux]

TABLES = """
DROP TABLE IF EXISTS orders, towns;
CREATE TABLE orders (id bigint PRIMARY KEY, at timestamptz, town int, amount numeric(8, 2));
CREATE TABLE towns (id int PRIMARY KEY, name text, changed bigint);
CREATE SEQUENCE IF NOT EXISTS changes;
"""
PROJECT = """
store = "{store}"
[spark]
"spark.jars" = "{driver}"
[sources.shop]
connector = "spark"
format = "jdbc"
options = {{ url = "{url}", driver = "org.postgresql.Driver", user = "reader", password = "${{env:SHOP_PASSWORD}}" }}
every_seconds = 0.2
[sources.shop.tables.Orders]
options = {{ dbtable = "orders" }}
columns = {{ id = "BIGINT", at = "TIMESTAMP", town = "INT", amount = "DECIMAL(8, 2)" }}
increasing = "at"
[sources.shop.tables.Towns]
options = {{ dbtable = "towns" }}
columns = {{ id = "INT", name = "STRING" }}
primary_key = ["id"]
version = "concat(max(changed), ' ', count(*))"
"""
SCRIPT = """
IMPORT shop.*;
Seen := SELECT id, town FROM Orders;
Totals := SELECT t.name, count(*) AS n, sum(o.amount) AS amount FROM Orders o JOIN Towns t ON o.town = t.id
    GROUP BY t.name;
Names := SELECT id, name FROM Towns;
"""
TOTALS = "SELECT t.name, count(*), sum(o.amount) FROM orders o JOIN towns t ON o.town = t.id GROUP BY t.name"


class Clerk(threading.Thread):
    """Adds orders and changes towns while it may; each order's time is later than the one before."""

    def __init__(self, url: str, seed: str):
        super().__init__(daemon=True)
        self.url, self.chance, self.stopped, self.number = url, random.Random(seed), False, 0

    def run(self) -> None:
        with psycopg.connect(self.url) as connection:
            while not self.stopped:
                for _ in range(self.chance.randint(0, 3)):
                    self.number += 1
                    at = f"timestamptz '2024-10-27 00:30:00Z' + {self.number} * interval '1 second'"
                    given = (self.number, self.chance.randrange(8), self.chance.randrange(10_000) / 100)
                    connection.execute(f"INSERT INTO orders VALUES (%s, {at}, %s, %s)", given)
                for _ in range(self.chance.randint(0, 2)):
                    self.change(connection)
                connection.commit()
                time.sleep(0.02)

    def change(self, connection: psycopg.Connection[Any]) -> None:
        town = self.chance.randrange(8)
        if self.chance.randrange(4) == 0:
            connection.execute("DELETE FROM towns WHERE id = %s", (town,))
            return
        came = "INSERT INTO towns VALUES (%s, %s, nextval('changes')) ON CONFLICT (id) DO UPDATE"
        connection.execute(
            f"{came} SET name = excluded.name, changed = excluded.changed",
            (town, self.chance.choice(["Köln", "Bonn", "Ulm", None, "🚲"])),
        )


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_run_is_killed(
    served_postgres: Served,
    postgres_driver: Path,
    tmp_path: Path,
    store: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = f"sqlite:///{tmp_path}/s.db" if store == "sqlite" else request.getfixturevalue("postgres_url")
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    monkeypatch.setenv("TZ", "Europe/Berlin")
    served_postgres.run(TABLES)
    script = tmp_path / "s.sqrl"
    script.write_text(SCRIPT)
    (tmp_path / "belvedere.toml").write_text(
        PROJECT.format(store=url, driver=postgres_driver, url=served_postgres.jdbc)
    )
    clerk, chance = Clerk(served_postgres.url, store), random.Random(store)
    clerk.start()
    try:
        for _ in range(7):
            process, address = started(script, "Orders")
            time.sleep(chance.uniform(0, 4))
            kill(process, address)
    finally:
        clerk.stopped = True
    clerk.join(60)
    assert clerk.number > 100
    run_once(script)
    assert stored(url, "Seen") == answer(served_postgres, "SELECT id, town FROM orders")
    assert stored(url, "Names") == answer(served_postgres, "SELECT id, name FROM towns")
    assert stored(url, "Totals") == answer(served_postgres, TOTALS)


def answer(shop: Served, query: str) -> list[str]:
    return sorted(map(str, shop.connection.execute(query).fetchall()))  # type: ignore[arg-type]


def stored(url: str, view: str) -> list[str]:
    """The bag of a view's rows."""
    store = open_store(url)
    reader = store.reader()
    try:
        table = next(t for t in store.tables() if t.name == view)
        found = reader.rows(table).to_pylist()
    finally:
        reader.close()
        store.close()
    return sorted(str(tuple(v for n, v in r.items() if n[0] != "_")) for r in found)
