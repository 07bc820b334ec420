"""A reader of a store that may not exist yet or may become unavailable.

In: a function that opens the store. Out: the answers of its reader, or a `RequestError` with status 503 while there is
no store. An attempt to reach an unavailable store takes seconds, and a serving process has few threads. So only one
request per second attempts it, and the others are answered at once.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from threading import Lock
from typing import Any, Generic, TypeVar

from belvedere.api.failures import NOT_READY, STORE_AWAY, RequestError
from belvedere.errors import BelvedereError
from belvedere.store.protocol import AnsweringReader, EpochRow, LoopReader

NO_FILE = "B7001"
AWAY = frozenset({NO_FILE, "B7004", "B7005", "B7020"})
"""Error codes of a store that is unavailable at the moment."""
PAUSE_SECONDS = 1.0
MAX_TRY_SECONDS = 15.0
"""Maximum seconds that an attempt blocks further attempts."""

T = TypeVar("T")
R = TypeVar("R", bound=AnsweringReader)
Fetch = Callable[[str, Any], Awaitable[list[tuple[Any, ...]]]]


class LazyReader(Generic[R]):
    """The reader of a store, opened at the first read."""

    def __init__(self, open_reader: Callable[[], R], now: Callable[[], float] = time.monotonic):
        self._open, self._now = open_reader, now
        self._reader: R | None = None
        self._fetch: Fetch | None = None
        self._lock, self._opening = Lock(), Lock()
        self._is_away = False
        self._next_try = 0.0

    @property
    def is_open(self) -> bool:
        """Return whether the store was opened, so that its dialect is known without waiting."""
        return self._reader is not None

    @property
    def is_away(self) -> bool:
        """Return whether the last read failed because the store was unavailable."""
        return self._is_away

    @property
    def is_on_loop(self) -> bool:
        """Return whether the store is open and its reader runs on the event loop, by `fetch`."""
        return self._fetch is not None

    @property
    def dialect(self) -> str:
        return self.reading(lambda reader: reader.dialect)

    def execute(self, sql: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
        return self.reading(lambda reader: reader.execute(sql, parameters))

    async def fetch(self, sql: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
        if self._is_away:
            self._take_turn()
        try:
            assert self._fetch is not None
            rows = await self._fetch(sql, parameters)
        except BelvedereError as error:
            self._judge(error)
            raise
        self._is_away = False
        return rows

    def last_epoch(self) -> EpochRow | None:
        return self.reading(lambda reader: reader.last_epoch())

    def document(self, name: str) -> str | None:
        return self.reading(lambda reader: reader.document(name))

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def reading(self, work: Callable[[R], T]) -> T:
        """Run the work. Raises without an attempt if the store was unavailable a moment ago."""
        if self._is_away:
            self._take_turn()
        try:
            result = work(self._reader or self._opened())
        except BelvedereError as error:
            self._judge(error)
            raise
        self._is_away = False
        return result

    def _judge(self, error: BelvedereError) -> None:
        """Record whether the store is unavailable, and raise if it is."""
        self._is_away = error.diagnostics[0].code in AWAY
        if self._is_away:
            self._next_try = self._now() + PAUSE_SECONDS
            raise _away() from error

    def _take_turn(self) -> None:
        """Return if this request may attempt to reach the store, else raise."""
        with self._lock:
            if self._now() < self._next_try:
                raise _away()
            self._next_try = self._now() + MAX_TRY_SECONDS

    def _opened(self) -> R:
        with self._opening:
            if self._reader is None:
                try:
                    self._reader = self._open()
                    self._fetch = self._reader.fetch if isinstance(self._reader, LoopReader) else None
                except BelvedereError as error:
                    if error.diagnostics[0].code in AWAY - {NO_FILE}:
                        raise
                    message = "no epoch is committed yet"
                    raise RequestError(
                        NOT_READY, message, "try again when `/readyz` returns 200", status=503
                    ) from error
            return self._reader


def _away() -> RequestError:
    return RequestError(STORE_AWAY, "the store cannot be reached", "try again in a few seconds", status=503)
