"""Writes behind: the database takes rows in while Spark computes the next ones, or once it has computed all.

In: calls that write. Out: they run in their order, in one thread, or where the caller settles; an error comes out there. Whoever reads what
was written, or commits it, settles first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class WritesBehind:
    """The writes of one epoch. `close` ends the thread. `late`: all of them wait until somebody settles."""

    def __init__(self, late: bool = False) -> None:
        self._late = late
        self._held: list[Callable[[], object]] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="writes")
        self._waiting: deque[Future[None]] = deque()

    def do(self, write: Callable[[], object]) -> None:
        """Run it after those before; none runs after one that failed. Raises what one of them raised."""
        if self._late:
            self._held.append(write)
            return
        while self._waiting and self._waiting[0].done():
            self._waiting.popleft().result()
        before = self._waiting[-1] if self._waiting else None
        self._waiting.append(self._thread.submit(_after, before, write))

    def settle(self) -> None:
        """Wait until all is written. Raises what one of them raised."""
        while self._waiting:
            self._waiting.popleft().result()
        while self._held:
            self._held.pop(0)()

    def close(self) -> None:
        """Wait for the write that runs, drop the others."""
        self._held.clear()
        self._thread.shutdown(cancel_futures=True)


def _after(before: Future[None] | None, write: Callable[[], object]) -> None:
    if before is not None:
        before.result()
    write()
