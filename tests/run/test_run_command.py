"""`belvedere run` as a process: it serves, reports errors, and stops within two seconds of a signal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from belvedere.store import open_store
from tests.run.in_process import command, run_once_here
from tests.run.processes import (
    descendants,
    drain,
    first_line,
    graphql,
    is_running,
    linux,
    name_of,
    push,
    start_run,
    status_of,
    wait_for,
)

pytestmark = pytest.mark.spark

SCRIPT = """
IMPORT shop.Orders KEEP 30 DAYS;
Totals := SELECT item, sum(amount) AS total, count(*) AS n FROM Orders GROUP BY item;
Sizes := SELECT n, count(*) AS items, min(total) AS least FROM Totals GROUP BY n;
CREATE STREAM Events (client STRING, n BIGINT) KEEP 30 DAYS;
Clients := SELECT client, count(*) AS events, sum(n) AS total FROM Events GROUP BY client;
"""
PROJECT = """
[sources.shop]
connector = "files"
path = "data"
max_files = 3

[sources.shop.tables.Orders]
columns = { item = "STRING", amount = "BIGINT" }

[spark]
trigger = "50 ms"
memory = "1g"
"""


class Shop:
    """A directory with a script, and processes that run it."""

    def __init__(self, directory: Path, script: str = SCRIPT):
        self.directory = directory
        self.data = directory / "data" / "Orders"
        self.data.mkdir(parents=True)
        self.script = directory / "shop.sqrl"
        self.script.write_text(script)
        (directory / "belvedere.toml").write_text(PROJECT)
        self.written = 0
        self.rows: list[tuple[str, int]] = []
        self.processes: list[subprocess.Popen[str]] = []

    def write(self, *rows: tuple[str, int]) -> None:
        """One more file, renamed into place."""
        scratch = self.directory / "scratch"
        scratch.write_text("".join(json.dumps({"item": i, "amount": a}) + "\n" for i, a in rows))
        self.written += 1
        os.replace(scratch, self.data / f"{self.written:06}.json")
        self.rows += rows

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        process = start_run(self.script, *arguments)
        self.processes.append(process)
        return process

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()

    def views(self) -> tuple[Any, Any, int]:
        """Totals and Sizes as the store has them, and the number of rows of Orders."""
        from belvedere.store import open_reader

        reader = open_reader(f"sqlite:///{self.directory / 'shop.db'}")
        try:
            totals = reader.execute('SELECT item, total, n FROM "Totals"')
            sizes = reader.execute('SELECT n, items, least FROM "Sizes"')
            (orders,) = reader.execute('SELECT count(*), count(DISTINCT _uid) FROM "Orders"')
        finally:
            reader.close()
        assert orders[0] == orders[1]
        return {r[0]: (r[1], r[2]) for r in totals}, {r[0]: (r[1], r[2]) for r in sizes}, orders[0]

    def clients(self) -> dict[str, tuple[int, int]]:
        """The view over what was pushed."""
        from belvedere.store import open_reader

        reader = open_reader(f"sqlite:///{self.directory / 'shop.db'}")
        try:
            return {r[0]: (int(r[1]), int(r[2])) for r in reader.execute('SELECT client, events, total FROM "Clients"')}
        finally:
            reader.close()

    def expected(self) -> tuple[Any, Any, int]:
        """The same from the rows that were written."""
        total: Counter[str] = Counter()
        count: Counter[str] = Counter()
        for item, amount in self.rows:
            total[item] += amount
            count[item] += 1
        sizes: dict[int, list[int]] = {}
        for item, n in count.items():
            sizes.setdefault(n, []).append(total[item])
        totals = {i: (total[i], n) for i, n in count.items()}
        return totals, {n: (len(t), min(t)) for n, t in sizes.items()}, len(self.rows)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    found = Shop(tmp_path)
    yield found
    found.close()


@linux
def test_it_serves_refuses_a_second_runner_and_stops_when_told(spark: Any, shop: Shop) -> None:
    process = shop.start("--host", "127.0.0.2")
    url = first_line(process, "127.0.0.2")
    lines = drain(process)
    wait_for(lambda: status_of(f"{url}/healthz") == 200, "the API never answered")
    wait_for(lambda: status_of(f"{url}/readyz") == 200, "no epoch came")
    wait_for(lambda: len(lines) > 2, "the epoch was not told")  # it is told after it is there
    assert [line[20:] for line in lines[:2]] == ["INFO    starting Spark", "INFO    computing the first epoch"]
    assert lines[2][20:].startswith("INFO    epoch 1: no rows")
    second = command(None, "run", shop.script, "--port", "0")
    assert (second.returncode, "B7006" in second.stderr, "Traceback" in second.stderr) == (1, True, False)
    shop.write(("a", 1), ("b", 2), ("a", 3))
    wait_for(lambda: any("Orders 3" in line for line in lines), "the file was never read")
    assert graphql(url, "{ totals(order: {item: ASC}) { item total n } }") == {
        "totals": [{"item": "a", "total": 4, "n": 2}, {"item": "b", "total": 2, "n": 1}]
    }
    family = descendants(process.pid)
    assert family
    pushed = stop_in_an_epoch(process, url, lines)
    wait_for(lambda: not any(map(is_running, family)), "processes were left behind", 10)
    assert process.stderr is not None
    assert process.stderr.read() == ""
    store = open_store(f"sqlite:///{shop.directory / 'shop.db'}")
    store.acquire("another", 60.0)  # the lease was given back
    store.close()
    assert shop.views() == shop.expected()
    run_once_here(spark, shop.script)
    assert shop.clients() == {"a": (len(pushed), sum(pushed))}, "what was answered is there after the stop"


def stop_in_an_epoch(process: subprocess.Popen[str], url: str, lines: list[str]) -> list[int]:
    """Push rows, and ask for the end while an epoch is under way: it takes two seconds after that epoch. The numbers
    that were pushed.

    Measured from the line that tells of the last epoch, or from the signal where that came later.
    """
    before, numbers = len(lines), list(range(10_000))
    pushed = [push(url, *numbers) for _ in range(3)]
    wait_for(lambda: len(lines) > before, "no epoch came", 60)  # the next one starts now: two pushes wait for it
    process.send_signal(signal.SIGINT)
    seen, last = len(lines), time.monotonic()
    while process.poll() is None:
        if len(lines) > seen:
            seen, last = len(lines), time.monotonic()
        time.sleep(0.01)
    took = time.monotonic() - last
    assert process.returncode == 0
    assert pushed == [200] * 3
    print(f"stopped {took:.2f} s after the epoch in flight")
    busy = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))  # others may have the processors
    assert took < 2.0 * busy
    return numbers * 3


def test_an_error_in_a_view_ends_the_run_where_the_project_says_so_and_names_it(spark: Any, tmp_path: Path) -> None:
    shop = Shop(tmp_path, SCRIPT + "Shares := SELECT item, 100 / (total - 3) AS share FROM Totals;\n")
    shop.write(("a", 1), ("b", 3))
    (shop.directory / "belvedere.toml").write_text('on_error = "stop"\n' + PROJECT)
    ended = command(spark, "run", shop.script, "--port", "0", "--once")
    assert ended.returncode == 1
    assert '"Shares"' in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_public_address_needs_a_token(shop: Shop) -> None:
    (shop.directory / "belvedere.toml").write_text(PROJECT + '[api]\nhost = "0.0.0.0"\n')
    ended = command(None, "run", shop.script, "--port", "0")
    assert (ended.returncode, ended.stdout, "B8010" in ended.stderr, "Traceback" in ended.stderr) == (
        1,
        "",
        True,
        False,
    )
    assert not (shop.directory / "shop.db").exists()


@linux
def test_it_listens_where_it_is_told_and_ends_cleanly_while_spark_starts(shop: Shop) -> None:
    (shop.directory / "belvedere.toml").write_text(PROJECT + '[api]\nhost = "0.0.0.0"\ntoken = "t"\n')
    process = shop.start()
    port = first_line(process, "0.0.0.0").rpartition(":")[2]
    wait_for(lambda: status_of(f"http://127.0.0.1:{port}/status") == 401, "the API never asked for the token")
    wait_for(lambda: any("java" in name_of(pid) for pid in descendants(process.pid)), "no JVM came")
    family = descendants(process.pid)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=90) == 0
    wait_for(lambda: not any(map(is_running, family)), "processes were left behind", 30)
