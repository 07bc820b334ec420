"""Schedule of garbage collections in a process that serves an editor: only while the user is not typing.

In: nothing. Out: nothing. Trees of a compile have parent references, so only the collector frees them. A full
collection takes as long as the response to a key press, and could delay it.
"""

from __future__ import annotations

import gc

NEVER = 1 << 30


def collect_when_asked() -> None:
    """Exclude all present objects from collections, and collect old objects only in `collect`."""
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, NEVER)


def collect() -> None:
    """Run a full collection now."""
    gc.collect()
