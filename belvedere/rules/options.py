"""Options that switch the cheaper rules on and off."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """Switches of the optimizations. They never change the answer: the plain rules are the test oracle."""

    off: frozenset[str] = frozenset()
    """Names of rules (`RULES`) that are switched off."""
    share: bool = True
    """Whether views that differ in a filter on now() share the join below it."""
    cost: bool = True
    """Whether an operator is recomputed whole in epochs in which most of its input changes."""
    expire: bool = True
    """Whether state that bounds have made final is dropped."""
