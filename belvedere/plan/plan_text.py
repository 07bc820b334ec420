"""A plan as an indented tree for display: golden tests and `explain`.

In: a plan. Out: one line per operator, its inputs indented below. Hidden columns are in parentheses; the key is shown
if it is not obvious.
"""

from __future__ import annotations

from belvedere.plan.operators.node import Node


def plan_text(node: Node, indent: str = "") -> str:
    """Return the tree, two spaces per level, without a final line end."""
    lines = [indent + node.text]
    lines += [plan_text(child, indent + "  ") for child in node.inputs]
    for name, plan in node.inner_plans:
        lines += [f"{indent}  {name}", plan_text(plan, indent + "    ")]
    return "\n".join(lines)
