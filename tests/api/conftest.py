"""The example's rows behind every kind of reader: SQLite in memory, a file by both libraries, Postgres."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zlib import crc32

import api_example as example
import pytest
from api_reader import MemoryReader, OnLoop, Recorded

from belvedere.api.http.garbage_collection import shorten_collections
from belvedere.store import EpochRow, open_reader, open_served_reader, open_store
from tests.api import node_clients


def fill(url: str) -> None:
    """Make a store with the example's rows, in its eighth epoch."""
    store = open_store(url)
    tables = example.tables(example.catalog())
    store.create(list(tables.values()))
    store.acquire("test", 600)
    clock = datetime(2020, 1, 1, 12, tzinfo=UTC)
    for epoch in range(8):
        transaction = store.begin()
        if epoch == 7:
            for name, rows in example.rows().items():
                transaction.append(name, example.arrow(tables[name], rows).to_reader())
        transaction.commit(EpochRow(epoch, clock))
    store.release("test")
    store.close()


@pytest.fixture(scope="session")
def sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("api") / "store.db"
    fill(f"sqlite:///{path}")
    return f"sqlite:///{path}"


@pytest.fixture(scope="session")
def postgres_store(postgres_server: str) -> Iterator[str]:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(postgres_server, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE api_example")
    url = postgres_server.replace("/postgres?", "/api_example?")
    fill(url)
    yield url
    with dbapi.connect(postgres_server, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("DROP DATABASE api_example WITH (FORCE)")


ON_SQLITE, ON_POSTGRES = ("memory", "file", "library"), ("postgres", "prepared")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each question is asked of two readers by day, one on each database, in rotation over the questions; of the other
    three at night."""
    for item in items:
        asked = (
            item.callspec.params.get("reader")
            if isinstance(item, pytest.Function) and hasattr(item, "callspec")
            else None
        )
        if asked in (*ON_SQLITE, *ON_POSTGRES) and asked not in readers_by_day(item.nodeid.replace(str(asked), "")):
            item.add_marker(pytest.mark.nightly)


def readers_by_day(question: str) -> tuple[str, str]:
    """The readers whose turn it is, for the name of a question."""
    turn = crc32(question.encode())
    return ON_SQLITE[turn % len(ON_SQLITE)], ON_POSTGRES[turn // len(ON_SQLITE) % len(ON_POSTGRES)]


@pytest.fixture(params=[*ON_SQLITE, *(pytest.param(p, marks=pytest.mark.postgres) for p in ON_POSTGRES)])
def reader(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A reader of the example's rows that notes its statements; `prepared` is that of the API's processes."""
    if request.param == "memory":
        made: Any = MemoryReader()
        yield made
        made.close()
        return
    url = request.getfixturevalue("postgres_store" if request.param in ("postgres", "prepared") else "sqlite_file")
    store = open_store(url) if request.param == "library" else None
    recorded = Recorded(OnLoop(open_served_reader(url, None, 2)) if request.param == "prepared" else open_reader(url))
    yield recorded
    recorded.close()
    if store is not None:
        store.close()


@pytest.fixture
def as_in_a_serving_process() -> Iterator[None]:
    """No full collection while requests are asked: over what thousands of tests have left it takes a third of a
    second."""
    kept = gc.get_threshold()
    shorten_collections()
    yield
    gc.set_threshold(*kept)
    gc.unfreeze()


@pytest.fixture(scope="session")
def node_folder() -> Path:
    """The folder of the reference clients."""
    return node_clients.install()


@pytest.fixture
def subscribe(node_folder: Path) -> Iterator[Callable[..., node_clients.NodeClient]]:
    """Starts subscriptions by reference clients."""
    started: list[node_clients.NodeClient] = []

    def start(*given: Any, **config: Any) -> node_clients.NodeClient:
        started.append(node_clients.NodeClient(node_folder, *given, **config))
        return started[-1]

    yield start
    for client in started:
        client.close()
