"""Plans for the requested rows of an operator, with each test pushed down as far as possible.

In: an operator and the requested predicate on its rows. Out: a plan for these rows. A database finds them by its
indexes, and one group is computed without the others.
"""

from __future__ import annotations

from collections.abc import Callable

from belvedere.plan.expressions import conjunction
from belvedere.plan.operators.nodes import Filter, Join, JoinKind, Node, Scan
from belvedere.plan.rewrites.rewrite import inline
from belvedere.provenance.row_predicates import RowPredicate
from belvedere.provenance.why_not.pushed_tests import passing

Definition = Callable[[str], Node | None]
"""Function that returns the plan of a relation that is not stored."""


def restricted(node: Node, requested: RowPredicate) -> Node:
    """Return the plan of an operator's requested rows, computed from all of its rows."""
    condition = conjunction(requested.tests)
    rows = node if condition is None else Filter(node, condition)
    for match in requested.matches:
        rows = Join(rows, match.rows, JoinKind.ANTI if match.negated else JoinKind.SEMI, match.condition)
    return rows


def narrowed(node: Node, requested: RowPredicate, definition: Definition) -> Node:
    """Return an operator's plan for the requested rows, with each test pushed down as far as possible.

    Scans of relations that are not stored are replaced by their plans.
    """
    if isinstance(node, Scan):
        plan = inline(node, lambda i: definition(i) if i == node.relation else None)
        return restricted(node, requested) if plan == node else narrowed(plan, requested, definition)
    below, left = passing(node, requested)
    return restricted(
        node.with_inputs(tuple(narrowed(i, w, definition) for i, w in zip(node.inputs, below, strict=True))), left
    )
