"""SPL windows: rows per second of the kernels by window size, trigger and number of partitions, and epochs of views.

    python -m bench.spl [--rows 1000000] [--partitions 1 10000] [--sizes 10 ... 100000] [--spark]
    python -m bench.spl --view [--partitions 1 10] [--sizes 10 ... 1000000] [--added 1000]

Each line is one clause: the time to find the contents of all firings, and to compute count, sum, min and max of each.
With `--spark` Spark computes the same windows by `count` with OVER (ROWS n PRECEDING), one row per row, from data in
memory. With `--view` it measures epochs of some rows after full windows, whose size is divided among the partitions: by
blocks of rows, and with all rows read again.
"""

from __future__ import annotations

import argparse
import time
from datetime import UTC, datetime, timedelta
from statistics import median
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from belvedere import Workbench
from belvedere.kernels.spl.accumulators import Counted, Extreme, Whole
from belvedere.kernels.spl.firings import find
from belvedere.kernels.spl.window_rows import NEVER, Partitions, WindowRows
from belvedere.plan.operators.spl_windows import Count, Sliding, SplWindow, Time
from belvedere.rules.spl import buffered_rows
from belvedere.rules.spl.block_columns import BLOCK_ROWS

SIZES, TRIGGERS = (10, 100, 1_000, 10_000, 100_000), (1, 1_000)
STEP = 1_000
"""Microseconds between two rows of one partition."""
OPTION = ", aggregateIncompleteWindows"
BIGINT = pa.int64()
AGGREGATES = {
    "count": Counted("value", BIGINT),
    "sum": Whole("value", BIGINT),
    "min": Extreme("value", BIGINT),
    "max": Extreme("value", BIGINT, None, True),
}


def stream(rows: int, partitions: int) -> WindowRows:
    """Return rows spread evenly over the partitions, by partition and arrival."""
    partition = np.sort(np.arange(rows) % partitions)
    place = np.arange(rows) - np.searchsorted(partition, partition)
    return WindowRows(partition, place * partitions + partition, place * STEP, np.ones(rows, np.bool_))


def run(window: SplWindow, rows: WindowRows, values: pa.Table, partitions: int) -> tuple[int, float, float]:
    """Return the number of firings, and the processor seconds to find and to aggregate them."""
    started = time.process_time()
    firings = find(window, rows, Partitions.fresh(partitions), NEVER, int(rows.at.max())).firings
    found = time.process_time()
    for kept in AGGREGATES.values():
        kept.value(kept.fold(kept.of_rows(values), firings.first, firings.last))
    return len(firings), found - started, time.process_time() - found


def over(rows: int, partitions: int, size: int) -> float:
    """Return the seconds of Spark for a value per row."""
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


# --- views


def arrivals(first: int, last: int, partitions: int) -> pa.Table:
    """Return rows of a stream."""
    number = np.arange(first, last)
    return pa.table({"k": pa.array(number % partitions, pa.int32()), "value": pa.array(number * 7919 % 1_000, BIGINT)})


def epochs(size: int, every: int, partitions: int, added: int, count: int = 7) -> list[float]:
    """Return the seconds of epochs of `added` rows, after windows that hold `size` rows in total."""
    read = ", ".join(f"{f}(value) AS {f}_value" for f in AGGREGATES)
    clause = (
        f"sliding, count({max(size // partitions, 1)}), count({every}), partitioned BY k, aggregateIncompleteWindows"
    )
    stream = "CREATE STREAM Given (k INT, value BIGINT);\n"
    bench, times = Workbench(f"{stream}V := SELECT STREAM k, {read} FROM Given WINDOW ({clause}) GROUP BY k;"), []
    (given,) = (i.id for i in bench.catalog.inputs.values() if i.name == "Given")
    clock, first = datetime(2024, 3, 1, tzinfo=UTC), 0
    try:
        for number in range(count + 3):  # the first fills the windows, two warm up
            last = first + (added if number else size + added)
            rows, first = arrivals(first, last, partitions), last
            started = time.perf_counter()
            bench.engine.run_epoch({given: rows}, clock + timedelta(seconds=number))
            times.append(time.perf_counter() - started)
    finally:
        bench.close()
    return times[3:]


def views(options: argparse.Namespace) -> None:
    """Print a table of the seconds of an epoch, the median of seven."""
    print(f"{'rows held':>12} {'partitions':>10} {'trigger':>8} {'by blocks':>10} {'whole':>10}")
    for partitions in options.partitions or (1, 10):
        for size in options.sizes or (*SIZES, 1_000_000):
            for every in TRIGGERS:
                seconds = []
                for rows in (BLOCK_ROWS, 1 << 40):
                    with patch.object(buffered_rows, "BLOCK_ROWS", rows):
                        seconds.append(median(epochs(size, every, partitions, options.added)))
                print(f"{size:12,} {partitions:10,} {every:8,} {seconds[0]:10.2f} {seconds[1]:10.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, nargs="+")
    parser.add_argument("--sizes", type=int, nargs="+")
    parser.add_argument("--added", type=int, default=1_000, help="rows an epoch")
    parser.add_argument("--view", action="store_true", help="epochs of views")
    parser.add_argument("--spark", action="store_true", help="beside Spark's OVER")
    options = parser.parse_args()
    if options.view:
        return views(options)
    print(f"{'window':40} {'partitions':>10} {'firings':>10} {'find s':>8} {'compute s':>10} {'rows/s':>12}")
    for partitions in options.partitions or (1, 10_000):
        rows = stream(options.rows, partitions)
        table = pa.table({"value": rows.number * 7919 % 1_000})
        for size in options.sizes or SIZES:
            for every in TRIGGERS:
                for eviction in (Count(size), Time(size * STEP)):
                    window = SplWindow(Sliding(eviction, Count(every)), incomplete=True)
                    firings, found, computed = run(window, rows, table, partitions)
                    speed = options.rows / (found + computed)
                    print(
                        f"{window.text.removesuffix(OPTION):40} {partitions:10,} {firings:10,} {found:8.2f} "
                        f"{computed:10.2f} {speed:12,.0f}"
                    )
            if options.spark:
                seconds = over(options.rows, partitions, size)
                said = f"OVER (ROWS {size - 1} PRECEDING)"
                print(
                    f"{said:40} {partitions:10,} {options.rows:10,} {'':8} {seconds:10.2f} "
                    f"{options.rows / seconds:12,.0f}"
                )


if __name__ == "__main__":
    main()
