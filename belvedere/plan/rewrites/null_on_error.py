"""Rewrite: expressions give NULL instead of errors (`on_error = "null"` in the project file).

In: a plan. Out: the same plan with each expression in its form of `belvedere.plan.null_on_error`.
"""

from __future__ import annotations

from collections.abc import Mapping

from belvedere.plan.operators.node import Node
from belvedere.schema import Schema


def forgive(node: Node, views: Mapping[str, Schema] | None = None, expressions: bool = True) -> Node:
    """Return the plan with NULL instead of errors in every expression. `views` are the schemas of earlier views after
    the same rewrite.

    Without `expressions` only the nullability of columns that depend on those views changes.
    """
    return node.forgiving(views or {}, expressions)
