"""Cost of a large epoch for the driver of a cluster.

It measures the bytes of rows that pass through the driver, and processor seconds per process.

In: NEXMark queries, the number of events in an epoch. Out: a table on stdout. It starts a standalone master and two
workers with one core each on this machine. Events are in Parquet files before the clock starts. The first epochs do not
count, because JVMs compile in them.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from belvedere.process.temporary_folders import temporary_folder
from belvedere.spark import buckets
from belvedere.spark.cluster import join_cluster
from belvedere.spark.jvm.quiet_session import quiet_session
from belvedere.spark.session import SparkSession
from bench.nexmark import Bench, events_module
from tests.cluster.standalone import Cluster

TICKS = os.sysconf("SC_CLK_TCK")
FILES = 4


@dataclass(frozen=True)
class Spent:
    """Processor seconds since the start of each process."""

    python: float
    java: float
    workers: float

    def since(self, other: Spent) -> Spent:
        """Return the difference to an earlier measurement."""
        return Spent(self.python - other.python, self.java - other.java, self.workers - other.workers)


def spent(cluster: Cluster) -> Spent:
    """Return the seconds of the driver's Python, of its JVM, and of all worker processes."""
    found = {"python": 0.0, "java": 0.0, "workers": 0.0}
    workers = {w.pid for w in cluster.workers}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, fields = path.read_text().rsplit(")", 1)
        except OSError:  # it has ended
            continue
        _, parent, _, session, *rest = fields.split()
        seconds = sum(map(int, rest[7:11])) / TICKS
        if int(path.parent.name) == os.getpid():
            found["python"] += sum(map(int, rest[7:9])) / TICKS
        elif int(session) in workers:
            found["workers"] += sum(map(int, rest[7:9])) / TICKS
        elif int(parent) == os.getpid() and "java" in name:
            found["java"] += seconds
    return Spent(**found)


class ClusterBench(Bench):
    """A query whose events executors read."""

    def prepared(self, events: int, spark: SparkSession) -> dict[str, Any]:
        """Return the next events as DataFrames over files, by input."""
        tables = self.generator.events(self.first, self.first + events)
        self.first += events
        self.clock += timedelta(seconds=10)
        frames = {}
        for name in (n for n in tables if n in self.inputs):
            folder = self.folder / "given" / f"{name}-{self.first}"
            folder.mkdir(parents=True)
            size = -(-tables[name].num_rows // FILES)
            for n in range(FILES):
                pq.write_table(tables[name].slice(n * size, size), folder / f"{n}.parquet")
            frames[self.inputs[name]] = spark.read.parquet(f"file://{folder}")
        return frames


def measure(query: str, events: int, epochs: int, warm: int, spark: SparkSession, cluster: Cluster) -> None:
    """Print a line for each measured epoch."""
    with tempfile.TemporaryDirectory(prefix="belvedere-bench-") as folder:
        bench = ClusterBench(query, events_module(), Path(folder), spark)
        for epoch in range(warm + epochs):
            frames = bench.prepared(events, spark)
            before, started = spent(cluster), time.perf_counter()
            report = bench.wb.engine.run_epoch(frames, bench.clock)
            cost = spent(cluster).since(before)
            if epoch < warm:
                continue
            share = (cost.python + cost.java) / max(0.01, cost.python + cost.java + cost.workers)
            print(
                f"{query:>5} {events:>11,} {time.perf_counter() - started:>7.2f} {cost.python:>8.2f} {cost.java:>8.2f} "
                f"{cost.workers:>8.2f} {share:>7.0%} {report.driver_bytes:>14,} {report.task_jobs:>5}",
                flush=True,
            )
        bench.wb.close()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.tasks", description="measure the driver's part of large epochs"
    )
    parser.add_argument("--queries", nargs="+", default=["Q4", "Q9", "Q17"], metavar="Q")
    parser.add_argument("--events", type=int, default=1_000_000, help="events per epoch")
    parser.add_argument("--epochs", type=int, default=3, help="epochs that count")
    parser.add_argument("--warm", type=int, default=2, help="epochs before these")
    parser.add_argument("--driver", action="store_true", help="look up and change state in the driver instead")
    given = parser.parse_args()
    if given.driver:
        buckets.always = buckets.ALONE
    folder = temporary_folder("cluster-")
    with Cluster(folder, memory="2g") as cluster:
        spark = quiet_session({"master": cluster.url, "spark.executor.memory": "1g", "memory": "2g"})
        join_cluster(spark, folder / "scratch")
        print("query      events       s   Python     Java  workers  driver   bytes through  jobs")
        for query in given.queries:
            measure(query, given.events, given.epochs, given.warm, spark, cluster)
        spark.stop()


if __name__ == "__main__":
    main()
