"""`python -m bench.api [URL]`: costs of requests to the API, as a table. Without a URL: a temporary SQLite file.

A point request reads one row by its key. A nested one reads a group with its machines and the last 24 of its 48 hours,
in one statement. Every request has different variables. The client also uses the processors, so the processor time of
the server and its database per request shows the capacity on separate machines.

`--postgraphile [FOLDER]` starts a Postgres and compares with PostGraphile 5 on it, in turns: Belvedere on the same
Postgres, and on SQLite. It needs npm, which installs PostGraphile into the folder if it is missing. `--epochs` measures
latencies while epochs are written.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from belvedere.api.serving.processes import start_api
from belvedere.catalog.catalog import Catalog
from belvedere.catalog.views import View
from belvedere.optimize.indexes import read_indexes
from belvedere.plan.operators.nodes import Scan
from belvedere.schema import KEY, TIMESTAMP, WEIGHT, Column, Schema
from belvedere.store import EpochRow, StoredTable, open_store
from bench.api_load import Measured, Target, children, in_turns, private_megabytes, send

GROUPS, MACHINES, HOURS = 5_000, 3, 48
START = datetime(2024, 3, 1, tzinfo=UTC)
SCHEMAS = {
    "Group": Schema((Column("groupid", pa.int64(), False), Column("name", pa.string())), ("groupid",)),
    "Group.machines": Schema(
        (
            Column("groupid", pa.int64(), False, hidden=True),
            Column("machineid", pa.int64(), False),
            Column("name", pa.string()),
        ),
        ("groupid", "machineid"),
    ),
    "Group.hours": Schema(
        (
            Column("groupid", pa.int64(), False, hidden=True),
            Column("time_hour", TIMESTAMP, False),
            Column("avg_temp", pa.float64()),
            Column("max_temp", pa.float64()),
        ),
        ("groupid", "time_hour"),
    ),
}
REQUESTS = {
    "point": "query($id: Long!) { groupByKey(groupid: $id) { groupid name } }",
    "nested": "query($id: Long!) { group(filter: {groupid: {eq: $id}}) { name machines { machineid name } "
    "hours(limit: 24, order: [{time_hour: DESC}]) { time_hour avg_temp max_temp } } }",
}
CHANGED = 1_000
"""Number of rows that an epoch of `--epochs` changes."""


def catalog() -> Catalog:
    """Return a catalog of groups with nested machines and hours."""
    pairs = (("groupid", "groupid"),)
    views = {
        n: View(n, n, Scan(n, s), s, parent="Group" if "." in n else None, parent_key=pairs if "." in n else ())
        for n, s in SCHEMAS.items()
    }
    return Catalog(views=views, public=frozenset(views))


def hour(group: int, number: int, warmer: float = 0.0) -> dict[str, object]:
    """Return a row of `Group.hours`, with its stored key."""
    at = START + timedelta(hours=number)
    row = {
        "groupid": group,
        "time_hour": at,
        "avg_temp": 20 + (group * number) % 97 / 7,
        "max_temp": 30 + number / 2 + warmer,
    }
    return row | {KEY: f"{group}/{at}"}


def fill(url: str) -> None:
    """Insert the rows."""
    groups = range(GROUPS)
    rows = {
        "Group": [{"groupid": g, "name": f"group {g}", KEY: f"{g}"} for g in groups],
        "Group.machines": [
            {"groupid": g, "machineid": m, "name": f"machine {m}", KEY: f"{g}/{m}"}
            for g in groups
            for m in range(MACHINES)
        ],
        "Group.hours": [hour(g, h) for g in groups for h in range(HOURS)],
    }
    store, shown = open_store(url), catalog()
    tables = [StoredTable(n, s, indexes=read_indexes(shown, n), fingerprint="bench") for n, s in SCHEMAS.items()]
    store.create(tables)
    store.acquire("bench", 600)
    transaction = store.begin()
    for table in tables:
        transaction.append(table.name, pa.Table.from_pylist(rows[table.name], schema=table.arrow).to_reader())
    transaction.commit(EpochRow(0, START))
    store.release("bench")
    store.close()


def write_epochs(url: str) -> None:
    """Write ten epochs per second until standard input ends; each changes rows of all groups."""
    store = open_store(url)
    store.acquire("bench", 600)
    table = StoredTable("Group.hours", SCHEMAS["Group.hours"])
    schema = table.arrow.append(pa.field(WEIGHT, pa.int64()))
    os.set_blocking(sys.stdin.fileno(), False)
    last = store.last_epoch()
    assert last is not None
    first = number = last.epoch + 1
    while sys.stdin.buffer.read(1) is None:
        started = time.monotonic()
        old, new = float(number - first), float(number - first + 1)
        hours = [(g, number % HOURS) for g in range(number % 5, GROUPS, GROUPS // CHANGED)]
        before = 0.0 if number - first < HOURS else max(0.0, old - HOURS + 1)
        rows = [hour(g, h, before) | {WEIGHT: -1} for g, h in hours] + [hour(g, h, new) | {WEIGHT: 1} for g, h in hours]
        transaction = store.begin()
        transaction.apply("Group.hours", pa.Table.from_pylist(rows, schema=schema).to_reader())
        transaction.commit(EpochRow(number, START + timedelta(seconds=number)))
        number += 1
        time.sleep(max(0.0, 0.1 - (time.monotonic() - started)))
    store.close()


@contextmanager
def writing(url: str) -> Iterator[None]:
    """Run the block while a separate process writes epochs."""
    command = [sys.executable, "-m", "bench.api", "--write", url]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        time.sleep(2.0)
        yield
        assert child.stdin is not None
        child.stdin.close()


@contextmanager
def served(name: str, url: str, processes: int | None, behind: Sequence[int] = ()) -> Iterator[Target]:
    """Yield Belvedere's API over a filled store; `behind` are the processes of its database."""
    with start_api(catalog(), url, processes=processes, settings={"limit": 100}) as serving:
        serving.wait_until_listening()
        own = [s.child.pid for s in serving.supervisors]
        requests = {kind: (text, lambda n: {"id": n}) for kind, text in REQUESTS.items()}
        backends = lambda: [c for p in behind for c in children(p)]  # noqa: E731
        yield Target(name, serving.port, requests, lambda: own, backends)
        print(f"{name}: {max(map(private_megabytes, own)):.0f} MB a process")


def compare(targets: Sequence[Target], options: argparse.Namespace) -> None:
    """Print a table of all kinds of requests."""
    table = Table(title=f"{os.cpu_count()} processors, {options.rounds} rounds of {options.seconds} s in turns")
    headings = ("server", "request", "connections", "requests/s", "p50 ms", "p99 ms", "server us", "database us")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number < 2 else "right")
    for kind in options.requests:
        for target in targets:  # warm up until all code is compiled
            send(target, kind, 16, options.warm, GROUPS)
        for connections in options.connections:
            found = in_turns(targets, kind, connections, options.seconds, GROUPS, options.rounds)
            for name, measured in found.items():
                row = (name, kind, str(connections), *_figures(measured))
                print(*row, sep="\t", file=sys.stderr, flush=True)
                table.add_row(*row)
    Console(width=120).print(table)


def _figures(m: Measured) -> tuple[str, ...]:
    return f"{m.rate:,.0f}", f"{m.half:.2f}", f"{m.slowest:.2f}", f"{m.server:.0f}", f"{m.database:.0f}"


def while_epochs_are_written(target: Target, url: str, options: argparse.Namespace) -> None:
    """Print the latencies of nested requests without and with concurrent epochs, in turns."""
    found: dict[str, list[float]] = {"quiet": [], "with epochs": []}
    send(target, "nested", 16, 1, GROUPS)
    for _ in range(options.rounds):
        found["quiet"] += send(target, "nested", 16, options.seconds, GROUPS)
        with writing(url):
            found["with epochs"] += send(target, "nested", 16, options.seconds, GROUPS)
    for name, latencies in found.items():
        latencies.sort()
        half, slowest = (latencies[len(latencies) * part // 100] * 1e3 for part in (50, 99))
        print(f"{target.name}, nested, 16 connections, {name}: p50 {half:.2f} ms, p99 {slowest:.2f} ms")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.api", description="measure requests to the API")
    parser.add_argument("url", nargs="?", help="a store that may be filled; without it a temporary SQLite file")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument(
        "--warm", type=float, default=10, help="seconds for each kind of request, before it is measured"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=None, help="of each server")
    parser.add_argument("--requests", nargs="+", choices=REQUESTS, default=list(REQUESTS))
    parser.add_argument("--connections", nargs="+", type=int, default=[1, 16, 64])
    parser.add_argument(
        "--postgraphile", nargs="?", const=Path(tempfile.gettempdir()) / "postgraphile", type=Path, metavar="FOLDER"
    )
    parser.add_argument("--epochs", action="store_true", help="latencies while epochs are written, instead")
    parser.add_argument("--write", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write_epochs(options.url)
        return
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        sqlite = f"sqlite:///{folder}/bench.db"
        urls = {options.url.partition(":")[0] if options.url else "sqlite": options.url or sqlite}
        postgres: Sequence[int] = ()
        if options.postgraphile is not None:
            from bench.api_postgraphile import running_postgres

            database = running.enter_context(running_postgres(folder))
            urls, postgres = {"postgres": database.url, "sqlite": sqlite}, (database.process,)
        targets = []
        for name, url in urls.items():
            fill(url)
            behind = postgres if name == "postgres" else ()
            targets.append(running.enter_context(served(f"belvedere, {name}", url, options.processes, behind)))
        if options.epochs:
            for target, url in zip(targets, urls.values(), strict=True):
                while_epochs_are_written(target, url, options)
            return
        if options.postgraphile is not None:
            from bench.api_postgraphile import served_by_postgraphile

            count = options.processes or min(4, os.cpu_count() or 1)
            targets.insert(0, running.enter_context(served_by_postgraphile(database, options.postgraphile, count)))
        compare(targets, options)


if __name__ == "__main__":
    main()
