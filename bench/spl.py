"""SPL windows: rows per second of the kernels by the size of the window and the trigger, in one partition and in many.

    python -m bench.spl [--rows 1000000] [--partitions 1 10000] [--spark]

Each line is one clause: to find the contents of all firings, and to compute count, sum, min and max of each. With `--spark` the same
windows by `count` are computed by Spark's OVER (ROWS n PRECEDING), a row for each row, from data in memory.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pyarrow as pa

from belvedere.kernels.aggregates import aggregate
from belvedere.kernels.rows import SortedRows
from belvedere.kernels.specs import WindowAggregate
from belvedere.kernels.spl.find import find
from belvedere.kernels.spl.rows import NEVER, Partitions, WindowRows
from belvedere.plan.spl_windows import Count, Sliding, SplWindow, Time

SIZES, TRIGGERS = (10, 100, 1_000, 10_000, 100_000), (1, 1_000)
STEP = 1_000
"""Microseconds between two rows of one partition."""
AGGREGATES = ("COUNT", "SUM", "MIN", "MAX")


def stream(rows: int, partitions: int) -> WindowRows:
    """Rows spread evenly over the partitions, by partition and arrival."""
    partition = np.sort(np.arange(rows) % partitions)
    place = np.arange(rows) - np.searchsorted(partition, partition)
    return WindowRows(partition, place * partitions + partition, place * STEP, np.ones(rows, np.bool_))


def run(window: SplWindow, rows: WindowRows, table: SortedRows, partitions: int) -> tuple[int, float, float]:
    """The firings, and the seconds to find and to aggregate them."""
    started = time.perf_counter()
    firings = find(window, rows, Partitions.fresh(partitions), NEVER, int(rows.at.max())).firings
    found = time.perf_counter()
    nothing = np.zeros(len(firings), np.int64)
    for function in AGGREGATES:
        aggregate(WindowAggregate("value", function, "value"), table, firings.first, firings.last, nothing)
    return len(firings), found - started, time.perf_counter() - found


def over(rows: int, partitions: int, size: int) -> float:
    """Seconds of Spark for a value per row."""
    from belvedere.spark.session import local_session

    spark = local_session()
    frame = spark.range(rows).selectExpr("id", f"id % {partitions} AS k", "id * 7919 % 1000 AS value").cache()
    frame.count()
    frame.createOrReplaceTempView("given")
    window = f"OVER (PARTITION BY k ORDER BY id ROWS {size - 1} PRECEDING)"
    values = ", ".join(f"{f}(value) {window} AS {f}" for f in AGGREGATES)
    started = time.perf_counter()
    spark.sql(f"SELECT {values} FROM given").write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 10_000])
    parser.add_argument("--spark", action="store_true", help="beside Spark's OVER")
    options = parser.parse_args()
    print(f"{'window':40} {'partitions':>10} {'firings':>10} {'find s':>8} {'compute s':>10} {'rows/s':>12}")
    for partitions in options.partitions:
        rows = stream(options.rows, partitions)
        table = SortedRows(pa.table({"value": rows.number * 7919 % 1_000}), ())
        for size in SIZES:
            for every in TRIGGERS:
                for eviction in (Count(size), Time(size * STEP)):
                    window = SplWindow(Sliding(eviction, Count(every)), incomplete=True)
                    firings, found, computed = run(window, rows, table, partitions)
                    speed = options.rows / (found + computed)
                    print(f"{window.text:40.40} {partitions:10,} {firings:10,} {found:8.2f} {computed:10.2f} {speed:12,.0f}")
            if options.spark:
                seconds = over(options.rows, partitions, size)
                said = f"OVER (ROWS {size - 1} PRECEDING)"
                print(f"{said:40} {partitions:10,} {options.rows:10,} {'':8} {seconds:10.2f} {options.rows / seconds:12,.0f}")


if __name__ == "__main__":
    main()
