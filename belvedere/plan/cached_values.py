"""Values that are computed once for each node, by any number of threads.

In: a method. Out: `cached_property`. That of Python before 3.12 holds one lock for all instances of a class: two threads that ask for the
schemas of two trees wait for each other for ever, where each has a filter over a join and a join over a filter. Here two threads may both
compute a value; nodes are immutable, so it is the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property:
        """As that of `functools`, without a lock. It is no data descriptor: the value in the instance's `__dict__` comes before it."""

        def __init__(self, compute: Callable[[Any], Any]):
            self._compute, self.__doc__ = compute, compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            return instance.__dict__.setdefault(self._name, self._compute(instance))


__all__ = ["cached_property"]
