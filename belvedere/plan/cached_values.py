"""Lazily computed values of nodes, safe for several threads.

In: a method. Out: `cached_property`. Before Python 3.12, `functools.cached_property` holds one lock for all instances
of a class. Two threads that compute the schemas of two trees can then deadlock: one with a filter over a join, the
other with a join over a filter. Here two threads may both compute a value; nodes are immutable, so both values are
equal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property:
        """Like `functools.cached_property`, without a lock. It is not a data descriptor: the value in the instance's
        `__dict__` has priority."""

        def __init__(self, compute: Callable[[Any], Any]):
            self._compute, self.__doc__ = compute, compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            return instance.__dict__.setdefault(self._name, self._compute(instance))


__all__ = ["cached_property"]
