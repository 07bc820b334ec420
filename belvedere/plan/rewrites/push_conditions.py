"""Rewrite: move conditions down to the lowest operators where they can filter or join.

In: a tree. Out: an equivalent tree. Its inner joins have the conditions of the filters above them, so `FROM a, b WHERE
a.x = b.x` is a join by key. Its filters are as low as possible, including conditions that read the clock. No condition
passes below a limit, a window function or an outer join's null side.
"""

from __future__ import annotations

from dataclasses import replace

from belvedere.plan.expressions import columns_of, conjunction, conjuncts
from belvedere.plan.operators.nodes import Expr, Filter, Join, JoinKind, Node


def push_conditions(node: Node) -> Node:
    """Return the same relation with its conditions as low as possible."""
    if isinstance(node, Filter):
        return push_into(push_conditions(node.input), conjuncts(node.condition))
    return node.with_inputs(tuple(push_conditions(i) for i in node.inputs))


def push_into(node: Node, parts: tuple[Expr, ...]) -> Node:
    """Return the node under conditions, each as low as possible."""
    if isinstance(node, Filter):
        return push_into(node.input, (*conjuncts(node.condition), *parts))
    if not isinstance(node, Join) or node.kind not in (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI):
        return _filter(node, parts)
    left_names = set(node.left.schema.names)
    right_names = set(node.right.schema.names)
    inner = node.kind is JoinKind.INNER
    left, right, both = [], [], []
    for part in parts:
        read = columns_of(part)
        if read and read <= left_names:
            left.append(part)
        elif inner and read and read <= right_names:
            right.append(part)
        else:
            both.append(part)
    joined = replace(node, left=push_into(node.left, tuple(left)), right=push_into(node.right, tuple(right)))
    if not inner:
        return _filter(joined, tuple(both))
    condition = conjunction([*conjuncts(node.condition), *both])
    return replace(joined, condition=condition)


def _filter(node: Node, parts: tuple[Expr, ...]) -> Node:
    condition = conjunction(parts)
    return node if condition is None else Filter(node, condition)
