"""Flow control for a receiver of requests: events per request, and timeout of its answer.

In: whether it answered in time. Out: sizes and seconds. A request that may have been accepted is sent again unchanged,
with a longer timeout, since the receiver identifies it by its id. Only after `TRIES` attempts it is split. Later
requests become smaller at once, and grow again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_EVENTS = 1_000
"""Maximum number of events in one request."""
TRIES = 3
"""Number of attempts to send a request unchanged, each with twice the timeout, before it is halved."""
AT_EASE = 0.25
"""Fraction of the timeout within which an answer lets requests grow again."""


@dataclass
class Pace:
    """The observed capacity of a receiver.

    `largest`: the number of events of a new request; `late`: consecutive answers that were too late or missing.
    """

    largest: int
    late: int = 0

    def patience(self, seconds: float) -> float:
        """Return the timeout of the present request in seconds, given the normal timeout."""
        return seconds * 2.0 ** min(self.late, TRIES - 1)

    def size(self, before: int, left: int) -> int:
        """Return the number of remaining events in the next request.

        `before`: size of a request that may have been accepted.
        """
        if not before:
            return min(self.largest, left)
        return max(1, before // 2) if self.late >= TRIES else before

    def came_late(self, events: int) -> None:
        """Record that a request with `events` was not answered in time."""
        self.late += 1
        self.largest = max(1, min(self.largest, events) // 2)

    def too_large(self, events: int) -> None:
        """Record that a receiver rejected `events` as too many."""
        self.largest = max(1, events // 2)

    def answered(self, used: float, most: int) -> None:
        """Record an answer within the fraction `used` of the timeout; `most` is the maximum number of events in a
        request."""
        self.late = 0
        if used < AT_EASE:
            self.largest = min(most, self.largest * 2)

    def document(self) -> dict[str, int]:
        """Return the document that the store keeps."""
        return {"largest": self.largest, "late": self.late}

    @classmethod
    def of_document(cls, found: Mapping[str, Any], most: int) -> Pace:
        """Read the pace from the store's document."""
        return cls(min(most, int(found.get("largest", most))), int(found.get("late", 0)))
