"""The store that a process serves, and the threads in which it is read and requests are planned.

In: how to open the store. Out: what its reader answers; it may come to be after the process. It knows no HTTP and no views.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from belvedere.api.failures import NOT_READY, RequestError
from belvedere.api.serving.lazy_reader import LazyReader
from belvedere.errors import BelvedereError
from belvedere.store.definitions import epoch_from_values
from belvedere.store.protocol import AnsweringReader, EpochRow
from belvedere.store.system import LAST_EPOCH

T = TypeVar("T")

CHOICE = "_choice"
"""The document in which a store keeps its views at read: that of `belvedere.pipeline.placement`, which is loaded when it is asked for."""
PLANNERS = 2
"""Threads that parse, validate and plan."""


class ServedStore:
    """One store, read by `threads` threads, or on the event loop where its reader can."""

    def __init__(self, open_reader: Callable[[], AnsweringReader], threads: int):
        self.reader = LazyReader(open_reader)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="read")
        self._planners = ThreadPoolExecutor(PLANNERS, thread_name_prefix="plan")

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do what waits for the store."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def in_planner(self, work: Callable[[], T]) -> T:
        """Run work that keeps this process busy where it blocks no request."""
        return await asyncio.get_running_loop().run_in_executor(self._planners, work)

    async def opened(self) -> None:
        """Wait until the store is open; raises `RequestError` where there is none."""
        if not self.reader.is_open:
            await self.in_thread(lambda: self.reader.dialect)

    async def last_epoch(self) -> EpochRow | None:
        """The last committed epoch, or None while there is none; raises `RequestError` where the store is away."""
        try:
            if not self.reader.is_on_loop:
                return await self.in_thread(self.reader.last_epoch)
            rows = await self.reader.fetch(LAST_EPOCH)
            return epoch_from_values(rows[0]) if rows else None
        except BelvedereError:
            return None
        except RequestError as error:
            if error.code != NOT_READY:
                raise
            return None

    async def choice(self) -> str | None:
        """The store's document of what the database computes when it is read; None where it has none, or there is no store yet."""
        try:
            return await self.in_thread(lambda: self.reader.document(CHOICE))
        except RequestError as error:
            if error.code != NOT_READY:
                raise
            return None
