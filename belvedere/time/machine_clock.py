"""The machine's clock, checked against the elapsed time.

In: the record of the last epoch, the machine's clock, a monotonic counter of seconds that also runs while the machine
sleeps. Out: `now()`. A clock that jumps ahead by more than an hour would expire all rows with a retention at once, and
epochs never go back. So Belvedere reports such a jump and continues from the time before it. It uses the clock again
when the clock agrees, when a database on another machine has the same time, or when the user accepts it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from belvedere.errors import counted
from belvedere.values.instants import instant, microseconds

NAME = "~clock"
"""Its key among the offsets in an epoch's row."""
JUMP = timedelta(hours=1)
UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
"""Units of lengths of time, each with its number of seconds."""
HOUR = JUMP // timedelta(microseconds=1)
STARTED = Path("/proc/sys/kernel/random/boot_id")
ACCEPT = "if it is right, start again with --accept-clock"


@dataclass(frozen=True)
class Ticks:
    """Sources of time in microseconds: the clock, the monotonic counter, and an id of the counter's start ("" if
    unknown)."""

    clock: Callable[[], int]
    counter: Callable[[], int]
    started: str


def machine_ticks() -> Ticks:
    """Return the sources of time of this machine."""
    kind = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # macOS counts sleep in CLOCK_MONOTONIC
    started = STARTED.read_text().strip() if STARTED.exists() else ""
    return Ticks(lambda: microseconds(datetime.now(UTC)), lambda: time.clock_gettime_ns(kind) // 1000, started)


class MachineClock:
    """A clock that does not follow jumps. Thread-safe; only the thread that runs epochs calls `heed`."""

    def __init__(self, noted: Mapping[str, Any] | None = None, *, accept: bool = False, ticks: Ticks | None = None):
        """Start from the last epoch's `document` (`noted`). If `accept`, the machine's clock is accepted as it is."""
        self.notify: Callable[[str], None] = lambda text: None
        self._ticks = ticks or machine_ticks()
        self._lock = threading.Lock()
        self._base: tuple[int, int] | None = None
        self._reported: int | None = None
        if noted and not accept and noted["started"] == self._ticks.started:
            self._base = (noted["clock"], noted["counter"])

    def now(self) -> datetime:
        """Return the machine's time, or the expected time if the machine's clock has jumped ahead."""
        with self._lock:
            clock, expected = self._read()
            return instant(expected if clock - expected > HOUR else clock)

    def heed(self, other: Callable[[], int | None]) -> None:
        """Report a jump, and again every hour. Accept it if another machine's clock (`other`, microseconds) agrees."""
        with self._lock:
            clock, expected = self._read()
            counter = self._ticks.counter()
            if clock - expected <= HOUR:
                self._reported = None
                return
            said = other()
            if said is not None and abs(said - clock) <= HOUR:
                self._base = (clock, counter)
                return
            if self._reported is not None and counter - self._reported < HOUR:
                return
            self._reported = counter
        ahead = duration_text(clock - expected)
        self.notify(
            f"the clock of this machine has jumped ahead by {ahead}: now() continues from before the jump; {ACCEPT}"
        )

    def document(self) -> dict[str, Any]:
        """Return the record for an epoch's row; empty if a later process could not compute the elapsed time."""
        with self._lock:
            if self._base is None or not self._ticks.started:
                return {}
            clock, counter = self._base
            return {"started": self._ticks.started, "clock": clock, "counter": counter}

    def _read(self) -> tuple[int, int]:
        """Return the machine's clock, and the expected clock without adjustments; small steps are accepted."""
        clock, counter = self._ticks.clock(), self._ticks.counter()
        if self._base is None:
            self._base = (clock, counter)
        expected = self._base[0] + counter - self._base[1]
        if abs(clock - expected) <= HOUR:
            self._base = (clock, counter)
        return clock, expected


def duration_text(length: int) -> str:
    """Return microseconds as a text for users, such as `10 days` or `3 hours`."""
    hours = round(length / HOUR)
    return f"{round(hours / 24)} days" if hours >= 48 else f"{hours} hours" if hours > 1 else "an hour"


def setting_text(length: timedelta) -> str:
    """Return a length as a setting says it, in the largest unit that divides it: `1 day`, `36 hours`, `90 seconds`."""
    seconds = length // timedelta(seconds=1)
    size, unit = next((n, unit) for n, unit in UNITS if seconds % n == 0)
    return counted(seconds // size, unit)
