"""Rewrite: what depends on the order of rows that tie sees them in the order of their arrival.

In: a plan that carries its keys. Out: the same plan whose window functions and order-dependent aggregates name the arrival numbers and the
key of their input, so that every way of computing a view gives the same rows (`belvedere.plan.arrival_order`).
"""

from __future__ import annotations

from belvedere.plan.operators.node import Node


def in_arrival_order(node: Node) -> Node:
    """The plan with every order-dependent call in its settled form."""
    return node.with_inputs(tuple(in_arrival_order(i) for i in node.inputs)).in_arrival_order()
