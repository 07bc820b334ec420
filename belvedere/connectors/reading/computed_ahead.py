"""Compute parts of a file with several threads, in the order of the file.

In: items in order, and a function of each item. Out: the results in the same order; a few items are read and computed
ahead. Arrow and numpy release the interpreter lock, so other threads can compute meanwhile.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

THREADS = min(4, os.cpu_count() or 1)
"""Number of threads that read a file in the driver. A Spark task uses its own core only."""


def computed_ahead(
    compute: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> Iterator[tuple[Result, Iterator[Item]]]:
    """Yield each result, with its item and all later items: a caller that continues with these takes no more results.

    One thread computes nothing ahead. Exceptions of `items` are raised at their position among the results or the
    items.
    """
    rest = iter(items)
    if threads <= 1:
        for item in rest:
            yield compute(item), chain([item], rest)
        return
    waiting: deque[tuple[Item, Future[Result]]] = deque()
    with ThreadPoolExecutor(threads, "read") as pool:
        while True:
            try:
                while len(waiting) <= threads:
                    item = next(rest)
                    waiting.append((item, pool.submit(compute, item)))
            except StopIteration:
                pass
            except Exception as error:
                if not waiting:
                    raise
                rest = _raising(error)
            if not waiting:
                return
            item, future = waiting.popleft()
            yield future.result(), chain([item], [i for i, _ in waiting], rest)


def _raising(error: Exception) -> Iterator[Any]:
    """Return an iterator that raises an error."""
    raise error
    yield
