"""`python -m bench.store [URL]`: costs of the store's calls, as a table. Without a URL: a temporary SQLite file."""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from belvedere.schema import TIMESTAMP, WEIGHT, Column, Schema
from belvedere.store import EpochRow, Store, StoredTable, Transaction, open_store

TABLE = StoredTable(
    "Measured",
    Schema(
        (
            Column("customer", pa.int64()),
            Column("total", pa.float64()),
            Column("name", pa.string()),
            Column("at", TIMESTAMP),
        )
    ),
    indexes=(("customer",),),
)
PLAIN = StoredTable("Appended", TABLE.schema)


def rows(numbers: np.ndarray[Any, Any], table: StoredTable, change: float = 0.0) -> pa.Table:
    """Return a row per number."""
    keys = pa.array([f'["customer",{n}]' for n in numbers.tolist()])
    columns = {
        "customer": pa.array(numbers),
        "total": pa.array(numbers * 0.25 + change),
        "name": pa.array([f"name of customer {n}" for n in numbers.tolist()]),
        "at": pa.array(numbers * 1_000_000, TIMESTAMP),
        "_key": keys,
    }
    return pa.table({name: columns[name] for name in table.arrow.names}, schema=table.arrow)


class Bench:
    """Runs each call in a separate epoch and keeps the best time."""

    def __init__(self, store: Store):
        self.store = store
        last = store.last_epoch()
        self.epoch = last.epoch if last else 0
        self.table = Table("what", "rows", "milliseconds", "of this process", title=f"store: {store.dialect}")

    def time(self, what: str, size: int, call: Callable[[Transaction], Any], repeat: int = 3) -> None:
        """Time `call` and its commit."""
        best = (float("inf"), 0.0)
        for _ in range(repeat):
            started, worked = time.perf_counter(), time.process_time()
            transaction = self.store.begin()
            call(transaction)
            self.epoch += 1
            transaction.commit(EpochRow(self.epoch, datetime(2020, 1, 1, tzinfo=UTC)))
            best = min(best, (time.perf_counter() - started, time.process_time() - worked))
        self.table.add_row(what, f"{size:,}", *(f"{seconds * 1000:,.1f}" for seconds in best))


def measure(store: Store, large: int, sizes: list[int]) -> Table:
    """Fill a table with `large` rows, then change and look up some of them."""
    bench = Bench(store)
    store.create([TABLE, PLAIN])
    everything = rows(np.arange(large), TABLE)
    bench.time("an empty epoch", 0, lambda t: None)
    bench.time(
        "append, key index only",
        large,
        lambda t: t.append("Appended", everything.select(PLAIN.arrow.names).to_reader()),
        1,
    )
    fill = weighted((everything, 1))
    bench.time("apply to an empty table", large, lambda t: t.apply("Measured", fill.to_reader()), 1)
    bench.time("read all", large, lambda t: t.lookup("Measured").read_all())
    random = np.random.default_rng(7)
    for size in sizes:
        numbers = random.choice(large, size, replace=False)
        keys = pa.array([f'["customer",{n}]' for n in numbers.tolist()])
        bench.time("look up by key", size, lambda t, k=keys: t.lookup("Measured", k).read_all())  # type: ignore[misc]
        old, new = rows(numbers, TABLE), rows(numbers, TABLE, 0.5)
        bench.time("apply, changes", size, _applying((old, -1), (new, 1)))
        if store.dialect == "postgres":
            bench.time("apply, changes that another process copies", size, _copying((old, -1), (new, 1)))
        bench.time("apply, rows go", size, _applying((old, -1)), 1)
        bench.time("apply, rows come", size, _applying((old, 1)), 1)
    return bench.table


def _applying(*parts: tuple[pa.Table, int]) -> Callable[[Transaction], Any]:
    delta = weighted(*parts)
    return lambda transaction: transaction.apply("Measured", delta.to_reader())


def _copying(*parts: tuple[pa.Table, int]) -> Callable[[Transaction], Any]:
    """Return a call that copies rows in a task of a separate process, like an executor."""
    delta = weighted(*parts)

    def put(task: Any) -> pa.Table:
        receiver, sender = multiprocessing.Pipe(duplex=False)
        work = multiprocessing.get_context("fork").Process(
            target=lambda: sender.send(pa.Table.from_batches(task(iter(delta.to_batches(max_chunksize=100_000)))))
        )
        work.start()
        copied: pa.Table = receiver.recv()
        work.join()
        return copied

    def apply(transaction: Transaction) -> None:
        take = transaction.apply_apart(TABLE, put, len(delta))
        assert take is not None
        take()

    return apply


def weighted(*parts: tuple[pa.Table, int]) -> pa.Table:
    """Return rows with their weights, as a delta."""
    return pa.concat_tables(t.append_column(WEIGHT, pa.repeat(pa.scalar(w, pa.int64()), len(t))) for t, w in parts)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.store", description="measure the store on this machine")
    parser.add_argument(
        "url", nargs="?", default="sqlite://", help="a store's URL; its tables Measured and Appended are dropped"
    )
    parser.add_argument("--large", type=int, default=1_000_000, help="rows in the table")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 1_000, 60_000], help="rows per change")
    options = parser.parse_args()
    store = open_store(options.url)
    store.drop(["Measured", "Appended"])
    bench = measure(store, options.large, options.sizes)
    store.drop(["Measured", "Appended"])
    store.close()
    Console().print(bench)


if __name__ == "__main__":
    main()
