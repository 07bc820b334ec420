"""`python -m bench.from_files`: NEXMark queries as users run them, from arriving files to readable views.

In: queries, a format, the number of events per file. Out: a table on stdout and `bench/results/from_files.json`. It
measures `belvedere run` with one epoch per file, without the first epoch. For comparison a warm Spark only reads the
files of one epoch. Processor time is that of the run and all its children. `--keep FOLDER` keeps the CSV files, for
Flink.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

from belvedere.connectors.exporting.event_files import SUFFIXES, WRITERS
from belvedere.functions.spark_types import type_text
from belvedere.schema import TIMESTAMP
from bench.nexmark import EXAMPLE, ROOT, STREAMS, events_module, script_of

FORMATS = ("csv", "json", "parquet")
TICKS = os.sysconf("SC_CLK_TCK")
PATIENCE = 600
"""Maximum seconds of an epoch."""
PLAIN = """
import json, os, sys
from bench.from_files import processor_seconds
from belvedere.spark.session import local_session
spark, best = local_session(), []
for _ in range(4):
    before = processor_seconds(os.getpid())
    for path, columns in json.loads(sys.argv[1]).items():
        spark.read.schema(columns).option("header", True).format(sys.argv[2]).load(path).toArrow()
    best.append(processor_seconds(os.getpid()) - before)
print("plain", min(best))
"""


def processor_seconds(pid: int) -> float:
    """Return the seconds of user and system time of a process and its descendants."""
    below: dict[int, list[int]] = {}
    taken: dict[int, int] = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            found = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        below.setdefault(int(found[1]), []).append(int(entry))
        taken[int(entry)] = sum(map(int, found[11:15]))
    total, waiting = 0, [pid]
    while waiting:
        one = waiting.pop()
        total += taken.get(one, 0)
        waiting += below.get(one, [])
    return total / TICKS


def epochs_of(folder: Path, events: int, count: int, format_: str) -> list[dict[str, Path]]:
    """Return the files of each epoch by table."""
    generator, found = events_module(), []
    for number in range(count):
        tables = generator.events(number * events, (number + 1) * events)
        files = {}
        for name in STREAMS:
            files[name] = folder / f"{name}-{number}.{SUFFIXES[format_]}"
            with files[name].open("wb") as file:
                WRITERS[SUFFIXES[format_]]([_plain(tables[name])], file)
        found.append(files)
    return found


def _plain(rows: pa.Table) -> pa.Table:
    """Return the rows with naive times, the usual form."""
    fields = [f.with_type(pa.timestamp("us")) if f.type == TIMESTAMP else f for f in rows.schema]
    return rows.cast(pa.schema(fields))


def measure(query: str, format_: str, files: Sequence[Mapping[str, Path]], events: int) -> dict[str, Any]:
    """Measure one query over the files of some epochs."""
    with tempfile.TemporaryDirectory(prefix="belvedere-bench-") as folder:
        project = Path(folder)
        script = script_of(query)
        (project / "s.sqrl").write_text(script)
        (project / "belvedere.toml").write_text(
            (EXAMPLE / "belvedere.toml").read_text().replace('"json"', f'"{format_}"')
        )
        names = [n for n in STREAMS if f"_{n}" in script]
        arriving = project / "data" / "auctions"
        _arrive(arriving, names, files[0])
        command = [str(Path(sys.executable).with_name("belvedere")), "run", "s.sqrl", "--port", "0", "--json"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with (project / "log").open("w") as log:
            run = subprocess.Popen(
                command, cwd=project, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment
            )
        try:
            _wait(project / "log", 1, run)
            seconds, spent = [], []
            for number, epoch in enumerate(files[1:], 2):
                before, began = processor_seconds(run.pid), time.perf_counter()
                _arrive(arriving, names, epoch)
                _wait(project / "log", number, run)
                seconds.append(time.perf_counter() - began)
                spent.append(processor_seconds(run.pid) - before)
        finally:
            run.send_signal(signal.SIGTERM)
            run.wait(60)
    plain = plain_reading({n: files[-1][n] for n in names}, format_)
    million = 1e6 / events
    return {
        "query": query,
        "format": format_,
        "events_per_epoch": events,
        "events_per_second": events / median(seconds),
        "processor_s_a_million": median(spent) * million,
        "plain_reading_s_a_million": plain * million,
    }


def _arrive(folder: Path, names: Sequence[str], files: Mapping[str, Path]) -> None:
    for name in names:
        (folder / name).mkdir(parents=True, exist_ok=True)
        hidden = folder / name / f".{files[name].name}"
        shutil.copy(files[name], hidden)
        hidden.rename(hidden.with_name(files[name].name))


def _wait(log: Path, epochs: int, run: subprocess.Popen[bytes]) -> None:
    """Wait until `epochs` epochs are committed."""
    until = time.monotonic() + PATIENCE
    while log.read_text().count('"event": "epoch"') < epochs:
        if run.poll() is not None or time.monotonic() > until:
            raise SystemExit(f"the run ended or takes too long: {log.read_text()[-2000:]}")
        time.sleep(0.05)


def plain_reading(files: Mapping[str, Path], format_: str) -> float:
    """Return the processor seconds of plain Spark to read files, the minimum of some runs."""
    columns = {}
    for name, rows in events_module().events(0, 50).items():
        if name in files:
            columns[str(files[name])] = ", ".join(f"`{f.name}` {type_text(f.type)}" for f in rows.schema)
    command = [sys.executable, "-c", PLAIN, json.dumps(columns), format_]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    return float(out.rpartition("plain ")[2])


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.from_files", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--queries", nargs="+", default=["Q0", "Q4", "Q17"])
    parser.add_argument("--formats", nargs="+", default=["csv"], choices=FORMATS)
    parser.add_argument("--events", type=int, default=1_000_000, help="events of a file")
    parser.add_argument("--epochs", type=int, default=5, help="files; the first does not count")
    parser.add_argument("--keep", type=Path, help="a folder in which the files stay")
    given = parser.parse_args()
    rows = []
    print(f"{'query':<8}{'format':<10}{'events/s':>12}{'processor s a million':>24}{'plain Spark reads':>20}")
    with tempfile.TemporaryDirectory(prefix="belvedere-bench-") as made:
        for format_ in given.formats:
            folder = Path(given.keep or made, format_)
            folder.mkdir(parents=True, exist_ok=True)
            files = epochs_of(folder, given.events, given.epochs, format_)
            for query in given.queries:
                row = measure(query, format_, files, given.events)
                rows.append(row)
                spent = f"{row['processor_s_a_million']:>24.1f}{row['plain_reading_s_a_million']:>20.1f}"
                print(f"{query:<8}{format_:<10}{row['events_per_second']:>12,.0f}{spent}", flush=True)
    results = ROOT / "bench" / "results" / "from_files.json"
    results.parent.mkdir(exist_ok=True)
    results.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
