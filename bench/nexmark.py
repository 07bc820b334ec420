"""The NEXMark queries one by one: events per second at two sizes of epoch, and the cost of a small epoch over a large
state.

In: queries, numbers of events. Out: two tables on stdout and `bench/results/nexmark.json`. It measures whole epochs of
the engine (look-ups, Spark, writes, commit); events are created before the clock starts. "Spark batch" and "DuckDB"
recompute the view over all events so far, the second time, in the same run: the cost of the same freshness without
state.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from belvedere import Workbench
from belvedere.connectors.project_file import load_project
from belvedere.spark.jvm.quiet_session import quiet_session
from belvedere.spark.session import SparkSession

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "nexmark"
QUERIES = [f"Q{n}" for n in range(23)]
LARGE = ("Q1", "Q4", "Q5", "Q8", "Q17", "Q18")
STATEFUL = ("Q4", "Q9", "Q17", "Q18")
MOST = 1_000_000
START = datetime(2024, 3, 1, 12, 0, tzinfo=UTC)
STREAMS = ("Person", "Auction", "Bid")


@dataclass(frozen=True)
class Speed:
    """One query at one size of epoch. Times in seconds; the recomputations are over all events of the run."""

    query: str
    events_per_epoch: int
    epochs: int
    events_per_second: float
    epoch_p50: float
    spark_batch: float
    duckdb_batch: float


@dataclass(frozen=True)
class SmallEpoch:
    """The median time of an epoch of few events over the state of many."""

    query: str
    state_events: int
    events: int
    epoch_p50: float
    spark_batch: float
    duckdb_batch: float


class Bench:
    """One query on a separate Workbench.

    Its inputs are private, so that only the rows that the query needs are kept. `spark`: the session, if it is not
    local.
    """

    def __init__(self, query: str, generator: ModuleType, folder: Path, spark: SparkSession | None = None):
        self.query, self.generator, self.folder = query, generator, folder
        generator.write(folder / "data" / "auctions", count=50, each=50)
        (folder / "belvedere.toml").write_text((EXAMPLE / "belvedere.toml").read_text())
        project = load_project(folder)
        self.wb = Workbench(script_of(query), store=f"sqlite:///{folder}/store.db", spark=spark, project=project)
        self.inputs = {i.name.removeprefix("_"): i.id for i in self.wb.catalog.inputs.values()}
        self.first = 0
        self.clock = START
        self.columns: dict[str, list[str]] = {}

    def epoch(self, events: int) -> float:
        """Return the seconds of an epoch with the next events."""
        tables = self.generator.events(self.first, self.first + events)
        if not self.first and "SideInput" in self.inputs:
            tables["SideInput"] = self.generator.side_input()
        self.first += events
        self.clock += timedelta(seconds=10)
        tables = {name: rows for name, rows in tables.items() if name in self.inputs}
        for name, rows in tables.items():
            self.note(name, rows)
        started = time.perf_counter()
        self.wb.engine.run_epoch({self.inputs[name]: rows for name, rows in tables.items()}, self.clock)
        return time.perf_counter() - started

    def fill(self, events: int) -> None:
        """Insert `events` events, in epochs of at most a million."""
        for first in range(0, events, MOST):
            self.epoch(min(MOST, events - first))

    def note(self, name: str, rows: pa.Table) -> None:
        """Write the new rows to files for the recomputations."""
        from belvedere.engine.ingest import stamp

        source = self.wb.catalog.inputs[self.inputs[name]]
        stamped = stamp(rows, source, self.first, START).select(source.schema.names)
        self.columns[name] = rows.schema.names
        path = self.folder / "arrived" / name / f"{self.first}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(stamped, path, row_group_size=250_000)

    def spark_batch(self) -> float:
        """Return the seconds of Spark to recompute the view from Parquet files."""
        from belvedere.engine.sql.plan_sql import CLOCK_COLUMN, render
        from belvedere.spark.batch import full_plan

        names = {id_: f"bench_{name.lower()}" for name, id_ in self.inputs.items()}
        for name, id_ in self.inputs.items():
            self.wb.spark.read.parquet(str(self.folder / "arrived" / name)).createOrReplaceTempView(names[id_])
        clock = pa.table({CLOCK_COLUMN: pa.array([self.clock], pa.timestamp("us", tz="UTC"))})
        self.wb.spark.createDataFrame(clock).createOrReplaceTempView("bench_clock")
        view = next(v.id for v in self.wb.catalog.views.values() if v.name == self.query)
        text = render(full_plan(self.wb.catalog, view), names.__getitem__, "bench_clock")
        return best_of_two(lambda: self.wb.spark.sql(text).write.format("noop").mode("overwrite").save())

    def duckdb_batch(self) -> float:
        """Return the seconds of DuckDB to recompute the view from its own tables in memory."""
        parts = re.split(r"^-- view: (\w+)\n", (EXAMPLE / "duckdb.sql").read_text(), flags=re.MULTILINE)[1:]
        text = dict(zip(parts[::2], parts[1::2], strict=True))[self.query]
        connection: Any = duckdb.connect()
        connection.execute("SET TimeZone = 'UTC'")
        for name, columns in self.columns.items():
            listed = ", ".join(f'"{c}"' for c in dict.fromkeys((*columns, "_ingest_time")))
            connection.execute(f"CREATE TABLE {name} AS SELECT {listed} FROM '{self.folder}/arrived/{name}/*.parquet'")
        return best_of_two(lambda: connection.execute(f"CREATE OR REPLACE TABLE answer AS {text}"))


def script_of(query: str) -> str:
    """Return the part of the example that a query needs, over private inputs."""
    text = re.sub(r"^--.*\n|/\*\*.*?\*/\n", "", (EXAMPLE / "nexmark.sqrl").read_text(), flags=re.MULTILINE)
    statements = [s.strip() for s in text.split(";") if s.strip()]
    views = {s.partition(" :=")[0]: s for s in statements if not s.startswith("IMPORT")}
    needed = [views[query]]
    for name in re.findall(r"\bQ\d+\b", views[query].partition(" :=")[2]):
        needed.insert(0, "_" + views[name])
    body = re.sub(r"(?<= )Q\d+\b(?! :=)", lambda m: "_" + m[0], ";\n".join(needed))
    body = re.sub(rf"\b({'|'.join((*STREAMS, 'SideInput'))})\b", r"_\1", body)
    imports = [f"IMPORT auctions.{n} AS _{n}" for n in (*STREAMS, "SideInput") if f"_{n}" in body]
    return ";\n".join([*imports, body]) + ";\n"


def best_of_two(work: Any) -> float:
    """Return the seconds of the faster of two runs."""
    times = []
    for _ in range(2):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def events_module() -> ModuleType:
    """Return the module that generates the example's events."""
    spec = importlib.util.spec_from_file_location("nexmark_events", EXAMPLE / "prepare.py")
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = generator
    spec.loader.exec_module(generator)
    return generator


def opened(query: str, spark: SparkSession | None = None) -> Iterator[Bench]:
    """Yield a bench, which is closed with its files deleted when the loop ends."""
    with tempfile.TemporaryDirectory(prefix="belvedere-bench-") as folder:
        bench = Bench(query, events_module(), Path(folder), spark)
        yield bench
        bench.wb.close()


def measure_speed(query: str, size: int, epochs: int, warm: int = 1, spark: SparkSession | None = None) -> Speed:
    """Run `warm` epochs and then the measured ones."""
    for bench in opened(query, spark):
        times = [bench.epoch(size) for _ in range(warm + epochs)][warm:]
        p50 = sorted(times)[len(times) // 2]
        found = Speed(query, size, epochs, size * epochs / sum(times), p50, bench.spark_batch(), bench.duckdb_batch())
    return found


def measure_small(query: str, state: int, events: int, epochs: int, spark: SparkSession | None = None) -> SmallEpoch:
    """Fill the state, warm up with one small epoch, and measure the next."""
    for bench in opened(query, spark):
        bench.fill(state)
        times = sorted([bench.epoch(events) for _ in range(epochs + 1)][1:])
        found = SmallEpoch(query, state, events, times[len(times) // 2], bench.spark_batch(), bench.duckdb_batch())
    return found


def show(*values: object) -> None:
    """Print a line of the table."""
    print("  ".join(f"{v:>13,.2f}" if isinstance(v, float) else f"{v:>13}" for v in values), flush=True)


def measure(
    queries: Sequence[str],
    sizes: Sequence[tuple[str, int, int]],
    epochs: int,
    states: Sequence[int],
    changes: int,
    spark: SparkSession | None = None,
) -> None:
    """Print the tables and write the results; `sizes` are queries with events per epoch and a number of epochs."""
    results: list[Speed | SmallEpoch] = []
    show("query", "events/epoch", "epochs", "events/s", "epoch s", "Spark batch s", "DuckDB s")
    for query, count, number in sizes:
        speed = measure_speed(query, count, number, spark=spark)
        show(
            query,
            count,
            number,
            f"{speed.events_per_second:,.0f}",
            speed.epoch_p50,
            speed.spark_batch,
            speed.duckdb_batch,
        )
        results.append(speed)
    print()
    show("query", "state events", "events/epoch", "epoch s", "Spark batch s", "DuckDB s")
    for query in (q for q in STATEFUL if q in queries):
        for state in states:
            small = measure_small(query, state, changes, epochs, spark)
            show(query, state, changes, small.epoch_p50, small.spark_batch, small.duckdb_batch)
            results.append(small)
    target = ROOT / "bench" / "results" / "nexmark.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps([asdict(r) for r in results], indent=2) + "\n")
    print("\nSpark batch and DuckDB: the view once over all events of the run. Written to bench/results/nexmark.json")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.nexmark", description="measure the NEXMark queries on this machine"
    )
    parser.add_argument("--queries", nargs="+", default=QUERIES, choices=QUERIES, metavar="Q")
    parser.add_argument("--size", type=int, default=10_000, help="events per epoch")
    parser.add_argument("--large", type=int, default=1_000_000, help="events per large epoch; 0: none")
    parser.add_argument(
        "--large-queries", nargs="*", default=LARGE, choices=QUERIES, metavar="Q", help=f"by default {' '.join(LARGE)}"
    )
    parser.add_argument("--large-epochs", type=int, default=2, help="large epochs that count, after one to warm up")
    parser.add_argument("--epochs", type=int, default=5, help="epochs that count, after one to warm up")
    parser.add_argument(
        "--states", type=int, nargs="*", default=[10_000, 100_000, 1_000_000], help="events behind small epochs"
    )
    parser.add_argument("--changes", type=int, default=1_000, help="events in a small epoch")
    parser.add_argument("--master", help="of a Spark cluster; default: this process (see tests/cluster/standalone.py)")
    given = parser.parse_args()
    spark = quiet_session({"master": given.master, "spark.executor.memory": "2g"}) if given.master else None
    sizes = [(q, given.size, given.epochs) for q in given.queries]
    sizes += [(q, given.large, given.large_epochs) for q in given.large_queries if q in given.queries and given.large]
    measure(given.queries, sizes, given.epochs, given.states, given.changes, spark)


if __name__ == "__main__":
    main()
