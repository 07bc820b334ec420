"""`python -m bench.api [URL]`: what requests to the API cost, as a table. Without a URL: a temporary SQLite file.

A point request reads one row by its key; a nested one a group with its machines and the last 24 of its 48 hours, in one statement. Every
request has another literal. `wrk`, where it is installed, sends them; else a client of this file does, which itself costs more than the
server. The processor time of the server's processes per request says what it could do on a machine of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from belvedere.api.processes import Serving, start_api
from belvedere.catalog import Catalog, View
from belvedere.optimize.indexes import read_indexes
from belvedere.plan.nodes import Scan
from belvedere.schema import TIMESTAMP, Column, Schema
from belvedere.store import EpochRow, StoredTable, open_store

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
    "point": "{ groupByKey(groupid: %d) { groupid name } }",
    "nested": "{ group(filter: {groupid: {eq: %d}}) { name machines { machineid name } "
    "hours(limit: 24, order: [{time_hour: DESC}]) { time_hour avg_temp max_temp } } }",
}


@dataclass(frozen=True)
class Measured:
    """Requests a second, latencies in milliseconds, processor time in microseconds a request."""

    rate: float
    half: float
    slowest: float
    processor: float


def catalog() -> Catalog:
    """Groups with nested machines and hours."""
    pairs = (("groupid", "groupid"),)
    views = {
        n: View(n, n, Scan(n, s), s, parent="Group" if "." in n else None, parent_key=pairs if "." in n else ())
        for n, s in SCHEMAS.items()
    }
    return Catalog(views=views, public=frozenset(views))


def fill(url: str) -> None:
    """Put the rows in."""
    rows = {
        "Group": [{"groupid": g, "name": f"group {g}"} for g in range(GROUPS)],
        "Group.machines": [
            {"groupid": g, "machineid": m, "name": f"machine {m}"} for g in range(GROUPS) for m in range(MACHINES)
        ],
        "Group.hours": [
            {"groupid": g, "time_hour": START + timedelta(hours=h), "avg_temp": 20 + (g * h) % 97 / 7, "max_temp": 30 + h / 2}
            for g in range(GROUPS)
            for h in range(HOURS)
        ],
    }
    store, shown = open_store(url), catalog()
    tables = [StoredTable(n, s, indexes=read_indexes(shown, n), meaning="bench") for n, s in SCHEMAS.items()]
    store.create(tables)
    store.acquire("bench", 600)
    transaction = store.begin()
    for table in tables:
        keys = table.schema.key or ()
        keyed = [r | {"_key": "/".join(str(r[k]) for k in keys)} for r in rows[table.name]]
        transaction.append(table.name, pa.Table.from_pylist(keyed, schema=table.arrow).to_reader())
    transaction.commit(EpochRow(0, START))
    store.release("bench")
    store.close()


def processor_seconds(serving: Serving) -> float:
    """What the server's processes have used so far (Linux)."""
    total = 0.0
    for supervisor in serving.supervisors:
        fields = Path(f"/proc/{supervisor.child.pid}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def with_wrk(serving: Serving, request: str, connections: int, seconds: int) -> tuple[int, float, float, float]:
    """Requests, seconds, and the latencies at 50 and 99 percent, in milliseconds."""
    body = '{"query": "' + request.replace("%d", "'..n..'") + '"}'
    script = (
        'wrk.method = "POST"\nwrk.headers["Content-Type"] = "application/json"\nlocal n = 0\n'
        f"request = function() n = (n + 7919) % {GROUPS}\nreturn wrk.format(nil, '/graphql', nil, '{body}') end\n"
    )
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}", "--latency", "-s", file.name, serving.url]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in text:
        raise SystemExit(f"requests failed:\n{text}")
    found = re.search(r"(\d+) requests in ([\d.]+)s", text)
    assert found is not None
    return int(found[1]), float(found[2]), _milliseconds(text, "50%"), _milliseconds(text, "99%")


def _milliseconds(text: str, name: str) -> float:
    found = re.search(rf"{name}\s+([\d.]+)(us|ms|s)", text)
    assert found is not None
    return float(found[1]) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[found[2]]


def with_client(serving: Serving, request: str, connections: int, seconds: int) -> tuple[int, float, float, float]:
    """The same without `wrk`."""
    latencies: list[float] = []

    async def send(first: int) -> None:
        reader, writer = await asyncio.open_connection(serving.host, serving.port)
        end, number = time.perf_counter() + seconds, first
        while time.perf_counter() < end:
            number = (number + 7919) % GROUPS
            body = f'{{"query": "{request % number}"}}'.encode()
            started = time.perf_counter()
            writer.write(
                b"POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                % len(body)
                + body
            )
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " not in head:
                raise SystemExit(head.decode())
            length = re.search(rb"content-length: (\d+)", head.lower())
            assert length is not None
            await reader.readexactly(int(length[1]))
            latencies.append(time.perf_counter() - started)
        writer.close()

    async def send_all() -> None:
        await asyncio.gather(*(send(n) for n in range(connections)))

    asyncio.run(send_all())
    latencies.sort()
    return len(latencies), seconds, latencies[len(latencies) // 2] * 1e3, latencies[len(latencies) * 99 // 100] * 1e3


def measure(serving: Serving, request: str, connections: int, seconds: int) -> Measured:
    """One kind of request."""
    send = with_wrk if shutil.which("wrk") else with_client
    send(serving, request, connections, 1)
    before = processor_seconds(serving)
    count, took, half, slowest = send(serving, request, connections, seconds)
    return Measured(count / took, half, slowest, (processor_seconds(serving) - before) / count * 1e6)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.api", description="measure requests to the API")
    parser.add_argument("url", nargs="?", help="a store that may be filled; without it a temporary SQLite file")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = options.url or f"sqlite:///{folder}/bench.db"
        fill(url)
        table = Table(title=f"{'wrk' if shutil.which('wrk') else 'own client'}, {os.cpu_count()} processors")
        for heading in ("request", "connections", "requests/s", "p50 ms", "p99 ms", "server us/request"):
            table.add_column(heading, justify="left" if heading == "request" else "right")
        with start_api(catalog(), url, processes=options.processes) as serving:
            serving.wait_until_listening()
            for name, request in REQUESTS.items():
                for connections in (1, 16, 64):
                    found = measure(serving, request, connections, options.seconds)
                    figures = (f"{found.rate:,.0f}", f"{found.half:.2f}", f"{found.slowest:.2f}", f"{found.processor:.0f}")
                    table.add_row(name, str(connections), *figures)
        Console().print(table)


if __name__ == "__main__":
    main()
