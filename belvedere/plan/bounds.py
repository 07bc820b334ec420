"""Propagation of bounds from the event-time columns of inputs to the columns of a query.

In: a plan and the bounds of the relations that it scans. Out: column -> bound in microseconds: **no later change of the
relation, insert or retraction, affects a row whose column is below its bound**. So a row is complete when one of its
columns is below that column's bound (One SQL, extension 2: strictly less). A column without an entry never has a bound.
Pure: it does not read state.

Each operator implements the propagation (`Node.ways`), with the rules of `bound_rules`.
"""

from __future__ import annotations

from belvedere.plan.bound_rules import Bounds, Known, implied_bounds, is_time
from belvedere.plan.operators.node import Node

__all__ = ["Bounds", "Known", "bounds_of", "event_time_columns", "grouping_columns", "implied_bounds", "is_time"]


def bounds_of(node: Node, known: Known) -> dict[str, int]:
    """Return the bounds of a relation's columns."""
    return node.bounds(known)


def event_time_columns(node: Node, known: Known) -> frozenset[str]:
    """Return the time columns that can have a bound, now or later."""
    return node.event_times(known)


def grouping_columns(node: Node, known: Known) -> frozenset[str]:
    """Return the columns that identify a row's event-time group: starts and ends of windows, event-time keys of GROUP
    BY."""
    return node.grouping_columns(known)
