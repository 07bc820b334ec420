"""The sensor example at several sizes of epoch, next to Spark in batch and DuckDB over the same rows.

In: rows per epoch. Out: a table on stdout and `bench/results/iot.json`. It measures whole epochs of the engine:
look-ups, Spark, writes, commit. Rows are created before the clock starts; reading files and serving are not included.
"Spark batch" and "DuckDB" recompute all views of the script over all rows so far: the cost of the same freshness
without state.
"""

from __future__ import annotations

import json
import os
import platform
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from belvedere import Workbench
from belvedere.connectors.project_file import load_project
from belvedere.connectors.sensor_data import SensorOptions, sensor_placements, sensor_readings

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "iot"
START = datetime(2024, 3, 1, 6, 0, tzinfo=UTC)
SENSORS = SensorOptions(rows_per_second=10_000, sensors=10_000, machines=1_000, move_every=0)
WARM_UP = 2


@dataclass(frozen=True)
class Measured:
    """One size of epoch. Times in seconds, memory in MiB (the maximum of Python and its JVM together)."""

    rows_per_epoch: int
    epochs: int
    total_rows: int
    rows_per_second: float
    epoch_p50: float
    epoch_p99: float
    changed_rows_per_epoch: int
    peak_memory: float
    spark_batch: float
    duckdb_batch: float


def measure(sizes: Sequence[int], seconds: float) -> list[Measured]:
    """Measure every size and print each result."""
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(
        "the sensor example: 6 views over 10,000 sensors on 1,000 machines, 10,000 readings a second of event time, "
        "SQLite\n"
    )
    columns = (
        "rows/epoch",
        "epochs",
        "rows/s",
        "p50 s",
        "p99 s",
        "changed/epoch",
        "peak MiB",
        "Spark batch s",
        "DuckDB s",
    )
    print("  ".join(f"{c:>13}" for c in columns), flush=True)
    results = []
    for size in sizes:
        found = measure_size(size, seconds)
        values = (
            f"{found.rows_per_epoch:,}",
            str(found.epochs),
            f"{found.rows_per_second:,.0f}",
            f"{found.epoch_p50:.2f}",
            f"{found.epoch_p99:.2f}",
            f"{found.changed_rows_per_epoch:,}",
            f"{found.peak_memory:,.0f}",
            f"{found.spark_batch:.2f}",
            f"{found.duckdb_batch:.2f}",
        )
        print("  ".join(f"{v:>13}" for v in values), flush=True)
        results.append(found)
    target = ROOT / "bench" / "results" / "iot.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps([asdict(r) for r in results], indent=2) + "\n")
    print("\nSpark batch and DuckDB: all views once over the rows of all epochs. Written to bench/results/iot.json")
    return results


def measure_size(size: int, seconds: float) -> Measured:
    """Run epochs of `size` rows for `seconds`: two warm-up epochs, then at least three."""
    with tempfile.TemporaryDirectory(prefix="belvedere-bench-") as folder:
        script = (EXAMPLE / "iot.sqrl").read_text()
        bench = Workbench(script, store=f"sqlite:///{folder}/iot.db", project=load_project(EXAMPLE))
        readings, placements = (_input_id(bench, n) for n in ("SensorReading", "Sensors"))
        rows, times, changed = [], [], []
        placed = sensor_placements(SENSORS, 0, SENSORS.sensors)
        for number, table in enumerate(_epochs(size)):
            arrivals: dict[str, pa.Table] = {readings: table}
            if number == 0:
                arrivals[placements] = placed
            started = time.perf_counter()
            report = bench.engine.run_epoch(
                arrivals, START + timedelta(seconds=(number + 1) * size / SENSORS.rows_per_second)
            )
            times.append(time.perf_counter() - started)
            changed.append(sum(report.changes.values()))
            rows.append(table)
            if len(times) >= WARM_UP + 3 and sum(times[WARM_UP:]) > seconds:
                break
        peak = peak_memory()
        spark = _spark_batch(bench, Path(folder), pa.concat_tables(rows), placed, readings, placements)
        duck = _duckdb_batch(pa.concat_tables(rows), placed, bench.engine.last.clock or START)
        bench.close()
    steady = sorted(times[WARM_UP:])
    total = size * len(steady)
    return Measured(
        size,
        len(steady),
        size * len(times),
        total / sum(steady),
        steady[len(steady) // 2],
        steady[min(len(steady) - 1, int(len(steady) * 0.99))],
        sum(changed[WARM_UP:]) // len(steady),
        peak,
        spark,
        duck,
    )


def _epochs(size: int) -> Iterator[pa.Table]:
    first = 0
    while True:
        yield sensor_readings(SENSORS, START, first, first + size)
        first += size


def _input_id(bench: Workbench, name: str) -> str:
    return next(i.id for i in bench.catalog.inputs.values() if i.name.casefold() == name.casefold())


def _spark_batch(
    bench: Workbench, folder: Path, rows: pa.Table, placed: pa.Table, readings: str, placements: str
) -> float:
    """Return the seconds of Spark to recompute all views from Parquet files, the second time."""
    from belvedere.engine.ingest import stamp
    from belvedere.engine.sql.plan_sql import CLOCK_COLUMN, render
    from belvedere.spark.batch import full_plan

    names = {readings: "bench_readings", placements: "bench_placements"}
    for id_, table in ((readings, rows), (placements, placed)):
        path = folder / f"{names[id_]}.parquet"
        source = bench.catalog.inputs[id_]
        pq.write_table(stamp(table, source, 1, START).select(source.schema.names), path, row_group_size=250_000)
        bench.spark.read.parquet(str(path)).createOrReplaceTempView(names[id_])
    clock = pa.table({CLOCK_COLUMN: pa.array([bench.engine.last.clock], pa.timestamp("us", tz="UTC"))})
    bench.spark.createDataFrame(clock).createOrReplaceTempView("bench_clock")
    queries = [render(full_plan(bench.catalog, v), names.__getitem__, "bench_clock") for v in bench.catalog.views]
    best = float("inf")
    for _ in range(2):
        started = time.perf_counter()
        for query in queries:
            bench.spark.sql(query).write.format("noop").mode("overwrite").save()
        best = min(best, time.perf_counter() - started)
    return best


def _duckdb_batch(rows: pa.Table, placed: pa.Table, clock: datetime) -> float:
    """Return the seconds of DuckDB to recompute all views from its own tables in memory, the second time."""
    text = (EXAMPLE / "duckdb.sql").read_text()
    queries = re.split(r"^-- view: \w+\n", text, flags=re.MULTILINE)[1:]
    connection: Any = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("readings", rows)
    connection.register("placed", placed)
    connection.execute("CREATE TABLE SensorReading AS SELECT * FROM readings")
    connection.execute("CREATE TABLE Sensors AS SELECT *, row_number() OVER () AS _arrival FROM placed")
    connection.execute(f"CREATE MACRO clock() AS TIMESTAMPTZ '{clock.isoformat()}'")
    best = float("inf")
    for _ in range(2):
        started = time.perf_counter()
        for query in queries:
            connection.execute(f"CREATE OR REPLACE TABLE answer AS {query}")
        best = min(best, time.perf_counter() - started)
    return best


def peak_memory() -> float:
    """Return the maximum memory of this process and its children in MiB (the sum of their peaks; Linux)."""
    own, total = os.getpid(), 0
    parents = {int(p.name): _status(p, "PPid") for p in Path("/proc").iterdir() if p.name.isdigit()}
    for pid in parents:
        walker: int | None = pid
        while walker and walker != own:
            walker = parents.get(walker)
        if walker == own:
            total += _status(Path("/proc") / str(pid), "VmHWM") or 0
    return total / 1024


def _status(folder: Path, key: str) -> int | None:
    try:
        lines = (folder / "status").read_text().split("\n")
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith(key + ":")), None)
