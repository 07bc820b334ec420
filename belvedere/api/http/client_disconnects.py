"""Clients that disconnect before their answer: the work for them is cancelled, including a statement in Postgres.

In: the `receive` function of a request, after its body. Out: nothing; the answering task is cancelled. Most answers are
complete before the first check.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from starlette.types import Receive

WATCH_SECONDS = 0.1
"""Seconds after which the client of a running request is watched for disconnects."""


class Departure:
    """A context that watches the client for a disconnect.

    It absorbs the cancellation that it causes; `is_gone` is then true.
    """

    def __init__(self, receive: Receive):
        self._receive = receive
        self._watching: asyncio.Task[None] | None = None
        self.is_gone = False

    def __enter__(self) -> Departure:
        loop = asyncio.get_running_loop()
        self._answering = asyncio.current_task()
        self._timer = loop.call_later(WATCH_SECONDS, self._watch, loop)
        return self

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        self._watching = loop.create_task(self._until_gone())

    async def _until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if self._answering is not None:
            self.is_gone = True
            self._answering.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._timer.cancel()
        if self._watching is not None:
            self._watching.cancel()
        if self.is_gone and kind is asyncio.CancelledError and self._answering is not None:
            return self._answering.uncancel() == 0
        return False
