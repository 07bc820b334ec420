"""Garbage collections of a serving process, which hold up all of its requests.

In: whether the process has nothing to do. Out: nothing. Most of what requests make has no cycles, and needs no collection: a full one,
which looks at all that a large push has made, waits until nobody asks.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

YOUNG, MIDDLE, NEVER = 700, 10, 1_000_000_000
LOOK_SECONDS = 5.0
MAX_LOOKS = 120
"""So often a process may be busy when it is looked at, before it collects all the same."""


def shorten_collections() -> None:
    """Leave what is there now out of all collections, and run no full one by itself."""
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, NEVER)


async def collect_when_idle(is_idle: Callable[[], bool]) -> None:
    """Run full collections, for ever."""
    looks = 0
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        looks += 1
        if is_idle() or looks >= MAX_LOOKS:
            gc.collect()
            looks = 0
