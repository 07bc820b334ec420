"""Epochs as they are committed, for all who wait in one process: one look at the store serves them all.

In: how the last epoch is read. Out: the newest epoch, once it is another than the one that is known; nothing where those who wait are
woken without one, which they are every moment. Nobody waits, nobody looks.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from belvedere.store.protocol import EpochRow

LOOK_SECONDS = 0.02
"""So long between two looks, and as long as a look took where that is longer."""
IDLE_SECONDS = 1.0
"""So long is looked after the last one waited."""
WAKE_SECONDS = 2.0
"""So long nobody waits at most: they look whether they are still wanted."""


class Epochs:
    """The epochs of one store."""

    def __init__(self, last_epoch: Callable[[], Awaitable[EpochRow | None]]):
        self._last_epoch = last_epoch
        self._news = asyncio.Event()
        """What those who wait share: a timer for each would cost more than the epochs."""
        self._waiting = 0
        self._last: EpochRow | None = None
        self._looker: asyncio.Task[None] | None = None
        self._asked = 0.0

    async def next(self, known: int) -> EpochRow | None:
        """The last epoch where it is not `known`, or the next one; None for who is woken without one."""
        loop = asyncio.get_running_loop()
        self._asked = loop.time()
        if self._looker is None or self._looker.done():
            self._last, self._news = None, asyncio.Event()  # nobody looked for a while, so nobody waits
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
        """Wake all who wait."""
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
