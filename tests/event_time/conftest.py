"""Stores for the event-time suite: SQLite in every run, Postgres in the nightly one (a small test of it is in every
run)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

NIGHTLY = pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.nightly])


def _url(request: pytest.FixtureRequest) -> str:
    return "sqlite://" if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))


@pytest.fixture(params=["sqlite", NIGHTLY])
def store(request: pytest.FixtureRequest) -> str:
    """The URL of an empty store; that of Postgres is for the nightly run."""
    return _url(request)


@pytest.fixture(scope="module", params=["sqlite", NIGHTLY])
def module_store(request: pytest.FixtureRequest) -> Iterator[str]:
    """One store for all tests of a file."""
    if request.param == "sqlite":
        yield "sqlite://"
        return
    with _database(str(request.getfixturevalue("postgres_server")), f"module_{abs(hash(request.node.name))}") as url:
        yield url


@contextmanager
def _database(server: str, name: str) -> Iterator[str]:
    from adbc_driver_postgresql import dbapi

    from belvedere.engine.store_folders import beside

    with dbapi.connect(server, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        url = server.replace("/postgres?", f"/{name}?")
        yield url
        shutil.rmtree(beside(url), ignore_errors=True)
        cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")
