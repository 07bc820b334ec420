"""Rate limits for addresses and tokens: token buckets.

In: the caller and the time. Out: the seconds that the caller has to wait, 0 if none. Each serving process counts for
itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

MAX_CALLERS = 10_000
"""Maximum number of callers in memory; the oldest is dropped, which gives it a full bucket."""


class Rates:
    """Token buckets: each caller may send `per_second` requests per second. A full bucket allows a burst of that
    many."""

    def __init__(self, per_second: float, now: Callable[[], float] = time.monotonic):
        self._rate, self._most, self._now = per_second, max(1.0, per_second), now
        self._buckets: dict[Hashable, tuple[float, float]] = {}

    def wait(self, caller: Hashable) -> float:
        """Count a request of a caller. Return 0.0 if it may be answered, else the seconds to wait."""
        now = self._now()
        left, seen = self._buckets.pop(caller, (self._most, now))
        left = min(self._most, left + (now - seen) * self._rate)
        taken = left >= 1.0
        if len(self._buckets) >= MAX_CALLERS:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[caller] = (left - 1.0 if taken else left, now)
        return 0.0 if taken else (1.0 - left) / self._rate
