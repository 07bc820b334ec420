"""Ties in an order are broken the same way everywhere: by arrival, then by key, in the direction of the last sort key.

In: a TopK. Out: the sort keys to append. 'Among equal order keys the later arrival counts as greater.'
"""

from __future__ import annotations

from belvedere.plan.expressions import column
from belvedere.plan.nodes import Order, TopK
from belvedere.schema import UID


def tie_order(node: TopK) -> tuple[Order, ...]:
    """The arrival numbers and the key of the input, ascending unless the last sort key descends."""
    descending = bool(node.order) and node.order[-1].descending
    schema = node.input.schema
    arrivals = [c.name for c in schema if c.name == UID or c.name.endswith(f".{UID}")]
    names = dict.fromkeys([*arrivals, *(schema.key or ())])
    return tuple(Order(column(n), descending) for n in names)
