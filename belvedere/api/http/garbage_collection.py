"""Garbage collections of a serving process, which block all of its requests.

In: whether the process is idle. Out: nothing. Most objects of requests have no cycles and need no collection. A full
collection, which visits all objects of a large push, waits until the process is idle.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

YOUNG, MIDDLE, NEVER = 700, 10, 1_000_000_000
LOOK_SECONDS = 5.0
MAX_LOOKS = 120
"""Maximum number of checks that may find the process busy before it collects anyway."""


def shorten_collections() -> None:
    """Exclude all present objects from collections, and disable automatic full collections."""
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, NEVER)


async def collect_when_idle(is_idle: Callable[[], bool]) -> None:
    """Run full collections until the task is cancelled."""
    looks = 0
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        looks += 1
        if is_idle() or looks >= MAX_LOOKS:
            gc.collect()
            looks = 0
