"""Epochs as they are committed, for all who wait in one process: one look at the store serves them all.

In: how the last epoch is read. Out: the newest epoch, once it is another than the one that is known. Nobody waits, nobody looks.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from belvedere.api.failures import RequestError
from belvedere.store.protocol import EpochRow

LOOK_SECONDS = 0.02
"""So long between two looks, and as long as a look took where that is longer."""
IDLE_SECONDS = 1.0
"""So long is looked after the last one waited."""


class Epochs:
    """The epochs of one store."""

    def __init__(self, last_epoch: Callable[[], Awaitable[EpochRow | None]]):
        self._last_epoch = last_epoch
        self._waiting: set[asyncio.Future[EpochRow]] = set()
        self._last: EpochRow | None = None
        self._looker: asyncio.Task[None] | None = None
        self._asked = 0.0

    async def next(self, known: int, seconds: float) -> EpochRow | None:
        """The last epoch where it is not `known`, or the next one; None where none comes within so many seconds."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[EpochRow] = loop.create_future()
        self._asked = loop.time()
        if self._looker is None or self._looker.done():
            self._last = None  # nobody looked for a while
            self._looker = loop.create_task(self._look())
        elif self._last is not None and self._last.epoch != known:
            return self._last
        self._waiting.add(waiting)
        try:
            found = await asyncio.wait_for(waiting, seconds)
        except TimeoutError:
            return None
        finally:
            self._waiting.discard(waiting)
        return found if found.epoch != known else await self.next(known, seconds)

    async def _look(self) -> None:
        clock = asyncio.get_running_loop().time
        while self._waiting or clock() - self._asked < IDLE_SECONDS:
            started = clock()
            with contextlib.suppress(RequestError):  # the store is away: it comes back
                last = await self._last_epoch()
                if last is not None and (self._last is None or last.epoch != self._last.epoch):
                    self._last = last
                    for waiting in self._waiting:
                        if not waiting.done():
                            waiting.set_result(last)
            await asyncio.sleep(max(LOOK_SECONDS, clock() - started))
