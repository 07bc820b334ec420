"""Earlier bounds of the inputs, for delays: a delayed stage may still emit rows that changed since then.

In: the bounds after every committed epoch, with its clock. Out: the bounds of the last epoch that is old enough.
Nothing is stored across a restart. Until enough time has passed no bound is known, and state is kept a little longer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from belvedere.plan.bound_rules import Known

Inputs = Mapping[str, Mapping[str, int] | None]
STEPS, MOST = 100, 10_000
"""Number of steps in the shortest delay, and the maximum number in the longest: bounds are recorded with this
resolution.
"""


class PastBounds:
    """Records bounds for the longest of the given delays, in microseconds."""

    def __init__(self, delays: Iterable[int]):
        self._delays = tuple(delays)
        self._gap = max(min(self._delays) // STEPS, max(self._delays) // MOST) if self._delays else 0
        self._known: deque[tuple[int, Inputs]] = deque()

    def note(self, clock: int, bounds: Inputs) -> None:
        """Record the bounds after a committed epoch with its clock (microseconds since 1970)."""
        if not self._delays:
            return
        if not self._known or clock - self._known[-1][0] >= self._gap:
            self._known.append((clock, bounds))
        while len(self._known) > 1 and self._known[1][0] <= clock - max(self._delays):
            self._known.popleft()

    def before(self, clock: int, delay: int) -> Known:
        """Return the bounds at `delay` before a clock, or slightly lower ones; empty if they are not known."""
        found: Inputs = next((b for at, b in reversed(self._known) if at <= clock - delay), {})
        return lambda relation: found.get(relation) or {}
