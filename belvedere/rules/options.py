"""Which of the cheaper rules may be used."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """Which of the cheaper rules may be used; the plain rules are their oracle."""

    join: bool = True
    merge: bool = True
    top: bool = True
    share: bool = True
    """Whether views that differ in a filter on now() share the join below it."""
    sets: bool = True
    """Whether grouping sets are kept group by group."""
    cost: bool = True
    """Whether an operator is recomputed whole in epochs in which most of its input changes."""
    forget: bool = True
    """Whether state that bounds have made final is dropped."""
    settle: bool = True
    """Whether the rows of a private stream leave the state of WINDOW BY once their windows are final."""
    ranges: bool = True
    """Whether a change finds only those windows, and results of window functions, of a partition again that it can reach."""
    grow: bool = True
    """Whether window functions whose frames begin with their partition are continued behind the row before a change (with `ranges`)."""
