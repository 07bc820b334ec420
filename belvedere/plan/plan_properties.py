"""Properties of operators used in the choice of rules.

In: plan nodes. Out: answers; nothing is rewritten here.
"""

from __future__ import annotations

from belvedere.plan.expressions import reads_clock
from belvedere.plan.operators.node import Node, Partition
from belvedere.plan.operators.nodes import Filter, Project, Scan


def needs_clock(node: Node) -> bool:
    """Return whether the operator itself reads `now()`."""
    return any(reads_clock(e) for e in node.expressions)


def is_linear(node: Node) -> bool:
    """Return whether the operator applied to a delta is the delta of the operator."""
    return node.is_linear and not needs_clock(node)


def partition_of(node: Node) -> Partition | None:
    """Return the expressions by which a nonlinear operator works key by key; None if it does not."""
    return None if needs_clock(node) else node.key_by_key


def base_scan(node: Node) -> Scan | None:
    """Return the scan at the bottom of a chain of projections and filters without `now()`; None for anything else."""
    while isinstance(node, (Project, Filter)) and not needs_clock(node):
        node = node.input
    return node if isinstance(node, Scan) else None
