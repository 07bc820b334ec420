"""`belvedere run` as a process: it serves, says what is wrong, and stops when told."""

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
from tests.run.processes import (
    descendants,
    drain,
    first_line,
    graphql,
    is_running,
    linux,
    name_of,
    start_run,
    status_of,
    wait_for,
)

pytestmark = pytest.mark.spark

SCRIPT = """
IMPORT shop.Orders KEEP 30 DAYS;
Totals := SELECT item, sum(amount) AS total, count(*) AS n FROM Orders GROUP BY item;
Sizes := SELECT n, count(*) AS items, min(total) AS least FROM Totals GROUP BY n;
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

    def once(self) -> subprocess.CompletedProcess[str]:
        process = self.start("--once")
        out, err = process.communicate(timeout=600)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

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
def test_it_serves_refuses_a_second_runner_and_stops_when_told(shop: Shop) -> None:
    process = shop.start("--host", "127.0.0.2")
    url = first_line(process, "127.0.0.2")
    lines = drain(process)
    wait_for(lambda: status_of(f"{url}/healthz") == 200, "the API never answered")
    wait_for(lambda: status_of(f"{url}/readyz") == 200, "no epoch came")
    wait_for(lambda: len(lines) > 2, "the epoch was not told")  # it is told after it is there
    assert [line[20:] for line in lines[:2]] == ["INFO    starting Spark", "INFO    computing the first epoch"]
    assert lines[2][20:].startswith("INFO    epoch 1: no rows")
    second = shop.start()
    _, err = second.communicate(timeout=60)
    assert (second.returncode, "B7006" in err, "Traceback" in err) == (1, True, False)
    shop.write(("a", 1), ("b", 2), ("a", 3))
    wait_for(lambda: any("Orders 3" in line for line in lines), "the file was never read")
    assert graphql(url, "{ totals(order: {item: ASC}) { item total n } }") == {
        "totals": [{"item": "a", "total": 4, "n": 2}, {"item": "b", "total": 2, "n": 1}]
    }
    family = descendants(process.pid)
    assert family
    process.send_signal(signal.SIGINT)
    asked = time.monotonic()
    assert process.wait(timeout=30) == 0
    assert time.monotonic() - asked < 10  # two seconds on an idle machine
    wait_for(lambda: not any(map(is_running, family)), "processes were left behind", 10)
    assert process.stderr is not None
    assert process.stderr.read() == ""
    store = open_store(f"sqlite:///{shop.directory / 'shop.db'}")
    store.acquire("another", 60.0)  # the lease was given back
    store.close()
    assert shop.views() == shop.expected()


def test_an_error_in_a_view_ends_the_run_and_names_it(tmp_path: Path) -> None:
    shop = Shop(tmp_path, SCRIPT + "Shares := SELECT item, 100 / (total - 3) AS share FROM Totals;\n")
    shop.write(("a", 1), ("b", 3))
    ended = shop.once()
    shop.close()
    assert ended.returncode == 1
    assert '"Shares"' in ended.stderr
    assert "Traceback" not in ended.stderr


@linux
def test_it_ends_cleanly_while_spark_starts(shop: Shop) -> None:
    process = shop.start()
    first_line(process)
    wait_for(lambda: any("java" in name_of(pid) for pid in descendants(process.pid)), "no JVM came")
    family = descendants(process.pid)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=90) == 0
    wait_for(lambda: not any(map(is_running, family)), "processes were left behind", 30)


@linux
def test_it_listens_where_it_is_told(shop: Shop) -> None:
    project = shop.directory / "belvedere.toml"
    project.write_text(PROJECT + '[api]\nhost = "0.0.0.0"\n')
    public = shop.start()
    out, err = public.communicate(timeout=60)
    assert (public.returncode, out, "B8010" in err, "Traceback" in err) == (1, "", True, False)
    assert not (shop.directory / "shop.db").exists()
    project.write_text(PROJECT + '[api]\nhost = "0.0.0.0"\ntoken = "t"\n')
    guarded = shop.start()
    port = first_line(guarded, "0.0.0.0").rpartition(":")[2]
    wait_for(lambda: status_of(f"http://127.0.0.1:{port}/status") == 401, "the API never asked for the token")
    guarded.send_signal(signal.SIGTERM)
    assert guarded.wait(timeout=90) == 0
