"""A reader of a store that may not be there yet, or may go away.

In: how to open the store. Out: what its reader answers, or a `RequestError` with status 503 until there is a store. While a store is away,
one request a second tries to reach it and the others are answered at once: a try takes seconds, and a serving process has few threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar

from belvedere.api.failures import NOT_READY, STORE_AWAY, RequestError
from belvedere.errors import BelvedereError
from belvedere.store.protocol import EpochRow, Reader

NO_FILE = "B7001"
AWAY = frozenset({NO_FILE, "B7004", "B7005", "B7020"})
"""Codes of the store that say that it cannot be reached now."""
PAUSE = 1.0
LONGEST_TRY = 15.0
"""Seconds: between two tries, and how long a try may take before another one is made."""

T = TypeVar("T")


class LazyReader:
    """The `Reader` of a store, opened when it is first asked."""

    def __init__(self, open_reader: Callable[[], Reader], now: Callable[[], float] = time.monotonic):
        self._open, self._now = open_reader, now
        self._reader: Reader | None = None
        self._lock, self._opening = Lock(), Lock()
        self._is_away = False
        self._next_try = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the store was opened, so that its dialect is known without waiting."""
        return self._reader is not None

    @property
    def dialect(self) -> str:
        return self._reading(lambda reader: reader.dialect)

    def execute(self, sql: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
        return self._reading(lambda reader: reader.execute(sql, parameters))

    def rows(self, table: Any, as_of: Any = None) -> Any:
        return self._reading(lambda reader: reader.rows(table, as_of))

    def last_epoch(self) -> EpochRow | None:
        return self._reading(lambda reader: reader.last_epoch())

    def document(self, name: str) -> str | None:
        return self._reading(lambda reader: reader.document(name))

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def _reading(self, work: Callable[[Reader], T]) -> T:
        """Do the work; where the store is away, and was a moment ago, say so without trying."""
        if self._is_away:
            self._take_turn()
        try:
            result = work(self._reader or self._opened())
        except BelvedereError as error:
            if error.diagnostics[0].code not in AWAY:
                self._is_away = False
                raise
            self._is_away, self._next_try = True, self._now() + PAUSE
            raise _away() from error
        self._is_away = False
        return result

    def _take_turn(self) -> None:
        """Return where this request may try the store, else raise."""
        with self._lock:
            if self._now() < self._next_try:
                raise _away()
            self._next_try = self._now() + LONGEST_TRY

    def _opened(self) -> Reader:
        with self._opening:
            if self._reader is None:
                try:
                    self._reader = self._open()
                except BelvedereError as error:
                    if error.diagnostics[0].code in AWAY - {NO_FILE}:
                        raise
                    message = "no epoch was committed yet"
                    raise RequestError(NOT_READY, message, "ask again when `/readyz` answers 200", status=503) from error
            return self._reader


def _away() -> RequestError:
    return RequestError(STORE_AWAY, "the store cannot be reached", "ask again a little later", status=503)
