"""Commands of `belvedere` in this process, on the Spark session of the tests: their output, without a new JVM.

In: arguments. Out: the exit code and what was printed. `tests.run.processes` is for what belongs to the process itself:
signals, kills, its JVM, what it leaves behind. Settings of `[spark]` that are Spark's own have no effect, since that
Spark runs already.
"""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from belvedere import cli
from belvedere.commands import run as run_command
from belvedere.spark.run.stop_flag import StopFlag
from tests.depth import at_night
from tests.run.processes import RunApart, wait_for


@dataclass(frozen=True)
class Ended:
    """A command that has ended, as `subprocess.CompletedProcess` says it."""

    returncode: int
    stdout: str
    stderr: str


@contextmanager
def on_spark(spark: Any) -> Iterator[None]:
    """Within, a run takes this session for the one that it starts, and leaves it running. Warnings are logged as in a
    process."""
    from belvedere.spark.run import runner

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "quiet_session", lambda *_: spark)
        patch.setattr(runner, "let_spark_go", lambda _: None)
        patch.setattr(runner, "end_spark", lambda _: None)
        patch.setattr(logging.root, "handlers", [])  # with those of pytest, warnings would not reach stderr
        yield


def command(spark: Any, *arguments: str | Path) -> Ended:
    """`belvedere` with these arguments; `spark` may be None where the command needs none."""
    out, err = io.StringIO(), io.StringIO()
    with on_spark(spark), redirect_stdout(out), redirect_stderr(err):
        code = cli.run(list(map(str, arguments)))
    return Ended(code, out.getvalue(), err.getvalue())


def run_once_here(spark: Any, script: Path, *arguments: str) -> None:
    """`belvedere run --once` in this process, which must end well and say nothing on stderr."""
    ended = command(spark, "run", script, "--port", "0", "--once", *arguments)
    assert (ended.returncode, ended.stderr) == (0, "")


class RunHere:
    """`belvedere run` in a thread of this process, until it is stopped or ends by itself. One at a time: it takes the
    process's output."""

    def __init__(self, spark: Any, script: Path, *arguments: str):
        self.out, self.err = io.StringIO(), io.StringIO()
        self.flag = StopFlag()
        self.returncode: int | None = None
        given = ["run", str(script), *(() if "--port" in arguments else ("--port", "0")), *arguments]
        self.thread = threading.Thread(target=self._run, args=(spark, given), daemon=True)
        self.thread.start()
        wait_for(lambda: self.lines or not self.thread.is_alive(), "it said nothing")
        assert self.lines, self.err.getvalue()
        self.url = self.lines[0]

    def _run(self, spark: Any, arguments: list[str]) -> None:
        with on_spark(spark), pytest.MonkeyPatch.context() as patch:
            patch.setattr(run_command, "stop_on_signals", lambda: nullcontext(self.flag))
            with redirect_stdout(self.out), redirect_stderr(self.err):
                self.returncode = cli.run(arguments)

    @property
    def lines(self) -> list[str]:
        """The lines that it has printed so far, without one that is not whole."""
        return self.out.getvalue().split("\n")[:-1]

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, seconds: float = 120) -> int | None:
        """The exit code, once it has ended."""
        self.thread.join(seconds)
        assert not self.thread.is_alive(), "it did not end"
        return self.returncode

    def stop(self) -> int | None:
        """Ask it to end, as a signal does, and wait for it."""
        self.flag.set()
        return self.wait()

    def errors(self) -> str:
        """What it has said on stderr."""
        return self.err.getvalue()

    def close(self) -> None:
        """End it."""
        if self.thread.is_alive():
            self.stop()


HERE = ["here", *at_night(["apart"])]
"""Parameters: by day a run is in this process, at night it is a process of its own."""


@contextmanager
def running(how: str, spark: Any, script: Path, *arguments: str) -> Iterator[RunHere | RunApart]:
    """A run for tests that only ask it, by one of `HERE`; it has ended afterwards."""
    run = RunHere(spark, script, *arguments) if how == "here" else RunApart(script, *arguments)
    try:
        yield run
    finally:
        run.close()
