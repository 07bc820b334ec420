"""`python -m bench.running`: the cost of a running total in an epoch of few rows at the end of a long order.

In: the number of earlier rows. Out: a table on stdout. It measures whole epochs of the engine, the median of some.
"Continued" is the default rule, "whole" is `without("running")`; DuckDB recomputes the view over all rows, in memory.
One run measures all of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import duckdb
import pyarrow as pa

from belvedere import Workbench
from belvedere.pipeline.choose import without
from belvedere.rules.options import Options

TABLE = "CREATE TABLE T (k INT, n INT, x INT, PRIMARY KEY (k));\n"
QUERY = "SELECT k, sum(x) OVER (ORDER BY n) AS total FROM T"


def rows(first: int, last: int) -> pa.Table:
    """Return rows `first` to `last` of the table, in the order of n."""
    numbers = pa.array(range(first, last), pa.int32())
    return pa.table({"k": numbers, "n": numbers, "x": pa.array([n % 7 for n in range(first, last)], pa.int32())})


def epochs(before: int, added: int, count: int, options: Options) -> list[float]:
    """Return the seconds of `count` epochs of `added` rows after `before` others."""
    edges = [0, *(before + added * n for n in range(count + 2))]  # the first loads, the second warms up
    return timed(f"{TABLE}V := {QUERY};", options, (rows(a, b) for a, b in pairwise(edges)))[2:]


def timed(script: str, options: Options, arrivals: Iterable[pa.Table]) -> list[float]:
    """Return the seconds of an epoch per arrival at the script's only table."""
    wb, clock, times = Workbench(script, options=options), datetime(2024, 3, 1, tzinfo=UTC), []
    (table,) = wb.catalog.inputs.values()
    try:
        for number, arrived in enumerate(arrivals):
            started = time.perf_counter()
            wb.engine.run_epoch({table.id: arrived}, clock + timedelta(seconds=number))
            times.append(time.perf_counter() - started)
    finally:
        wb.close()
    return times


def in_duckdb(count: int) -> float:
    """Return the seconds to recompute the view."""
    connection, all_rows = duckdb.connect(), rows(0, count)
    connection.register("arrived", all_rows)
    connection.execute("CREATE TABLE T AS SELECT * FROM arrived")
    started = time.perf_counter()
    connection.execute(f"CREATE TABLE answer AS {QUERY}")
    return time.perf_counter() - started


def median(times: Sequence[float]) -> float:
    return sorted(times)[len(times) // 2]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.running", description="measure running totals on this machine"
    )
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000], help="rows before the epochs"
    )
    parser.add_argument("--added", type=int, default=1_000, help="rows an epoch")
    parser.add_argument("--epochs", type=int, default=5)
    given = parser.parse_args()
    print(("{:>12}" * 4).format("rows before", "continued", "whole", "DuckDB"))
    for before in given.rows:
        continued, whole = (
            median(epochs(before, given.added, given.epochs, o)) for o in (Options(), without("running"))
        )
        print(f"{before:>12,}{continued:>12.2f}{whole:>12.2f}{in_duckdb(before):>12.2f}", flush=True)


if __name__ == "__main__":
    main()
