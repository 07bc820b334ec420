"""Rewrite: drop unused columns as low as possible, and merge stacked projections.

In: a tree with keys. Out: an equivalent tree with the same columns at the top. Key columns are kept, so every node
keeps its key. Inputs of set operations and DISTINCT keep all their columns, because each of them matters.
"""

from __future__ import annotations

from belvedere.plan.expressions import columns_of
from belvedere.plan.operators.node import Node
from belvedere.plan.operators.nodes import Aggregate, Project, Scan
from belvedere.plan.operators.project import item_of
from belvedere.plan.rewrites.rewrite import replace_scans


def prune(node: Node) -> Node:
    """Return the same relation, computed only from the required columns."""
    return node.pruned(frozenset(node.schema.names))


def columns_read(plan: Node) -> dict[str, frozenset[str]]:
    """Return for each scanned relation, by its name, the columns that affect the rows of a plan."""
    found: dict[str, frozenset[str]] = {}
    for node in prune(replace_scans(plan, lambda scan: Project(scan, tuple(map(item_of, scan.schema))))).walk():
        for scan in (i for i in node.inputs if isinstance(i, Scan)):
            read = frozenset(scan.schema.names)
            if isinstance(node, Project | Aggregate):
                read &= frozenset().union(*map(columns_of, node.expressions))
            found[scan.relation] = found.get(scan.relation, frozenset()) | read
    return found
