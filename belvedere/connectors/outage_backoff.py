"""Retries of a source or sink that does not answer, after increasing pauses instead of at every trigger.

In: its errors. Out: whether to skip it for now.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from belvedere.errors import BelvedereError, Diagnostic

PAUSES_SECONDS = (1.0, 2.0, 5.0, 10.0)
"""Pauses in seconds before each retry; the last one applies to all further retries."""
AWAY = ("B6201", "B6220", "B6227", "B6230", "B6240")
"""Codes of a source or sink that is unavailable or waits for others."""
WAITING = ("B6227",)
"""Codes of a source that continues by itself once others have finished."""
FINAL = ("B6101", "B6223", "B6224", "B6225", "B6226")
"""Codes of a source that needs an action of the user: a retry cannot succeed."""


class AwayError(BelvedereError):
    """Raised if the peer is unavailable, whatever the code; `seconds` is the pause that it asks for."""

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic], seconds: float | None = None):
        super().__init__(diagnostics)
        self.seconds = seconds


@dataclass
class Away:
    """The last error and the time of the next attempt; None if it answers."""

    failure: BelvedereError | None = None
    _tries: int = 0
    _again: float = 0.0

    @property
    def is_pausing(self) -> bool:
        """Return whether the pause after a failed attempt is not over."""
        return self.failure is not None and time.monotonic() < self._again

    def failed(self, error: BelvedereError) -> None:
        """Record a failed attempt."""
        asked = getattr(error, "seconds", None)
        pause = PAUSES_SECONDS[min(self._tries, len(PAUSES_SECONDS) - 1)] if asked is None else asked
        self.failure, self._again = error, time.monotonic() + pause
        self._tries += 1

    def went_on(self) -> None:
        """Reset the pauses, after it accepted some data before it failed."""
        self._tries = 0

    def answered(self) -> None:
        """Record a successful attempt."""
        self.failure, self._tries = None, 0


def is_waiting(error: BelvedereError) -> bool:
    """Return whether an error says that the source waits for others."""
    return any(d.code in WAITING for d in error.diagnostics)


def is_final(error: BelvedereError) -> bool:
    """Return whether a run cannot continue after an error without the user."""
    return any(d.code in FINAL for d in error.diagnostics)


def is_away(error: BelvedereError) -> bool:
    """Return whether an error says that the source or sink is unavailable."""
    return isinstance(error, AwayError) or any(d.code in AWAY for d in error.diagnostics)
