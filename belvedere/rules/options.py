"""Which of the cheaper rules may be used."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """Switches of the optimizations; the answer never depends on them: the plain rules are the oracle."""

    off: frozenset[str] = frozenset()
    """The names of rules (`RULES`) that are not used."""
    share: bool = True
    """Whether views that differ in a filter on now() share the join below it."""
    cost: bool = True
    """Whether an operator is recomputed whole in epochs in which most of its input changes."""
    expire: bool = True
    """Whether state that bounds have made final is dropped."""
