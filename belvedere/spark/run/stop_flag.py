"""The wish that a run should end. Imports nothing of Spark, so that signals can be caught before it is loaded."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopFlag:
    """Says that a run should end. Unlike `threading.Event`, whose lock is not reentrant, a signal handler may set it.

    While `interrupts` is true (nothing is under way that must be finished) a signal ends the program at once.
    """

    def __init__(self) -> None:
        self._set = False
        self.interrupts = True

    def set(self) -> None:
        """Ask for the end."""
        self._set = True

    def is_set(self) -> bool:
        """Whether the end was asked for."""
        return self._set

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """The first signal asks; a second one does not wait: the store is whole at any moment."""
        if self._set:
            os._exit(128 + number)
        self._set = True
        if self.interrupts:
            raise KeyboardInterrupt


@contextmanager
def stop_on_signals() -> Iterator[StopFlag]:
    """A flag that Ctrl-C, SIGTERM and a closed terminal set while the block runs; the block may be interrupted by them."""
    flag = StopFlag()
    numbers = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    previous = {number: signal.signal(number, flag.on_signal) for number in numbers}
    try:
        yield flag
    except KeyboardInterrupt:
        if not flag.is_set():
            raise
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
