"""When Python looks for garbage in a process that answers an editor: while nobody types.

In: nothing. Out: nothing. Trees of a compile point at their parents, so only the collector frees them; a look at all objects takes as long
as the answer to a key, and would come in the middle of one.
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
