"""Flag that asks a run to end.

It imports nothing of Spark, so signals can be caught before Spark is loaded.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopFlag:
    """A flag that asks a run to end.

    Unlike `threading.Event`, whose lock is not reentrant, a signal handler can set it.

    While `interrupts` is true (no running work must be finished), a signal ends the program at once.
    """

    def __init__(self) -> None:
        self._set = False
        self.interrupts = True

    def set(self) -> None:
        """Ask for the end."""
        self._set = True

    def is_set(self) -> bool:
        """Return whether the end was requested."""
        return self._set

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal.

        The first one sets the flag; a second one ends the program at once, since the store is consistent at any moment.
        """
        if self._set:
            os._exit(128 + number)
        self._set = True
        if self.interrupts:
            raise KeyboardInterrupt


@contextmanager
def stop_on_signals() -> Iterator[StopFlag]:
    """Open a context in which Ctrl-C, SIGTERM and a closed terminal set the flag. They can interrupt the block."""
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
