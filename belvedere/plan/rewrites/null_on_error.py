"""Rewrite: expressions that would fail give NULL instead (`on_error = "null"` in the project file).

In: a plan. Out: the same plan with each expression in its form of `belvedere.plan.null_on_error`.
"""

from __future__ import annotations

from collections.abc import Mapping

from belvedere.plan.operators.node import Node
from belvedere.schema import Schema


def forgive(node: Node, views: Mapping[str, Schema] | None = None, expressions: bool = True) -> Node:
    """The plan with every expression that may fail in its forgiving form. `views`: the schemas of earlier ones after the same.

    Without `expressions` only what follows from those: columns that may be NULL.
    """
    return node.forgiving(views or {}, expressions)
