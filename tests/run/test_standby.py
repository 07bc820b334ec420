"""A second run on standby takes over when the first ends, is killed, or is suspended; nothing is lost or repeated.

Both runs are processes of their own on one folder, so they share the journal. Pushes are counted by number: each that
was answered is in the view once, and one that was not is there at most once.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from belvedere.store import open_reader
from tests.depth import at_night
from tests.run.in_process import command
from tests.run.processes import RunApart, linux, status_of, wait_for

pytestmark = [pytest.mark.spark, linux]

SCRIPT = """
CREATE STREAM Events (client STRING, n BIGINT) KEEP 30 DAYS;
Seen := SELECT n, count(*) AS times FROM Events GROUP BY n;
EXPORT Seen TO files.Seen;
"""
PROJECT = """
[spark]
memory = "1g"
trigger = "50 ms"
start = "quick"

[run]
lease = "{lease}"

[sinks.files]
connector = "files"
path = "out"
"""


SOON = 30.0
"""Seconds within which a run on standby is ready on a machine that does much else."""


class Run(RunApart):
    """A run that must not end while a test waits."""

    def wait_until(self, condition: Callable[[], bool], seconds: float = 120) -> None:
        def is_so() -> bool:
            assert self.poll() is None, (self.lines, self.errors())
            return condition()

        wait_for(is_so, "it is not so", seconds)


class Pair:
    """A script, its store, and two runs of it."""

    def __init__(self, folder: Path, url: str | None = None, lease: str = "30 s"):
        self.folder, self.script = folder, folder / "s.sqrl"
        self.url = url or f"sqlite:///{folder / 's.db'}"
        self.script.write_text(SCRIPT)
        (folder / "belvedere.toml").write_text(f'store = "{self.url}"\n{PROJECT.format(lease=lease)}')
        self.answered: set[int] = set()
        self.sent = 0
        self.runs: list[Run] = []

    def start(self, *arguments: str) -> Run:
        self.runs.append(Run(self.script, "--yes", *arguments))
        return self.runs[-1]

    def active(self) -> Run:
        found = self.start()
        took_over(found, 120)
        return found

    def standby(self) -> Run:
        found = self.start("--standby")
        found.wait_until(lambda: any(line.endswith("on standby") for line in found.lines))
        return found

    def push(self, run: Run, seconds: float = 60) -> int:
        """Push the next number; the status of the answer, 0 where there is none."""
        self.sent += 1
        try:
            rows = [{"client": "a", "n": self.sent}]
            status = httpx.post(f"{run.url}/streams/Events", json=rows, timeout=seconds, trust_env=False).status_code
        except httpx.HTTPError:
            return 0
        if status == 200:
            self.answered.add(self.sent)
        return status

    def seen(self) -> dict[int, int]:
        with closing(open_reader(self.url)) as reader:
            return {int(n): int(times) for n, times in reader.execute('SELECT n, times FROM "Seen"')}

    def check(self) -> None:
        """All that was answered is there, nothing twice; the exported changes lead to the same rows."""
        wait_for(
            lambda: self.answered <= self.seen().keys(),
            f"answered rows are lost: {self.answered - self.seen().keys()}",
            60,
        )
        found = self.seen()
        assert set(found.values()) <= {1}
        assert found.keys() <= set(range(1, self.sent + 1))
        wait_for(lambda: self.exported() == found, "the exported rows are others", 60)

    def exported(self) -> dict[int, int]:
        rows: dict[int, int] = {}
        events = [
            json.loads(x) for p in (self.folder / "out" / "Seen").glob("*.jsonl") for x in p.read_text().splitlines()
        ]
        assert len({e["_seq"] for e in events}) == len(events), "events were exported twice"
        for event in sorted(events, key=lambda e: e["_seq"]):
            if event["_op"] == "DELETE":
                rows.pop(event["n"], None)
            else:
                rows[event["n"]] = event["times"]
        return rows

    def close(self) -> None:
        for run in self.runs:
            run.process.send_signal(signal.SIGCONT)
            run.close()


@contextmanager
def pair(folder: Path, url: str | None = None, lease: str = "30 s") -> Iterator[Pair]:
    found = Pair(folder, url, lease)
    try:
        yield found
    finally:
        found.close()


def took_over(run: Run, seconds: float = 60) -> float:
    """Wait until a run is ready; the seconds that it took."""
    started = time.monotonic()
    run.wait_until(lambda: status_of(f"{run.url}/readyz") == 200, seconds)
    return time.monotonic() - started


def store_at(where: str, folder: Path, request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("postgres_url")) if where == "postgres" else f"sqlite:///{folder / 's.db'}"


@pytest.mark.nightly  # on a busy machine one run of some fifteen did not end after Ctrl-C; the cause is not known
@pytest.mark.parametrize("where", ["sqlite", "postgres"])
def test_it_waits_serves_reads_and_takes_over_after_a_kill(
    tmp_path: Path, where: str, request: pytest.FixtureRequest
) -> None:
    with pair(tmp_path, store_at(where, tmp_path, request)) as runs:
        first = runs.active()
        second = runs.standby()
        refused = command(None, "run", runs.script, "--port", "0", "--yes")
        assert refused.returncode == 1
        assert "B7006" in refused.stderr
        assert "--standby" in refused.stderr
        assert (status_of(f"{second.url}/readyz"), status_of(f"{second.url}/healthz")) == (503, 200)
        assert runs.push(first) == 200
        wait_for(lambda: len(runs.seen()) == 1, "no epoch came")
        answer = httpx.post(f"{second.url}/graphql", json={"query": "{ seen { n times } }"}, trust_env=False).json()
        assert answer["data"] == {"seen": [{"n": 1, "times": 1}]}, "reads are served"
        refusal = httpx.post(f"{second.url}/streams/Events", json=[{"client": "a", "n": 0}], trust_env=False)
        assert (refusal.status_code, refusal.json()["code"]) == (503, "B8038")
        assert runs.push(first) == 200
        first.process.kill()  # it is not waited for: a process that has ended is known as such before
        assert took_over(second) < SOON
        assert runs.push(second) == 200
        runs.check()
        assert second.stop() == 0
        assert second.errors() == ""


@pytest.mark.nightly
@pytest.mark.parametrize("where", ["sqlite", *at_night(["postgres"])])
def test_it_takes_over_after_a_stop(tmp_path: Path, where: str, request: pytest.FixtureRequest) -> None:
    with pair(tmp_path, store_at(where, tmp_path, request)) as runs:
        first = runs.active()
        second = runs.standby()
        assert runs.push(first) == 200
        assert first.stop() == 0
        assert took_over(second) < SOON
        assert runs.push(second) == 200
        runs.check()


@pytest.mark.postgres
def test_who_was_suspended_commits_nothing_and_ends(tmp_path: Path, postgres_url: str) -> None:
    """It has a push before it that its journal must not take in, too."""
    with pair(tmp_path, postgres_url, lease="3 s") as runs:
        first = runs.active()
        second = runs.standby()
        assert runs.push(first) == 200
        first.process.send_signal(signal.SIGSTOP)
        assert runs.push(first, seconds=0.5) == 0
        took_over(second)
        assert runs.push(second) == 200
        first.process.send_signal(signal.SIGCONT)
        assert first.wait() == 1
        assert "B7007" in first.errors()
        assert runs.push(second) == 200
        runs.check()
        assert 2 not in runs.seen(), "what came while it was suspended was not answered, and is not there"


def take_over_under_load(runs: Pair, times: int, seed: int) -> None:
    """Kill, stop or suspend the active run at a random moment, `times` times, while a client pushes."""
    chance = random.Random(seed)
    active = runs.active()
    for _ in range(times):
        waiting = runs.standby()
        end = time.monotonic() + chance.uniform(0.2, 2.0)
        while time.monotonic() < end:
            runs.push(active)
        how = chance.choice([signal.SIGKILL, signal.SIGINT, signal.SIGSTOP])
        active.process.send_signal(how)
        took_over(waiting, 120)
        if how == signal.SIGSTOP:
            runs.push(waiting)
            active.process.send_signal(signal.SIGCONT)
            assert active.wait() == 1
        active.process.wait(60)
        active = waiting
    for _ in range(5):
        runs.push(active)
    runs.check()


@pytest.mark.nightly
@pytest.mark.postgres
def test_taken_over_twenty_times(tmp_path: Path, postgres_url: str) -> None:
    with pair(tmp_path, postgres_url, lease="3 s") as runs:
        take_over_under_load(runs, 20, seed=int(time.time()))
