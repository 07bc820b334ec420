"""What a command is doing, from its first second on: a line that is drawn again in a terminal, plain lines elsewhere.

In: what is under way, how much of how much is done. Out: text on stderr; stdout is for results. Elsewhere than in a terminal a line
comes when something takes longer than a second, then more and more seldom. `BELVEDERE_PROGRESS=off` says nothing, and so does a command
with `--json`.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import IO, Any, Self

VARIABLE = "BELVEDERE_PROGRESS"
TOLD_AT = (1.0, 10.0, 30.0)
"""Seconds after which plain lines tell that something is still under way; then each minute."""
LATER = 60.0


def stamped(text: str, level: str = "INFO", now: datetime | None = None) -> str:
    """A line with the time of this machine and its level."""
    return f"{now or datetime.now():%Y-%m-%d %H:%M:%S} {level:<7} {text}"


class UnderWay:
    """A context in which what is under way is told. `quiet`: say nothing."""

    def __init__(self, stream: IO[str] | None = None, *, quiet: bool = False):
        self._stream = _own(stream or sys.stderr)
        self._is_off = quiet or os.environ.get(VARIABLE) == "off"
        self._text, self._since, self._told = "", time.monotonic(), 0
        self._done, self._total, self._began = 0, 0, time.monotonic()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._live: Any = None

    def __enter__(self) -> Self:
        if self._is_off:
            return self
        if self._stream.isatty():
            from rich.console import Console
            from rich.live import Live

            console = Console(file=self._stream)
            self._live = Live(console=console, get_renderable=self._shown, refresh_per_second=4, transient=True)
            self._live.start()
        else:
            self._thread = threading.Thread(target=self._tell, name="under-way", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended.set()
        if self._live is not None:
            self._live.stop()
        if self._thread is not None:
            self._thread.join()

    @contextmanager
    def meanwhile(self, text: str) -> Iterator[None]:
        """Something is under way that something else waits for."""
        before, since = self._text, self._since
        self.say(text)
        try:
            yield
        finally:
            self._text, self._since = before, since

    def say(self, text: str, done: int | None = None, total: int = 0) -> None:
        """Something else is under way; with `total` the time left is estimated from how much is `done`."""
        self._text, self._since, self._told = text, time.monotonic(), 0
        if done is not None:
            if not self._total:
                self._began = time.monotonic()
            self._done, self._total = done, total

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Results are printed meanwhile."""
        if self._live is not None:
            self._live.stop()
        try:
            yield
        finally:
            if self._live is not None:
                self._live.start()

    def line(self) -> str:
        """What is told now."""
        seconds = time.monotonic() - self._since
        parts = [self._text or "starting", f"{seconds:.0f} s"]
        if 0 < self._done < self._total:
            left = (time.monotonic() - self._began) / self._done * (self._total - self._done)
            parts.append(f"about {left:.0f} s left")
        return ", ".join(parts)

    def _shown(self) -> Any:
        from rich.text import Text

        return Text(self.line(), style="dim")

    def _tell(self) -> None:
        while not self._ended.wait(0.2):
            at = TOLD_AT[self._told] if self._told < len(TOLD_AT) else LATER * (self._told - len(TOLD_AT) + 1)
            if time.monotonic() - self._since >= at:
                self._told += 1
                self._stream.write(stamped(self.line()) + "\n")
                self._stream.flush()


def _own(stream: IO[str]) -> IO[str]:
    """The same file under a number of its own: while Spark's process starts, what is written to stderr goes elsewhere."""
    try:
        return os.fdopen(os.dup(stream.fileno()), "w", encoding="utf-8", errors="replace")
    except (OSError, ValueError, AttributeError):  # a stream of a test, or none
        return stream
