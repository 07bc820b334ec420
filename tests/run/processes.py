"""Processes of `belvedere run` for tests: start one, read what it says, see that it and its children are gone."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

import httpx
import pytest

OPENER = build_opener(ProxyHandler({}))
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def start_run(script: Path, *arguments: str, file_limit: int | None = None) -> subprocess.Popen[str]:
    """`belvedere run` of a script, on a free port; none of its files may grow beyond `file_limit` (in units of `ulimit
    -f`)."""
    command = [sys.executable, "-m", "belvedere.cli", "run", str(script), "--port", "0", *arguments]
    if file_limit is not None:
        command = ["bash", "-c", f'ulimit -f {file_limit}; exec "$0" "$@"', *command]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def started(script: Path, word: str) -> tuple[subprocess.Popen[str], str]:
    """A run that has said a line with a word, such as the name of an input that it has read, and its address."""
    process = start_run(script, "--yes")
    address = first_line(process)
    lines = drain(process)
    try:
        wait_for(lambda: any(word in line for line in lines), "no epoch came", 300)
    except AssertionError:
        process.terminate()
        raise AssertionError([lines, process.communicate(timeout=60)]) from None
    return process, address


class RunApart:
    """`belvedere run` as a process of its own, until it is stopped or ends by itself; `RunHere` of
    `tests.run.in_process` is the same."""

    def __init__(self, script: Path, *arguments: str):
        self.process = start_run(script, *arguments)
        self.url = first_line(self.process)
        self.lines = drain(self.process)

    def poll(self) -> int | None:
        return self.process.poll()

    def wait(self, seconds: float = 120) -> int | None:
        """The exit code, once it has ended."""
        return self.process.wait(seconds)

    def stop(self) -> int | None:
        """Ask it to end, and wait for it."""
        self.process.send_signal(signal.SIGINT)
        return self.wait()

    def errors(self) -> str:
        """What it has said on stderr, once it has ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def close(self) -> None:
        """End it in any way."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def kill(process: subprocess.Popen[str], url: str) -> None:
    """`kill -9`; returns when its children are gone too, and its port is free."""
    family = descendants(process.pid)
    process.kill()
    process.wait()
    wait_for(lambda: not any(map(is_running, family)), "processes were left behind", 20)
    assert status_of(f"{url}/healthz") == 0


def run_once(script: Path) -> None:
    """`belvedere run --once`, which must end well and say nothing on stderr."""
    process = start_run(script, "--once")
    _, err = process.communicate(timeout=600)
    assert (process.returncode, err) == (0, "")


def first_line(process: subprocess.Popen[str], host: str = "127.0.0.1") -> str:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    assert line.startswith(f"http://{host}:"), (line, process.stderr.read() if process.poll() is not None else "")  # type: ignore[union-attr]
    return line


def drain(process: subprocess.Popen[str]) -> list[str]:
    """All further lines, gathered in a thread so that the process never waits for its reader."""
    lines: list[str] = []

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())

    threading.Thread(target=read, daemon=True).start()
    return lines


def wait_for(condition: Any, what: str, seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def descendants(pid: int) -> set[int]:
    """All processes below one; a thread or process that ends while we look has none."""
    found: set[int] = set()
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return found
    for task in tasks:
        with contextlib.suppress(OSError):
            for child in (task / "children").read_text().split():
                found |= {int(child)} | descendants(int(child))
    return found


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def status_of(url: str) -> int:
    try:
        with OPENER.open(url, timeout=10) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code
    except (URLError, OSError):
        return 0


def push(url: str, *numbers: int, client: str = "a") -> int:
    """Push rows of a client with these numbers to the stream `Events`; the status of the answer."""
    rows = [{"client": client, "n": n} for n in numbers]
    return int(httpx.post(f"{url}/streams/Events", json=rows, timeout=60, trust_env=False).status_code)


def graphql(url: str, query: str) -> Any:
    request = Request(f"{url}/graphql", json.dumps({"query": query}).encode(), {"Content-Type": "application/json"})
    with OPENER.open(request, timeout=30) as answer:
        return json.load(answer)["data"]
