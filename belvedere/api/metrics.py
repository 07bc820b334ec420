"""Counts and latencies of all serving processes together.

In: one memory-mapped file that the processes share, one region each. Out: the Prometheus text format (0.0.4). Counting is one
addition in the process's own region; any process can print the sums.
"""

from __future__ import annotations

import mmap
import os
from bisect import bisect_left
from collections.abc import Iterable
from threading import Lock

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds in seconds."""
OUTCOMES = ("ok", "refused", "failed", "not_ready")
_FIELDS = len(OUTCOMES) + len(BUCKETS) + 1 + 1 + 1
_MICROSECONDS = len(OUTCOMES) + len(BUCKETS) + 1
_MISSES = _MICROSECONDS + 1


def shared_file(processes: int) -> int:
    """A new file for the counts of so many processes: its descriptor, to be inherited."""
    descriptor = os.memfd_create("belvedere-metrics") if hasattr(os, "memfd_create") else _unnamed()
    os.ftruncate(descriptor, _size(processes))
    return descriptor


def _size(processes: int) -> int:
    """A region for each process, and the count of the restarts."""
    return (processes * _FIELDS + 1) * 8


def _unnamed() -> int:
    import tempfile

    descriptor, path = tempfile.mkstemp()
    os.unlink(path)
    return descriptor


class Restarts:
    """Counts processes that died, in the process that starts them again."""

    def __init__(self, descriptor: int, processes: int):
        self._memory = mmap.mmap(descriptor, _size(processes))
        self._cells = memoryview(self._memory).cast("q")
        self._lock = Lock()

    def count(self) -> None:
        """One more; several threads may count."""
        with self._lock:
            self._cells[-1] += 1


class Metrics:
    """The counts of process number `process` of `processes`."""

    def __init__(self, descriptor: int | None = None, process: int = 0, processes: int = 1):
        self._memory = mmap.mmap(-1 if descriptor is None else descriptor, _size(processes))
        self._all = memoryview(self._memory).cast("q")
        self._own = self._all[process * _FIELDS : (process + 1) * _FIELDS]
        self._processes = processes

    def count(self, outcome: int, seconds: float) -> None:
        """One request that ended with `OUTCOMES[outcome]` after `seconds`."""
        own = self._own
        own[outcome] += 1
        own[len(OUTCOMES) + bisect_left(BUCKETS, seconds)] += 1
        own[_MICROSECONDS] += int(seconds * 1e6)

    def missed(self, misses: int) -> None:
        """How many operations this process had to parse so far."""
        self._own[_MISSES] = misses

    def sums(self) -> list[int]:
        """Each count over all processes."""
        return [sum(self._all[p * _FIELDS + f] for p in range(self._processes)) for f in range(_FIELDS)]

    def text(self, epoch: int | None, freshness: float | None, gauges: Iterable[tuple[str, str, float]] = ()) -> str:
        """The Prometheus text, with the store's epoch, the seconds since it was committed, and further `gauges`: name, text, value."""
        sums = self.sums()
        lines = list(_header("belvedere_requests_total", "counter", "GraphQL requests by how they ended."))
        lines += [f'belvedere_requests_total{{outcome="{o}"}} {sums[i]}' for i, o in enumerate(OUTCOMES)]
        lines += _header("belvedere_request_seconds", "histogram", "Time to answer a GraphQL request.")
        total = 0
        for i, bound in enumerate(BUCKETS):
            total += sums[len(OUTCOMES) + i]
            lines.append(f'belvedere_request_seconds_bucket{{le="{bound}"}} {total}')
        total += sums[len(OUTCOMES) + len(BUCKETS)]
        lines.append(f'belvedere_request_seconds_bucket{{le="+Inf"}} {total}')
        lines += [f"belvedere_request_seconds_sum {sums[_MICROSECONDS] / 1e6}", f"belvedere_request_seconds_count {total}"]
        lines += _header("belvedere_operations_parsed_total", "counter", "Operations that were not in the plan cache.")
        lines.append(f"belvedere_operations_parsed_total {sums[_MISSES]}")
        lines += _header("belvedere_api_restarts_total", "counter", "Processes of the API that died and were started again.")
        lines.append(f"belvedere_api_restarts_total {self._all[-1]}")
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
