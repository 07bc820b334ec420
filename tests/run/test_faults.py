"""A run with failing surroundings waits, or ends with a clear message; nothing is lost or repeated."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.run.in_process import HERE, run_once_here, running
from tests.run.processes import (
    descendants,
    drain,
    first_line,
    is_running,
    linux,
    name_of,
    push,
    run_once,
    start_run,
    wait_for,
)

pytestmark = [pytest.mark.spark, linux]

SCRIPT = """
CREATE STREAM Events (client STRING, n BIGINT) KEEP 30 DAYS;
Totals := SELECT client, count(*) AS events, sum(n) AS total FROM Events GROUP BY client;
"""
PROJECT = '[spark]\ntrigger = "50 ms"\nmemory = "1g"\nretry = "{retry}"\n'


def script_in(folder: Path, retry: str = "1 minute") -> Path:
    (folder / "belvedere.toml").write_text(PROJECT.format(retry=retry))
    script = folder / "events.sqrl"
    script.write_text(SCRIPT)
    return script


def holder_of(store: str) -> str | None:
    from belvedere.store import open_store

    opened = open_store(store)
    try:
        return opened.holder()
    finally:
        opened.close()


def totals(store: str) -> dict[str, tuple[int, int]]:
    """The view and, beside it, the same from the rows of the stream: they agree."""
    from belvedere.store import open_reader

    reader = open_reader(store)
    try:
        found = {r[0]: (int(r[1]), int(r[2])) for r in reader.execute('SELECT client, events, total FROM "Totals"')}
        rows = reader.execute(
            'SELECT client, count(*), CAST(sum(n) AS BIGINT), count(DISTINCT _uid) FROM "Events" GROUP BY client'
        )
    finally:
        reader.close()
    assert {r[0]: (int(r[1]), int(r[2])) for r in rows} == found
    assert all(r[1] == r[3] for r in rows)
    return found


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.mark.postgres
@pytest.mark.parametrize("how", HERE)
def test_a_store_that_goes_away(spark: Any, tmp_path: Path, own_postgres: Any, how: str) -> None:
    """While it is away, pushes are answered and wait; when it is back they are there; when it stays away the run
    ends."""
    store = own_postgres.get_uri()
    script = script_in(tmp_path, retry="20 seconds" if how == "apart" else "8 seconds")
    with running(how, spark, script, "--store", store) as run:
        assert push(run.url, 1) == 200
        wait_for(lambda: any("Events 1" in line for line in run.lines), "no epoch came", 300)
        own_postgres.stop()
        assert push(run.url, 2, 3) == 200
        wait_for(lambda: any("trying again" in line for line in run.lines), "nobody noticed", 60)
        assert push(run.url, 4) == 200
        own_postgres.ensure_postgres_running()
        assert push(run.url, 5) == 200
        wait_for(lambda: totals(store) == {"a": (5, 15)}, "the rows never came", 120)
        own_postgres.stop()
        assert push(run.url, 6) == 200
        assert run.wait() == 1
        reported = run.errors()
    assert ("B7005" in reported, "Traceback" in reported) == (True, False), reported
    own_postgres.ensure_postgres_running()
    # after a restart of the server a missing connection proves nothing: the lease counts until it expires
    wait_for(lambda: holder_of(store) is None, "the lease never expired", 60)
    run_once_here(spark, script, "--store", store)
    assert totals(store) == {"a": (6, 21)}


@pytest.mark.nightly
def test_spark_dies(tmp_path: Path, processes: list[subprocess.Popen[str]]) -> None:
    script = script_in(tmp_path)
    process = start_run(script)
    processes.append(process)
    url = first_line(process)
    lines = drain(process)
    push(url, 1)
    wait_for(lambda: any("Events 1" in line for line in lines), "no epoch came", 300)
    family = descendants(process.pid)
    (jvm,) = [pid for pid in family if "java" in name_of(pid)]
    os.kill(jvm, signal.SIGKILL)
    push(url, 2)
    assert process.wait(timeout=120) == 1
    assert process.stderr is not None
    reported = process.stderr.read()
    assert ("B7022" in reported, "Traceback" in reported) == (True, False), reported
    wait_for(lambda: not any(map(is_running, family)), "processes were left behind", 30)
    run_once(script)
    assert totals(f"sqlite:///{tmp_path / 'events.db'}") == {"a": (2, 3)}


@pytest.mark.nightly
def test_the_stores_disk_is_full(tmp_path: Path, processes: list[subprocess.Popen[str]]) -> None:
    """No file may grow beyond a limit: the store's cannot. The run ends with the reason; with space it goes on where it
    was."""
    script = script_in(tmp_path)
    process = start_run(script, file_limit=8000)  # Spark's view of a few rows is a file of 4,096
    processes.append(process)
    url = first_line(process)
    lines = drain(process)
    sent = 0
    while process.poll() is None and sent < 30_000:
        try:
            status = push(url, *range(sent + 1, sent + 1001), client="x" * 1000)
        except httpx.HTTPError:  # the run has ended; whether it had taken the rows is not known
            status = 0
        if status != 200:
            break
        sent += 1000
        epochs = sent // 1000  # one a push: what grows is the store alone
        wait_for(lambda: process.poll() is not None or str(lines).count("Events 1,000") == epochs, "no epoch came", 300)  # noqa: B023
    assert process.wait(timeout=120) == 1
    assert process.stderr is not None
    reported = process.stderr.read()
    assert ("B7003" in reported, "Traceback" in reported) == (True, False), reported
    run_once(script)
    ((count, total),) = totals(f"sqlite:///{tmp_path / 'events.db'}").values()
    assert count in (sent, sent + 1000)
    assert total == count * (count + 1) // 2


@pytest.mark.nightly
def test_the_journals_disk_is_full(tmp_path: Path, processes: list[subprocess.Popen[str]]) -> None:
    """Pushes that do not fit are refused whole (507); the others are there once, and smaller ones are still taken."""
    script = script_in(tmp_path)
    process = start_run(script, file_limit=20000)
    processes.append(process)
    url = first_line(process)
    lines = drain(process)
    huge = json.dumps([{"client": "c" * 1000, "n": n} for n in range(11_000)])
    headers = {"content-type": "application/json"}
    answers = [
        httpx.post(f"{url}/streams/Events", content=huge, headers=headers, timeout=60, trust_env=False).status_code
        for _ in range(2)
    ]
    assert answers == [200, 507]
    assert push(url, 1) == 200
    wait_for(lambda: any("Events 11,001" in line for line in lines), "no epoch came", 300)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 0
    assert sorted(totals(f"sqlite:///{tmp_path / 'events.db'}").values()) == [(1, 1), (11_000, 10_999 * 5_500)]
