"""The wanted rows of an operator as a plan, with each test as low as it may be asked.

In: an operator and what is wanted of its rows. Out: a plan that gives these rows, so that a database finds them by its indexes and a
group is computed without the others.
"""

from __future__ import annotations

from collections.abc import Callable

from belvedere.plan.expressions import conjunction
from belvedere.plan.operators.nodes import Filter, Join, JoinKind, Node, Scan
from belvedere.plan.rewrites.rewrite import inline
from belvedere.provenance.row_predicates import RowPredicate
from belvedere.provenance.why_not.pushed_tests import passing

Definition = Callable[[str], Node | None]
"""The plan of a relation that is not stored."""


def restricted(node: Node, requested: RowPredicate) -> Node:
    """The wanted rows of an operator, computed over all of its rows."""
    condition = conjunction(requested.tests)
    rows = node if condition is None else Filter(node, condition)
    for match in requested.matches:
        rows = Join(rows, match.rows, JoinKind.ANTI if match.negated else JoinKind.SEMI, match.condition)
    return rows


def narrowed(node: Node, requested: RowPredicate, definition: Definition) -> Node:
    """Return an operator's plan for the requested rows, with each test as low as possible; scans of relations that are
    not stored are replaced by their plans.
    """
    if isinstance(node, Scan):
        plan = inline(node, lambda i: definition(i) if i == node.relation else None)
        return restricted(node, requested) if plan == node else narrowed(plan, requested, definition)
    below, left = passing(node, requested)
    return restricted(
        node.with_inputs(tuple(narrowed(i, w, definition) for i, w in zip(node.inputs, below, strict=True))), left
    )
