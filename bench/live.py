"""`python -m bench.live [URL]`: time until subscribers receive an epoch. Without a URL: a temporary SQLite file.

In: numbers of subscribers, epochs, and clients that never read. Out: a table. It has the milliseconds from the end of
the commit until a client has the message (median, 99th percentile, maximum). It also has the servers' processor time,
messages and statements per epoch, and the servers' memory before and after.

Half of the subscribers receive events, half have live queries whose answer every epoch changes. A tenth of each half
shares ten queries; the others have one query. Clients are sockets of this process, which uses processor time as well.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import uvloop
from rich.console import Console
from rich.table import Table

from belvedere.api.serving.processes import Serving, start_api
from belvedere.compiler import compile_script
from belvedere.optimize.indexes import read_indexes
from belvedere.schema import WEIGHT
from belvedere.store import EpochRow, StoredTable, open_store
from bench.api_load import processor_seconds

SCRIPT = """
CREATE TABLE Latest (k INT, epoch BIGINT, text STRING, PRIMARY KEY (k));
CREATE STREAM T (k INT, epoch BIGINT) KEEP 1 DAY;
CREATE SUBSCRIPTION Seen ON ADD AS SELECT epoch FROM T WHERE k = 0;
OfK(k INT) := SUBSCRIBE SELECT epoch FROM T WHERE k = :k;
"""
KINDS = 10
"""Number of questions that some subscribers share."""
ROWS = 1_000
EVENTS, STORED = ("Seen", "OfK"), ("Latest", "Seen", "OfK")
START = datetime(2024, 3, 1, tzinfo=UTC)
NUMBER = re.compile(rb'"epoch": ?(\d+)')


class Writer:
    """Commits epochs: an event for each subscriber, and another answer to each live query."""

    def __init__(self, url: str):
        catalog = compile_script(SCRIPT).catalog
        self.tables = {
            n: StoredTable(n, catalog.schema_of(n), indexes=read_indexes(catalog, n), fingerprint="bench")
            for n in STORED
        }
        self.store, self.epoch, self.number = open_store(url), 0, 1
        self.committed: dict[int, float] = {}
        self.store.create(list(self.tables.values()))
        self.store.acquire("bench", 3600)

    def commit(self) -> None:
        """Commit one epoch."""
        transaction = self.store.begin()
        transaction.apply("Latest", self._changed().to_reader())
        for name, count in (("Seen", 1), ("OfK", KINDS)):
            transaction.append(name, self._arrow(name, [self._event(n) for n in range(count)]).to_reader())
        self.number += KINDS
        row = EpochRow(self.epoch, START, extra={"sequences": dict.fromkeys(EVENTS, self.number)})
        transaction.commit(row)
        self.committed[self.epoch] = time.perf_counter()
        self.epoch += 1

    def commit_all(self, epochs: int, pause: float) -> None:
        """Commit `epochs` epochs."""
        for _ in range(epochs):
            self.commit()
            time.sleep(pause)

    def _changed(self) -> pa.Table:
        """Return all rows at first, then a new state of the subscribed ones."""
        made = [
            {
                "_key": str(k),
                "k": k,
                "epoch": epoch,
                "text": "x" * 100,
                "_uid": k,
                "_ingest_time": START,
                WEIGHT: weight,
            }
            for epoch, weight in ((self.epoch - 1, -1), (self.epoch, 1))
            for k in range(KINDS if self.epoch else ROWS)
            if epoch >= 0
        ]
        return self._arrow("Latest", made, pa.field(WEIGHT, pa.int64(), False))

    def _event(self, n: int) -> dict[str, Any]:
        fixed = {"_op": "ADD", "_event_time": START, "_ingest_time": START, "epoch": self.epoch}
        return fixed | {"_key": str(self.number + n), "_seq": self.number + n, "_uid": self.number + n, "_argument1": n}

    def _arrow(self, name: str, rows: list[dict[str, Any]], *further: pa.Field) -> pa.Table:
        schema = pa.schema([*self.tables[name].arrow, *further])
        return pa.Table.from_pylist([{c: r.get(c) for c in schema.names} for r in rows], schema=schema)


def request(text: str) -> bytes:
    body = json.dumps({"query": text}).encode()
    head = (
        "POST /graphql HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\n"
    )
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def never_read(serving: Serving) -> socket.socket:
    """Return a client that requests long answers and reads nothing."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.connect((serving.host, serving.port))
    made.sendall(request("subscription { latest(limit: 1000, order: [{k: DESC}]) { k epoch text } }"))
    return made


class Subscriber(asyncio.Protocol):
    """A subscription over SSE that records when each epoch arrives."""

    def __init__(self, text: str, noted: Callable[[int, float], None]):
        self.text, self.noted = text, noted

    def connection_made(self, transport: Any) -> None:
        transport.write(request(self.text))

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        for found in NUMBER.finditer(data):
            self.noted(int(found[1]), now)
            break  # one message an epoch


@dataclass
class Measured:
    """Recorded times."""

    latencies: list[float] = field(default_factory=list)
    messages: int = 0


def texts(count: int, distinct: bool) -> list[str]:
    """Return the texts of the subscriptions."""
    found = []
    for n in range(count):
        if distinct:
            found.append(f"subscription {{ latest(filter: {{k: {{eq: 0}}}}, limit: {1 + n % 1000}) {{ epoch }} }}")
        elif n % 2:
            own = n % 20 == 1
            text = f"ofK(k: {n // 20 % KINDS})" if own else "seen"
            found.append(f"subscription {{ {text} {{ epoch }} }}")
        else:
            own = n % 20 == 0
            found.append(
                f"subscription {{ latest(filter: {{k: {{eq: {n // 20 % KINDS if own else 0}}}}}) {{ epoch }} }}"
            )
    return found


async def measure(serving: Serving, writer: Writer, asked: list[str], slow: int, epochs: int, pause: float) -> Measured:
    """Subscribe, and record the messages."""
    loop, found, first = asyncio.get_running_loop(), Measured(), writer.epoch

    def noted(epoch: int, now: float) -> None:
        found.messages += 1
        if epoch >= first and epoch in writer.committed:
            found.latencies.append(now - writer.committed[epoch])

    made: list[Any] = []
    for n, text in enumerate(asked):
        made.append((await loop.create_connection(partial(Subscriber, text, noted), serving.host, serving.port))[0])
        if n % 50 == 49:
            await asyncio.sleep(0.05)
    sockets = [never_read(serving) for _ in range(slow)]
    await asyncio.sleep(2)
    found.messages = 0
    writing = threading.Thread(target=writer.commit_all, args=(epochs, pause))
    writing.start()
    while writing.is_alive():
        await asyncio.sleep(0.05)
    await asyncio.sleep(1)
    for each in (*made, *sockets):
        each.close()
    return found


def processes(serving: Serving) -> list[int]:
    return [s.child.pid for s in serving.supervisors]


def megabytes(serving: Serving) -> float:
    """Return the memory of the servers in megabytes (Linux)."""
    found = [Path(f"/proc/{process}/statm").read_text().split()[1] for process in processes(serving)]
    return sum(map(int, found)) * os.sysconf("SC_PAGE_SIZE") / 1e6


def reads(serving: Serving) -> int:
    return sum(count for count, _ in serving.requests().values())


def run(serving: Serving, writer: Writer, given: argparse.Namespace, slow: int, distinct: bool) -> list[str]:
    """Return a row of the table."""
    asked = texts(given.subscribers, distinct)
    uvloop.run(measure(serving, writer, asked, slow, 10, given.pause))  # warm
    before, memory, statements = processor_seconds(processes(serving)), megabytes(serving), reads(serving)
    found = uvloop.run(measure(serving, writer, asked, slow, given.epochs, given.pause))
    times = sorted(found.latencies)
    if not times:
        raise SystemExit("no message came")
    half, late = times[len(times) // 2], times[len(times) * 99 // 100]
    an_epoch = (processor_seconds(processes(serving)) - before) / given.epochs
    latencies = [f"{x * 1e3:.0f}" for x in (half, late, times[-1])]
    counts = [f"{found.messages / given.epochs:,.0f}", f"{(reads(serving) - statements) / given.epochs:.0f}"]
    return [*latencies, f"{an_epoch * 1e3:.0f}", *counts, f"{memory:.0f}", f"{megabytes(serving):.0f}"]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.live", description="measure subscriptions of the API")
    parser.add_argument("url", nargs="?", help="a store that may be filled; without it a temporary SQLite file")
    parser.add_argument("--subscribers", type=int, default=1_000)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--pause", type=float, default=0.25, help="seconds between epochs")
    parser.add_argument("--slow", type=int, default=20, help="clients that never read, in the second row")
    parser.add_argument("--processes", type=int, default=None)
    given = parser.parse_args()
    table = Table(title=f"{given.subscribers} subscribers, an epoch each {given.pause} s, {os.cpu_count()} processors")
    headings = (
        "p50 ms",
        "p99 ms",
        "last ms",
        "server ms/epoch",
        "messages/epoch",
        "reads/epoch",
        "MB before",
        "MB after",
    )
    for heading in ("subscribers", *headings):
        table.add_column(heading, justify="left" if heading == "subscribers" else "right")
    with tempfile.TemporaryDirectory() as folder:
        url = given.url or f"sqlite:///{folder}/bench.db"
        writer = Writer(url)
        writer.commit()
        with start_api(compile_script(SCRIPT).catalog, url, processes=given.processes) as serving:
            serving.wait_until_listening()
            for name, slow, distinct in (
                ("21 questions", 0, False),
                (f"and {given.slow} that never read", given.slow, False),
                ("a question each", 0, True),
            ):
                table.add_row(name, *run(serving, writer, given, slow, distinct))
        writer.store.close()
    Console().print(table)


if __name__ == "__main__":
    main()
