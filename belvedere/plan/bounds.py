"""How bounds on the event-time columns of inputs become bounds on the columns of a query.

In: a plan and the bounds of what it scans. Out: column -> bound in microseconds: **no later change of the relation, neither a new row
nor one taken back, concerns a row whose column is below its bound**. So a row is complete as soon as one of its columns is below that
column's bound (One SQL, extension 2: strictly less). A column without an entry never has a bound. Pure: state is never looked at.

Each operator says what becomes of bounds in it (`Node.ways`), with the rules of `bound_rules`.
"""

from __future__ import annotations

from belvedere.plan.bound_rules import Bounds, Known, implied_bounds, is_time
from belvedere.plan.operators.node import Node

__all__ = ["Bounds", "Known", "bounds_of", "event_time_columns", "grouping_columns", "implied_bounds", "is_time"]


def bounds_of(node: Node, known: Known) -> dict[str, int]:
    """The bounds of a relation's columns."""
    return node.bounds(known)


def event_time_columns(node: Node, known: Known) -> frozenset[str]:
    """The columns of times that can have a bound at all, now or later."""
    return node.event_times(known)


def grouping_columns(node: Node, known: Known) -> frozenset[str]:
    """The columns that say to which event-time group a row belongs: windows' starts and ends, event-time keys of GROUP BY."""
    return node.grouping_columns(known)
