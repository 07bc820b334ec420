"""Restart: seconds from opening a store to its first epoch, with the state of many events and with an empty one, in
turns.

In: a NEXMark query, the number of events in its state. Out: a table on stdout and `bench/results/restart.json`. Each
start is a separate process, so that only the operating system's file cache is warm. Each first epoch processes 1,000
events.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from bench.nexmark import MOST, ROOT, Bench, events_module

SMALL = 1_000
TURNS = 3


def start(query: str, folder: Path, first: int) -> dict[str, float]:
    """Open the store in this process and run one epoch. Return seconds, and MB of the state."""
    started = time.perf_counter()
    bench = Bench(query, events_module(), folder)
    opened = time.perf_counter() - started
    bench.first = first
    epoch = bench.epoch(SMALL)
    state = sum(size.bytes for size in bench.wb.engine.state.sizes().values()) / 1e6
    bench.wb.close()
    return {"open": opened, "epoch": epoch, "total": opened + epoch, "state_mb": state}


def fill(query: str, folder: Path, events: int) -> None:
    """Create the store, with the state of `events` events."""
    bench = Bench(query, events_module(), folder)
    for first in range(0, events, MOST):
        bench.epoch(min(MOST, events - first))
    bench.wb.close()


def apart(call: Callable[..., Any], *given: object) -> Any:
    """Run a function of this module in a separate process and return what it prints last."""
    text = (
        "import json; from pathlib import Path; from bench.restart import *; "
        f"print(json.dumps({call.__name__}{given!r}))"
    )
    text = text.replace("PosixPath", "Path")
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure(query: str, events: int) -> None:
    """Print the table and write the results."""
    with tempfile.TemporaryDirectory(prefix="belvedere-bench-") as root:
        sizes = (SMALL, events)
        found: dict[int, list[dict[str, float]]] = {size: [] for size in sizes}
        for size in sizes:
            (Path(root) / str(size)).mkdir()
            apart(fill, query, Path(root) / str(size), size)
        for turn in range(TURNS):
            for size in sizes:
                found[size].append(apart(start, query, Path(root) / str(size), size + turn * SMALL))
    results = [
        {"query": query, "state_events": size, **{name: median(t[name] for t in times) for name in times[0]}}
        for size, times in found.items()
    ]
    print(f"{'events':>12}{'state MB':>10}{'open s':>8}{'epoch s':>9}{'total s':>9}")
    for row in results:
        print(
            f"{row['state_events']:>12,}{row['state_mb']:>10,.0f}"
            f"{row['open']:>8.2f}{row['epoch']:>9.2f}{row['total']:>9.2f}"
        )
    target = ROOT / "bench" / "results" / "restart.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(results, indent=2) + "\n")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.restart", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--query", default="Q9", metavar="Q")
    parser.add_argument("--events", type=int, default=10_000_000, help="events before the restart")
    given = parser.parse_args()
    measure(given.query, given.events)


if __name__ == "__main__":
    main()
