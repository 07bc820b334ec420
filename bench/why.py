"""`python -m bench.why`: seconds of provenance answers, by the number of input rows.

In: numbers of rows, kinds of stores. Out: a table on stdout. `belvedere run --once` fills a store from Parquet files;
nine of ten orders are from one country. It measures the work of `belvedere why` with an open store: to find the row,
and to find its input rows. Those are traced over one level and over two, which includes the shown rows of the view
below.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from belvedere.commands.why import open_query_runner
from belvedere.provenance.key_tests import key_tests
from belvedere.provenance.why.why import find_row, why
from bench.sizing import store_of

SCRIPT = """
IMPORT shop.Orders KEEP 3650 DAYS;
IMPORT shop.Customers;
Countries := SELECT country, count(*) AS orders, sum(price) AS total FROM Orders GROUP BY country;
ByCustomer := SELECT country, customer, count(*) AS orders, sum(price) AS total FROM Orders GROUP BY country, customer;
Best := SELECT country, count(*) AS customers, max(total) AS most FROM ByCustomer GROUP BY country;
Cities := SELECT c.city, count(*) AS orders, sum(o.price) AS total FROM Orders o JOIN Customers c ON c.id = o.customer
    GROUP BY c.city;
Dear := SELECT country, count(*) AS orders FROM Orders WHERE price >= 5000 GROUP BY country;
"""
ROWS: dict[str, dict[str, Any]] = {
    "Countries": {"country": "CH"},
    "ByCustomer": {"country": "CH", "customer": 7},
    "Best": {"country": "CH"},
    "Cities": {"city": "city 3"},
    "Dear": {"country": "CH"},
}
PROJECT = '[sources.shop]\npath = "data"\nformat = "parquet"\n[spark]\nmemory = "4g"\n'
PIECE = 1_000_000
CUSTOMERS, CITIES = 100_000, 10


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.why", description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument(
        "--stores", nargs="+", choices=["sqlite", "postgres"], default=["sqlite"], help="a Postgres is started"
    )
    parser.add_argument("--views", nargs="+", choices=list(ROWS), default=list(ROWS))
    options = parser.parse_args()
    print(
        "{:>12}{:>10}  {:<12}{:>12}{:>10}{:>10}{:>10}".format(
            "orders", "store", "view", "of them", "find", "why", "opened"
        )
    )
    for kind in options.stores:
        for rows in options.rows:
            with TemporaryDirectory(prefix="belvedere-why-") as name, store_of(kind, Path(name)) as url:
                fill(Path(name), rows, url)
                for view in options.views:
                    print(f"{rows:>12,}{kind:>10}  {measured(Path(name) / 'shop.sqrl', url, view)}", flush=True)


def fill(folder: Path, rows: int, url: str) -> None:
    """Create a store over `rows` orders."""
    (folder / "shop.sqrl").write_text(SCRIPT)
    (folder / "belvedere.toml").write_text(PROJECT)
    write_data(folder / "data", rows)
    command = [sys.executable, "-m", "belvedere.cli", "run", str(folder / "shop.sqrl"), "--once", "--store", url]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def measured(script: Path, url: str, view: str) -> str:
    """Return the number of orders behind a row of a view, and the seconds to find it and to trace one level and two."""
    with open_query_runner(url, script) as (query_runner, _):
        requested = key_tests(query_runner.catalog, view, ROWS[view])
        started = time.perf_counter()
        row, epoch = find_row(query_runner, view, requested)
        found = time.perf_counter()
        answer = why(query_runner, view, row, epoch)
        reported = time.perf_counter()
        why(query_runner, view, row, epoch, depth=2)
        opened = time.perf_counter()
    count = sum(r.count for r in answer.inputs if query_runner.catalog.name_of(r.relation) == "Orders")
    return f"{view:<12}{count:>12,}{found - started:>10.2f}{reported - found:>10.2f}{opened - reported:>10.2f}"


def write_data(folder: Path, rows: int) -> None:
    """Write orders in several files, and their customers."""
    (folder / "Orders").mkdir(parents=True)
    (folder / "Customers").mkdir()
    customers = np.arange(CUSTOMERS)
    pq.write_table(
        pa.table({"id": customers, "city": [f"city {c % CITIES}" for c in customers]}),
        folder / "Customers" / "all.parquet",
    )
    random = np.random.default_rng(1)
    for first in range(0, rows, PIECE):
        count = min(PIECE, rows - first)
        numbers = np.arange(first, first + count)
        orders = {
            "id": numbers,
            "country": pa.array(np.where(numbers % 10 == 0, "AT", "CH")),
            "customer": numbers % CUSTOMERS,
            "price": random.integers(0, 10_000, count),
        }
        pq.write_table(pa.table(orders), folder / "Orders" / f"{first:012}.parquet")


if __name__ == "__main__":
    main()
