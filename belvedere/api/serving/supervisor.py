"""Supervise a child process: restart it if it ends before it is stopped.

In: a function that starts the process; closing the process's input ends it. Out: a `Supervisor`, to be closed. The
pauses before a restart double up to half a minute, and are short again after a process has run for a while. It does not
depend on the process's work.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable
from threading import Event, Lock, Thread

FIRST_PAUSE, MAX_PAUSE_SECONDS = 0.1, 30.0
"""Seconds before a process is started again."""
STEADY = 60.0
"""Seconds after which a process counts as started successfully."""
END_SECONDS = 8.0

Process = subprocess.Popen[bytes]


class Supervisor:
    """One supervised process.

    Before a restart, `again` is called in a separate thread with a description of how the process ended.
    """

    def __init__(self, start: Callable[[], Process], again: Callable[[str], None]):
        self._start, self._again = start, again
        self._lock = Lock()
        self._closed = Event()
        self.child = start()
        self._thread = Thread(target=self._supervise, name="supervisor", daemon=True)
        self._thread.start()

    def alive(self) -> bool:
        """Return whether a process runs now."""
        return self.child.poll() is None

    def close(self) -> None:
        """Stop the process; `wait` waits for its end."""
        with self._lock:
            self._closed.set()
            _end_input(self.child)

    def wait(self) -> None:
        """Return when the process has ended; one that takes too long is killed."""
        self._thread.join(END_SECONDS)
        if self.alive():
            self.child.kill()
            self.child.wait()

    def _supervise(self) -> None:
        pause = FIRST_PAUSE
        while True:
            started = time.monotonic()
            code = self.child.wait()
            if time.monotonic() - started > STEADY:
                pause = FIRST_PAUSE
            if self._closed.wait(pause):
                return
            pause = min(2 * pause, MAX_PAUSE_SECONDS)
            with self._lock:
                if self._closed.is_set():
                    return
                _end_input(self.child)
                with contextlib.suppress(
                    OSError
                ):  # no memory for it, or it died at once: tried again after the next pause
                    self.child = self._start()
                    self._again(_how(code))


def _end_input(process: Process) -> None:
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
