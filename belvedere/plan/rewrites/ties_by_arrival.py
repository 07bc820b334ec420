"""Rewrite: operators that depend on the order of tied rows use the order of arrival.

In: a plan that carries its keys. Out: the same plan whose window functions and order-dependent aggregates are ordered
by the arrival numbers and the key of their input. So every way to compute a view gives the same rows
(`belvedere.plan.arrival_order`).
"""

from __future__ import annotations

from belvedere.plan.operators.node import Node


def in_arrival_order(node: Node) -> Node:
    """Return the plan with every order-dependent call in its deterministic form."""
    return node.with_inputs(tuple(in_arrival_order(i) for i in node.inputs)).in_arrival_order()
