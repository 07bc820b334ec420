"""`python -m bench.pushes`: rows that a client pushes to `belvedere run`, on one connection, one request after another.

In: the number of rows per request. Out: a table on stdout and `bench/results/pushes.json`: acknowledged rows per
second, the slowest of a hundred requests, and processor seconds per 1,000,000 rows. The last are separate for the run
with Spark and the API, and for the client. The client's requests are created before. Epochs process the rows meanwhile.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.from_files import processor_seconds
from bench.nexmark import ROOT

SCRIPT = """
CREATE STREAM Bids (auction BIGINT, bidder BIGINT, price BIGINT, extra STRING, at TIMESTAMP,
    WATERMARK FOR at) KEEP 1 MINUTE;
Counts := SELECT auction, count(*) AS bids, max(price) AS most FROM Bids GROUP BY auction;
"""
BASE = 1_700_000_000


def bodies(rows: int, requests: int) -> list[bytes]:
    """Return requests of `rows` rows each, in order of time."""
    made = []
    for number in range(requests):
        first = number * rows
        part = [
            {
                "auction": n * 7919 % 1000,
                "bidder": n * 104729 % 100_000,
                "price": n * 31 % 1_000_000,
                "extra": "x" * 60,
                "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(BASE + n // 1000)),
            }
            for n in range(first, first + rows)
        ]
        made.append(json.dumps(part).encode())
    return made


def measure(rows: int, requests: int) -> dict[str, Any]:
    """Measure one run that accepts `requests` requests."""
    with tempfile.TemporaryDirectory(prefix="belvedere-bench-") as folder:
        project = Path(folder)
        (project / "s.sqrl").write_text(SCRIPT)
        command = [str(Path(sys.executable).with_name("belvedere")), "run", "s.sqrl", "--port", "0"]
        given = {"PYTHONPATH": str(ROOT), "BELVEDERE_PROGRESS": "off"}
        run = subprocess.Popen(
            command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, **given}
        )
        try:
            assert run.stdout is not None
            address = urlsplit(run.stdout.readline().decode().strip())
            connection = http.client.HTTPConnection(str(address.hostname), address.port)
            warm, made = bodies(rows, 3), bodies(rows, requests)
            _push(connection, warm)
            _wait_for_epoch(connection)
            _push(connection, warm)
            before, own = processor_seconds(run.pid), time.process_time()
            began = time.perf_counter()
            waits = _push(connection, made)
            seconds = time.perf_counter() - began
            client = time.process_time() - own
            spent = processor_seconds(run.pid) - before
        finally:
            run.send_signal(signal.SIGTERM)
            run.wait(60)
    million = 1e6 / (rows * requests)
    return {
        "rows_a_request": rows,
        "rows_per_second": rows * requests / seconds,
        "p99_ms": sorted(waits)[int(0.99 * (len(waits) - 1))] * 1000,
        "run_processor_s_a_million": spent * million,
        "client_processor_s_a_million": client * million,
    }


def _push(connection: http.client.HTTPConnection, made: Sequence[bytes]) -> list[float]:
    """Return the seconds of each request. All must be accepted."""
    waits = []
    for body in made:
        began = time.perf_counter()
        connection.request("POST", "/streams/Bids", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        said = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{answer.status}: {said.decode()[:500]}")
        waits.append(time.perf_counter() - began)
    return waits


def _wait_for_epoch(connection: http.client.HTTPConnection) -> None:
    """Wait until the run has processed the first rows."""
    while True:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        answer.read()
        if answer.status == 200:
            return
        time.sleep(0.1)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.pushes", description="measure pushes on one connection")
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 1_000, 10_000], help="rows of a request")
    parser.add_argument("--seconds", type=int, default=10, help="approximate seconds of each measurement")
    options = parser.parse_args()
    print(f"{'rows a request':>14} {'rows/s':>9} {'p99 ms':>8} {'processor s a million: run':>27} {'client':>7}")
    found = []
    for rows in options.rows:
        one = measure(rows, max(100, options.seconds * min(50, 100_000 // rows)))
        found.append(one)
        text = f"{rows:>14,} {one['rows_per_second']:>9,.0f} {one['p99_ms']:>8.1f}"
        print(
            f"{text} {one['run_processor_s_a_million']:>27.1f} {one['client_processor_s_a_million']:>7.1f}", flush=True
        )
    results = ROOT / "bench" / "results" / "pushes.json"
    results.write_text(json.dumps({"rows": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
