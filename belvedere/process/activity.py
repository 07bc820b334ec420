"""The current activity of this process, for progress reports: starting Spark, reading rows, a stage of an epoch.

In: reports from the code that does the work. Out: one line at any moment. There is a single `NOW`, because a process
does one thing at a time; any thread may read it. Nothing is printed here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from belvedere.errors import counted


class Activity:
    """The current activity: a text and a start time, in some cases with stages and rows."""

    def __init__(self) -> None:
        self.text = ""
        self.first = self.since = time.monotonic()
        self.patience = 1.0
        """Seconds after which an activity is reported when nothing else shows progress."""
        self.stage, self.number, self.stages = "", 0, 0
        self.rows = 0
        self.usual = 0.0

    def begin(self, text: str, patience: float = 1.0, usual: float = 0.0) -> None:
        """Start another activity, which usually takes `usual` seconds (0: unknown)."""
        before, now = self.text, time.monotonic()
        self.text, self.since, self.patience, self.usual = text, now, patience, usual
        self.first = self.first if before else now
        self.stage, self.number, self.stages, self.rows = "", 0, 0, 0

    @contextmanager
    def meanwhile(self, text: str) -> Iterator[None]:
        """Run the block as an activity for which the present one waits."""
        before, since, patience = self.text, self.since, self.patience
        self.begin(text)
        try:
            yield
        finally:
            self.text, self.since, self.patience = before, since, patience

    def at(self, stage: str, number: int, stages: int) -> None:
        """Record the start of a stage, number `number` of `stages`."""
        self.stage, self.number, self.stages = stage, number, stages

    def read(self, text: str, patience: float = 1.0) -> None:
        """Start reading rows; rows per second are counted from now on."""
        self.begin(text, patience)
        self.first = self.since

    def rest(self) -> None:
        """End the activity."""
        self.begin("")

    @property
    def seconds(self) -> float:
        """Return the duration of the activity so far, in seconds."""
        return time.monotonic() - self.since

    def line(self) -> str:
        """Return the present activity: the stage, rows, the time so far, the usual time."""
        seconds = self.seconds
        parts = [self.text]
        if self.stages:
            parts.append(f"stage {self.number} of {self.stages} ({self.stage})")
        if self.rows:
            parts.append(counted(self.rows, "row"))
            parts.append(f"{self.rows / max(1.0, time.monotonic() - self.first):,.0f} rows/s")
        parts.append(f"{seconds:.0f} s")
        if self.usual >= 1:
            parts.append(f"usually {self.usual:.0f} s")
        return ", ".join(parts)


NOW = Activity()
"""The current activity of this process."""
