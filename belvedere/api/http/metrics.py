"""Counters and latencies of all serving processes together.

In: a memory-mapped file that the processes share, with one region each. Out: the Prometheus text format (0.0.4). A
process increments cells of its own region; any process can print the sums.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from threading import Lock

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds in seconds."""
OUTCOMES = ("ok", "refused", "failed", "not_ready")
_FIELDS = len(OUTCOMES) + len(BUCKETS) + 1 + 1 + 1 + 1
_MICROSECONDS = len(OUTCOMES) + len(BUCKETS) + 1
_MISSES = _MICROSECONDS + 1
_HEALS = _MISSES + 1
"""Cell with the number of requests to retry views in quarantine; the run polls it."""


def shared_file(processes: int, endpoints: int = 0) -> int:
    """Create a file for the counters of `processes` and `endpoints`.

    Returns its descriptor, which child processes inherit.
    """
    descriptor = os.memfd_create("belvedere-metrics") if hasattr(os, "memfd_create") else _unnamed()
    os.ftruncate(descriptor, _size(processes, endpoints))
    return descriptor


def _size(processes: int, endpoints: int) -> int:
    """Return the size of the file in bytes.

    It has a region per process with two cells per endpoint, then the standby flag of the run and the number of
    restarts.
    """
    return (processes * (_FIELDS + 2 * endpoints) + 2) * 8


def _unnamed() -> int:
    descriptor, path = tempfile.mkstemp()
    os.unlink(path)
    return descriptor


class AllCounts:
    """The counters as seen by the process that started the others; it also counts their restarts."""

    def __init__(self, descriptor: int | None, processes: int, endpoints: Sequence[str] = ()):
        size = _size(processes, len(endpoints))
        self._cells = memoryview(mmap.mmap(-1 if descriptor is None else descriptor, size)).cast("q")
        self._width = _FIELDS + 2 * len(endpoints)
        self._processes, self._endpoints = processes, endpoints
        self._lock = Lock()

    def restarted(self) -> None:
        """Count a process that died; several threads may call this."""
        with self._lock:
            self._cells[-1] += 1

    @property
    def restarts(self) -> int:
        """Return the number of processes that died."""
        return self._cells[-1]

    @property
    def is_standby(self) -> bool:
        """Return whether the run that started the processes waits for another run to end."""
        return self._cells[-2] != 0

    def set_standby(self, waits: bool) -> None:
        """Set whether the run waits for another run to end."""
        self._cells[-2] = int(waits)

    def region(self, process: int) -> memoryview[int]:
        """Return the cells of a process."""
        return self._cells[process * self._width : (process + 1) * self._width]

    def sums(self) -> list[int]:
        """Return the sum of each counter over all processes."""
        return [sum(self._cells[p * self._width + f] for p in range(self._processes)) for f in range(self._width)]

    def heals(self) -> int:
        """Return the number of requests to retry views in quarantine."""
        return self.sums()[_HEALS]

    def requests(self) -> dict[str, tuple[int, float]]:
        """Return, per endpoint, the number of requests that read it and their total seconds."""
        sums = self.sums()[_FIELDS:]
        return {n: (sums[2 * i], sums[2 * i + 1] / 1e6) for i, n in enumerate(self._endpoints)}


class Metrics:
    """The counters of process number `process` of `processes`: requests, and reads of `endpoints`."""

    def __init__(
        self, descriptor: int | None = None, process: int = 0, processes: int = 1, endpoints: Sequence[str] = ()
    ):
        self._all = AllCounts(descriptor, processes, endpoints)
        self._own = self._all.region(process)
        self._places = {n: _FIELDS + 2 * i for i, n in enumerate(endpoints)}

    @property
    def is_standby(self) -> bool:
        """Return whether the run that started this process waits for another run to end."""
        return self._all.is_standby

    def count(self, outcome: int, seconds: float) -> None:
        """Count a request that ended with `OUTCOMES[outcome]` after `seconds`."""
        own = self._own
        own[outcome] += 1
        own[len(OUTCOMES) + bisect_left(BUCKETS, seconds)] += 1
        own[_MICROSECONDS] += int(seconds * 1e6)

    def missed(self, misses: int) -> None:
        """Record the number of operations that this process has parsed."""
        self._own[_MISSES] = misses

    def asks_to_heal(self) -> None:
        """Request a retry of views in quarantine."""
        self._own[_HEALS] += 1

    def read(self, endpoints: Iterable[str], seconds: float) -> None:
        """Record one read of these endpoints together that took `seconds`."""
        for place in (self._places[n] for n in endpoints if n in self._places):
            self._own[place] += 1
            self._own[place + 1] += int(seconds * 1e6)

    def text(
        self,
        epoch: int | None,
        freshness: float | None,
        gauges: Iterable[tuple[str, str, float]] = (),
        endpoints: Iterable[str] | None = None,
    ) -> str:
        """Return the Prometheus text.

        `epoch` is the store's epoch, `freshness` the seconds since its commit. `gauges` are further values: name, text,
        value. `endpoints` restricts the text to these endpoints.
        """
        sums = self._all.sums()
        lines = list(_header("belvedere_requests_total", "counter", "GraphQL requests by how they ended."))
        lines += [f'belvedere_requests_total{{outcome="{o}"}} {sums[i]}' for i, o in enumerate(OUTCOMES)]
        lines += _header("belvedere_request_seconds", "histogram", "Seconds to answer a GraphQL request.")
        total = 0
        for i, bound in enumerate(BUCKETS):
            total += sums[len(OUTCOMES) + i]
            lines.append(f'belvedere_request_seconds_bucket{{le="{bound}"}} {total}')
        total += sums[len(OUTCOMES) + len(BUCKETS)]
        lines.append(f'belvedere_request_seconds_bucket{{le="+Inf"}} {total}')
        lines += [
            f"belvedere_request_seconds_sum {sums[_MICROSECONDS] / 1e6}",
            f"belvedere_request_seconds_count {total}",
        ]
        lines += _header("belvedere_operations_parsed_total", "counter", "Operations that were not in the plan cache.")
        lines.append(f"belvedere_operations_parsed_total {sums[_MISSES]}")
        lines += _header("belvedere_api_restarts_total", "counter", "API processes that died and were restarted.")
        lines.append(f"belvedere_api_restarts_total {self._all.restarts}")
        lines += _header("belvedere_standby", "gauge", "1 while the run is on standby: another one has the store.")
        lines.append(f"belvedere_standby {int(self.is_standby)}")
        reported = None if endpoints is None else set(endpoints)
        asked = [
            (_label(n), *v) for n, v in self._all.requests().items() if v[0] and (reported is None or n in reported)
        ]
        if asked:
            lines += _header("belvedere_endpoint_requests_total", "counter", "Reads of a view or query template.")
            lines += [f'belvedere_endpoint_requests_total{{endpoint="{n}"}} {count}' for n, count, _ in asked]
            lines += _header(
                "belvedere_endpoint_seconds_total", "counter", "Seconds of the reads of a view or query template."
            )
            lines += [f'belvedere_endpoint_seconds_total{{endpoint="{n}"}} {seconds}' for n, _, seconds in asked]
        if epoch is not None:
            lines += [*_header("belvedere_epoch", "gauge", "The last committed epoch."), f"belvedere_epoch {epoch}"]
        if freshness is not None:
            lines += _header("belvedere_freshness_seconds", "gauge", "Seconds since the last epoch was committed.")
            lines.append(f"belvedere_freshness_seconds {freshness}")
        for name, help_, value in gauges:
            lines += [*_header(name, "gauge", help_), f"{name} {value}"]
        return "\n".join(lines) + "\n"


def _header(name: str, kind: str, text: str) -> Iterable[str]:
    return (f"# HELP {name} {text}", f"# TYPE {name} {kind}")


def _label(name: str) -> str:
    return name.replace("\\", r"\\").replace('"', r"\"")
