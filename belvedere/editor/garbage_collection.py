"""Schedule of garbage collections in a process that serves an editor: while the user is not typing.

In: nothing. Out: nothing. Trees of a compile have parent references, so only the collector frees them. A full
collection takes as long as the answer to a key, and could delay one.
"""

from __future__ import annotations

import gc

NEVER = 1 << 30


def collect_when_asked() -> None:
    """Leave what is there now out of every look, and let old objects be looked at by `collect` alone."""
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, NEVER)


def collect() -> None:
    """Look at all objects now."""
    gc.collect()
