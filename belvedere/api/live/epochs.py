"""Committed epochs for all waiters of one process: one poll of the store serves them all.

In: a function that reads the last epoch. Out: the newest epoch, once it differs from the known one; nothing if the
waiters are woken without one, which happens regularly. Without waiters there is no polling.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from belvedere.store.protocol import EpochRow

LOOK_SECONDS = 0.02
"""Seconds between two polls; at least as long as the last poll took."""
IDLE_SECONDS = 1.0
"""Seconds of polling after the last waiter has left."""
WAKE_SECONDS = 2.0
"""Maximum seconds that a waiter sleeps; it then checks whether it is still needed."""


class Epochs:
    """The epochs of one store."""

    def __init__(self, last_epoch: Callable[[], Awaitable[EpochRow | None]]):
        self._last_epoch = last_epoch
        self._news = asyncio.Event()
        """Event that all waiters share: a timer for each would cost more than the epochs."""
        self._waiting = 0
        self._last: EpochRow | None = None
        self._looker: asyncio.Task[None] | None = None
        self._asked = 0.0

    async def next(self, known: int) -> EpochRow | None:
        """Return the last epoch if it is not `known`, else the next one; None if woken without one."""
        loop = asyncio.get_running_loop()
        self._asked = loop.time()
        if self._looker is None or self._looker.done():
            self._last, self._news = None, asyncio.Event()  # polling has paused for a while, so there are no waiters
            self._looker = loop.create_task(self._look())
        elif self._last is not None and self._last.epoch != known:
            return self._last
        self._waiting += 1
        try:
            await self._news.wait()
        finally:
            self._waiting -= 1
        return self._last if self._last is not None and self._last.epoch != known else None

    def wake(self) -> None:
        """Wake all waiters."""
        self._news.set()
        self._news = asyncio.Event()

    async def _look(self) -> None:
        clock = asyncio.get_running_loop().time
        woken = clock()
        while self._waiting or clock() - self._asked < IDLE_SECONDS:
            started = clock()
            found = None
            with contextlib.suppress(Exception):  # the store is away: it comes back
                found = await self._last_epoch()
            is_new = found is not None and (self._last is None or found.epoch != self._last.epoch)
            if is_new:
                self._last = found
            if is_new or clock() - woken > WAKE_SECONDS:
                self.wake()
                woken = clock()
            await asyncio.sleep(max(LOOK_SECONDS, clock() - started))
