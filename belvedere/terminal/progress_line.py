"""Progress of a command from its first second on: a line that is redrawn in a terminal, plain lines elsewhere.

In: the present activity, and its progress. Out: text on stderr; stdout is for results. Outside a terminal a line is
printed when an activity takes longer than a second, then less and less often. `BELVEDERE_PROGRESS=off` and `--json`
suppress it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import IO, Any, Self

from belvedere.process.activity import NOW

VARIABLE = "BELVEDERE_PROGRESS"
REPORTED_AT = (10.0, 30.0)
"""Seconds after which plain lines report that an activity still runs; then every minute."""
LATER = 60.0


def stamped(text: str, level: str = "INFO", now: datetime | None = None) -> str:
    """Return a line with the local time and its level."""
    return f"{now or datetime.now():%Y-%m-%d %H:%M:%S} {level:<7} {text}"


class UnderWay:
    """A context that reports the present activity (`belvedere.process.activity`).

    `quiet`: print nothing; `draws`: also in a terminal; `line_of` returns the plain line of a text.
    """

    def __init__(
        self,
        stream: IO[str] | None = None,
        *,
        quiet: bool = False,
        draws: bool = True,
        line_of: Callable[[str], str] = stamped,
    ):
        self._line_of = line_of
        self._stream = _own(stream or sys.stderr)
        self._is_off = quiet or os.environ.get(VARIABLE) == "off"
        self._draws = draws
        self._done, self._total, self._began = 0, 0, time.monotonic()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._live: Any = None

    def __enter__(self) -> Self:
        if self._is_off:
            return self
        NOW.begin("starting")
        if self._stream.isatty() and not self._draws:
            return self
        if self._stream.isatty():
            from rich.console import Console  # takes long, and only a terminal needs it
            from rich.live import Live

            console = Console(file=self._stream)
            self._live = Live(console=console, get_renderable=self._shown, refresh_per_second=4, transient=True)
            self._live.start()
        else:
            self._thread = threading.Thread(target=self._report_at_times, name="under-way", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._live is not None:
            self._live.stop()
        if self._thread is not None:
            self._thread.join()
        NOW.rest()

    def say(self, text: str, done: int | None = None, total: int = 0) -> None:
        """Report a new activity. With `total` the remaining time is estimated from the number `done`."""
        NOW.begin(text)
        if done is not None:
            if not self._total:
                self._began = time.monotonic()
            self._done, self._total = done, total

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Open a context in which results are printed, without the progress line."""
        if self._live is not None:
            self._live.stop()
        try:
            yield
        finally:
            if self._live is not None:
                self._live.start()

    def line(self) -> str:
        """Return the present line."""
        line = NOW.line()
        if 0 < self._done < self._total:
            left = (time.monotonic() - self._began) / self._done * (self._total - self._done)
            line += f", about {left:.0f} s left"
        return line

    def _shown(self) -> Any:
        from rich.text import Text  # takes long, and only a terminal needs it

        return Text(self.line() if NOW.text else "", style="dim")

    def _report_at_times(self) -> None:
        since, reported = 0.0, 0
        while not self._ended.wait(0.1):
            if NOW.since != since:
                since, reported = NOW.since, 0
            if NOW.text and NOW.seconds >= reported_at(reported, NOW.patience):
                reported += 1
                self._stream.write(self._line_of(self.line()) + "\n")
                self._stream.flush()


def reported_at(reported: int, patience: float) -> float:
    """Return the seconds until the next report, after a number of reports."""
    times = [patience, *(t for t in REPORTED_AT if t > patience)]
    return times[reported] if reported < len(times) else LATER * (reported - len(times) + 1)


def _own(stream: IO[str]) -> IO[str]:
    """Return the same file under a descriptor of its own.

    While Spark's process starts, output to stderr is redirected.
    """
    try:
        return os.fdopen(os.dup(stream.fileno()), "w", encoding="utf-8", errors="replace")
    except (OSError, ValueError, AttributeError):  # a stream of a test, or none
        return stream
