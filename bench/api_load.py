"""Load for GraphQL servers: targets, measurements, and a cheap client.

In: a `Target`, numbers of connections and seconds. Out: `Measured`. Each request has different variables. It starts no
server.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import cast

import uvloop

STEP = 7919
"""Distance between the numbers of two requests: a prime, so that all rows are read in an irregular order."""


@dataclass(frozen=True)
class Target:
    """A server: `processes` returns its process ids, `behind` those of its database."""

    name: str
    port: int
    requests: Mapping[str, tuple[str, Callable[[int], object]]]
    """Text and variables of a request, by kind."""
    processes: Callable[[], Sequence[int]]
    behind: Callable[[], Sequence[int]]


@dataclass(frozen=True)
class Measured:
    """Requests per second, latencies in milliseconds, and microseconds of processor time per request (server,
    database)."""

    rate: float
    half: float
    slowest: float
    server: float
    database: float


def processor_seconds(processes: Sequence[int]) -> float:
    """Return the processor seconds of these processes so far (Linux)."""
    total = 0.0
    for process in processes:
        fields = _reported(process, "stat").rpartition(")")[2].split()
        if not fields:
            continue
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def children(process: int) -> list[int]:
    """Return the ids of a process and its children."""
    found = [process]
    for child in _reported(process, f"task/{process}/children").split():
        found += children(int(child))
    return found


def _reported(process: int, file: str) -> str:
    """Return the system's figures of a process; empty for one that has ended, such as a database's background
    worker."""
    try:
        return Path(f"/proc/{process}/{file}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def private_megabytes(process: int) -> float:
    """Return the proportional set size of a process, in megabytes."""
    found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{process}/smaps_rollup").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1000


class _Client(asyncio.Protocol):
    """One connection, which sends the next request after the answer to the last one."""

    def __init__(self, request: Callable[[], bytes], until: float, latencies: list[float]):
        self._request, self._until, self._latencies = request, until, latencies
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._answer, self._whole = b"", 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def _send(self) -> None:
        self._answer, self._whole = b"", 0
        self._started = time.perf_counter()
        self._transport.write(self._request())

    def data_received(self, data: bytes) -> None:
        self._answer += data
        if not self._whole:
            head = self._answer.find(b"\r\n\r\n")
            if head < 0:
                return
            said = self._answer[:head].lower()
            if b" 200 " not in said[:20] or b"content-length: " not in said:
                self.ended.set_exception(RuntimeError(self._answer.decode()))
                self._transport.close()
                return
            self._whole = head + 4 + int(said.partition(b"content-length: ")[2].partition(b"\r")[0])
        if len(self._answer) < self._whole:
            return
        now = time.perf_counter()
        self._latencies.append(now - self._started)
        if b'"errors"' in self._answer:
            self.ended.set_exception(RuntimeError(self._answer.decode()))
        elif now < self._until:
            self._send()
            return
        else:
            self.ended.set_result(None)
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_exception(exc or RuntimeError("the server has closed the connection"))


def send(target: Target, kind: str, connections: int, seconds: float, most: int) -> list[float]:
    """Return the latencies of all requests, in seconds. Numbers are below `most`."""
    text, variables = target.requests[kind]
    numbers, latencies = count(1), list[float]()

    def request() -> bytes:
        body = json.dumps({"query": text, "variables": variables(next(numbers) * STEP % most)}).encode()
        head = (
            "POST /graphql HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: "
            f"{len(body)}\r\n\r\n"
        )
        return head.encode() + body

    async def send_all() -> None:
        loop, until = asyncio.get_running_loop(), time.perf_counter() + seconds
        made = [
            await loop.create_connection(lambda: _Client(request, until, latencies), "127.0.0.1", target.port)
            for _ in range(connections)
        ]
        await asyncio.gather(*(client.ended for _, client in made))

    uvloop.run(send_all())
    return latencies


def measure(target: Target, kind: str, connections: int, seconds: float, most: int) -> Measured:
    """Measure one kind of request."""
    server, database = processor_seconds(target.processes()), processor_seconds(target.behind())
    started = time.perf_counter()
    latencies = sorted(send(target, kind, connections, seconds, most))
    took, number = time.perf_counter() - started, len(latencies)
    server, database = processor_seconds(target.processes()) - server, processor_seconds(target.behind()) - database
    half, slowest = latencies[number // 2] * 1e3, latencies[number * 99 // 100] * 1e3
    return Measured(number / took, half, slowest, server / number * 1e6, database / number * 1e6)


def in_turns(
    targets: Sequence[Target], kind: str, connections: int, seconds: float, most: int, rounds: int
) -> dict[str, Measured]:
    """Return each target's medians over `rounds` rounds, in which the targets take turns."""
    found: dict[str, list[Measured]] = {t.name: [] for t in targets}
    for number in range(rounds):
        for target in targets if number % 2 == 0 else reversed(targets):
            found[target.name].append(measure(target, kind, connections, seconds, most))
    return {name: _median(several) for name, several in found.items()}


def _median(several: Sequence[Measured]) -> Measured:
    columns = zip(*((m.rate, m.half, m.slowest, m.server, m.database) for m in several), strict=True)
    return Measured(*(sorted(c)[len(c) // 2] for c in columns))
