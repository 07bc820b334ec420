"""A plan as an indented tree for people: golden tests and `explain`.

In: a plan. Out: one line per operator, its inputs indented below. Hidden columns are in parentheses; the key is named where
it is not plain.
"""

from __future__ import annotations

from belvedere.plan.operators.node import Node


def plan_text(node: Node, indent: str = "") -> str:
    """The tree, two spaces per level, without a line end at the end."""
    lines = [indent + node.text]
    lines += [plan_text(child, indent + "  ") for child in node.inputs]
    for name, plan in node.inner_plans:
        lines += [f"{indent}  {name}", plan_text(plan, indent + "    ")]
    return "\n".join(lines)
