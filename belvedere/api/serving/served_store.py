"""The store of a serving process, with the threads that read it and plan requests.

In: a function that opens the store. Out: the answers of its reader. The store may be created after the process. It does
not depend on HTTP or views.
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
"""Key of the store's document of views that are computed on read, by `belvedere.pipeline.placement`, which is imported
on demand."""
PLANNERS = 2
"""Number of threads that parse, validate and plan."""


class ServedStore:
    """One store, read by `threads` threads, or on the event loop if its reader supports that."""

    def __init__(self, open_reader: Callable[[], AnsweringReader], threads: int):
        self.reader = LazyReader(open_reader)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="read")
        self._planners = ThreadPoolExecutor(PLANNERS, thread_name_prefix="plan")

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run work that waits for the store in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def in_planner(self, work: Callable[[], T]) -> T:
        """Run work that keeps this process busy where it blocks no request."""
        return await asyncio.get_running_loop().run_in_executor(self._planners, work)

    async def opened(self) -> None:
        """Wait until the store is open; raises `RequestError` if there is none."""
        if not self.reader.is_open:
            await self.in_thread(lambda: self.reader.dialect)

    async def last_epoch(self) -> EpochRow | None:
        """Return the last committed epoch, or None before the first. Raises `RequestError` if the store is
        unavailable."""
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
        """Return the store's document of views that the database computes on read; None without one or without a
        store."""
        try:
            return await self.in_thread(lambda: self.reader.document(CHOICE))
        except RequestError as error:
            if error.code != NOT_READY:
                raise
            return None
