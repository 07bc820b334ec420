"""The API's own processes: they answer, and end with their parent however it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import ProxyHandler, Request, build_opener

import api_example as example
import pytest

from belvedere.api.serving.processes import Serving, is_loopback, server_settings, start_api
from belvedere.api.serving.supervisor import Supervisor
from belvedere.errors import BelvedereError

CATALOG = example.catalog()
OPENER = build_opener(ProxyHandler({}))

PARENT = """
import sys, time
sys.path.insert(0, {folder!r})
import api_example
from belvedere.api.serving.processes import start_api
serving = start_api(api_example.catalog(), {url!r}, processes=2)
serving.wait_until_listening()
print(serving.port, *(k.child.pid for k in serving.supervisors), flush=True)
time.sleep(600)
"""


def ask(url: str, text: str) -> Any:
    request = Request(f"{url}/graphql", json.dumps({"query": text}).encode(), {"Content-Type": "application/json"})
    with OPENER.open(request, timeout=10) as answer:
        return json.load(answer)


def test_processes_serve_and_end(sqlite_file: str, capfd: pytest.CaptureFixture[str]) -> None:
    with start_api(CATALOG, sqlite_file, processes=2) as serving:
        serving.wait_until_listening()
        assert serving.alive()
        for _ in range(20):
            assert ask(serving.url, "{ things(limit: 1) { id } }")["data"] == {"things": [{"id": 1}]}
        with OPENER.open(f"{serving.url}/readyz", timeout=10) as answer:
            assert answer.read() == b"epoch 7\n"
        with OPENER.open(f"{serving.url}/metrics", timeout=10) as answer:
            assert 'belvedere_requests_total{outcome="ok"} 20' in answer.read().decode()
    assert not serving.alive()
    assert capfd.readouterr() == ("", "")


def test_a_killed_parent_leaves_no_process(sqlite_file: str) -> None:
    script = PARENT.format(folder=str(Path(__file__).parent), url=sqlite_file)
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    port, *children = map(int, parent.stdout.readline().split())
    assert len(children) == 2
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    end = time.monotonic() + 10
    while any(_lives(child) for child in children) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(_lives(child) for child in children)
    while not _is_free(port) and time.monotonic() < end:  # a process that is ending may hold its socket a moment longer
        time.sleep(0.02)
    assert _is_free(port)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _lives(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_serving_starts_before_the_store(tmp_path: Path) -> None:
    from conftest import fill

    url = f"sqlite:///{tmp_path / 'later.db'}"
    with start_api(CATALOG, url, processes=1) as serving:
        serving.wait_until_listening()
        with pytest.raises(URLError, match="503"):
            OPENER.open(f"{serving.url}/readyz", timeout=10)
        fill(url)
        assert ask(serving.url, "{ things(limit: 1) { id } }")["extensions"]["epoch"] == 7


def test_children_import_no_spark() -> None:
    unwanted = ("pyspark", "py4j", "duckdb", "belvedere.spark")
    script = f"import belvedere.api.serving.child, sys; print([m for m in {unwanted} if m in sys.modules])"
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert found.stdout.strip() == "[]"


def test_a_public_address_needs_a_token() -> None:
    with pytest.raises(BelvedereError, match="B8010"):
        start_api(CATALOG, "sqlite:///x.db", host="0.0.0.0")
    assert server_settings("0.0.0.0", {"token": "t"}).token == "t"
    assert server_settings("127.0.0.1", {}).hosts is not None
    assert [is_loopback(h) for h in ("localhost", "127.0.0.2", "::1", "example.org", "10.0.0.1")] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_processes_that_do_not_start() -> None:
    supervisor = Supervisor(
        lambda: subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.PIPE), lambda how: None
    )
    with pytest.raises(BelvedereError, match="B8011"):
        Serving("http://127.0.0.1:1", "127.0.0.1", 1, (supervisor,)).wait_until_listening(1.0)
    supervisor.close()
    supervisor.wait()
    assert not supervisor.alive()


def wait_until_counted(url: str, requests: int) -> str:
    """The metrics, once they have so many requests: a request is counted after it was answered."""
    end = time.monotonic() + 30
    while True:
        with OPENER.open(f"{url}/metrics", timeout=10) as answer:
            text = str(answer.read().decode())
        if f'belvedere_requests_total{{outcome="ok"}} {requests}' in text:
            return text
        assert time.monotonic() < end, text
        time.sleep(0.05)


def test_processes_that_die_are_started_again(sqlite_file: str) -> None:
    reported: list[str] = []
    with start_api(CATALOG, sqlite_file, processes=2, notify=reported.append) as serving:
        serving.wait_until_listening()
        before = [k.child for k in serving.supervisors]
        assert ask(serving.url, "{ things(limit: 1) { id } }")["data"] == {"things": [{"id": 1}]}
        wait_until_counted(serving.url, 1)
        for child in before:
            child.kill()
        while any(child.poll() is None for child in before):
            time.sleep(0.001)
        # nobody listens for a moment: the connection waits for the process that comes
        assert ask(serving.url, "{ things(limit: 1) { id } }")["data"] == {"things": [{"id": 1}]}
        end = time.monotonic() + 30
        while len(reported) < 2 and time.monotonic() < end:
            time.sleep(0.02)
        assert "\nbelvedere_api_restarts_total 2\n" in wait_until_counted(serving.url, 2)
        assert reported == ["an API process ended (SIGKILL) and was restarted"] * 2
    assert not any(k.alive() for k in serving.supervisors)
    assert all(c.poll() is not None for c in before)


def test_a_process_that_ends_at_once_is_started_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    supervisor: list[Supervisor] = []

    class Closing(threading.Event):
        """Notes the pauses instead of waiting for them."""

        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout or 0.0)
            return len(pauses) > 12

    monkeypatch.setattr("belvedere.api.serving.supervisor.Event", Closing)
    supervisor.append(Supervisor(lambda: subprocess.Popen(["false"], stdin=subprocess.PIPE), lambda how: None))
    supervisor[0].wait()
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert pauses[-3:] == [30.0, 30.0, 30.0]


def test_a_taken_port_is_told(sqlite_file: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(BelvedereError, match="B8012"):
            start_api(CATALOG, sqlite_file, taken.getsockname()[1])
