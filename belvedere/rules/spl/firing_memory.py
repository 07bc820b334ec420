"""Memory of the stages of SPL windows between epochs, in addition to the windows' rows.

In: nothing. Out: the memories of the stages of windows and of joined windows.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from belvedere.kernels.search import GREATEST, Ints
from belvedere.kernels.spl.window_rows import NEVER
from belvedere.store.stage_memory import Numbered, remembered


@dataclass
class FiringMemory(Numbered):
    """`firings`: number of the next firing."""

    firings: int = remembered(" firings", 1)

    def forget(self) -> None:
        """Reset the memory for a recomputation: no firing is remembered, but the numbers of rows continue."""
        going_on = {own.name for own in fields(Numbered)}
        for own in fields(self):
            if own.name not in going_on:
                setattr(self, own.name, own.default)

    def take_firings(self, count: int) -> Ints:
        """Return the numbers of the next `count` firings."""
        first, self.firings = self.firings, self.firings + count
        return np.arange(first, self.firings)


@dataclass
class WindowMemory(FiringMemory):
    """Memory of a stage of windows. Times are in microseconds.

    `ticked`: the clock of the stage's last run. `watermark`: the watermark of the last panes. `late`: the least event
    time of rows since then.
    """

    ticked: int = remembered(" ticked", NEVER)
    watermark: int = remembered(" watermark", NEVER)
    late: int = remembered(" late", GREATEST)
