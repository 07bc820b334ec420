"""Background writes: the database receives rows while Spark computes the next ones, or after it has computed all.

In: calls that write. Out: they run in order, in one thread, or when the caller settles, which raises their errors. Code
that reads or commits the written rows settles first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class WritesBehind:
    """The writes of one epoch. `close` ends the thread. `late`: all of them wait until the caller settles."""

    def __init__(self, late: bool = False) -> None:
        self._late = late
        self._held: list[Callable[[], object]] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="writes")
        self._waiting: deque[Future[None]] = deque()

    def do(self, write: Callable[[], object]) -> None:
        """Run a write after earlier ones; none runs after a failed one. Raises the error of a failed write."""
        if self._late:
            self._held.append(write)
            return
        while self._waiting and self._waiting[0].done():
            self._waiting.popleft().result()
        before = self._waiting[-1] if self._waiting else None
        self._waiting.append(self._thread.submit(_after, before, write))

    def settle(self) -> None:
        """Wait until everything is written. Raises the error of a failed write."""
        while self._waiting:
            self._waiting.popleft().result()
        while self._held:
            self._held.pop(0)()

    def close(self) -> None:
        """Wait for the running write, and drop the others."""
        self._held.clear()
        self._thread.shutdown(cancel_futures=True)


def _after(before: Future[None] | None, write: Callable[[], object]) -> None:
    if before is not None:
        before.result()
    write()
