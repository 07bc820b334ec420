"""Loss of event time in a query: the hint of B5013.

In: a plan down to its inputs, and the columns with bounds. Out: a hint, or None if no operator loses a time.
"""

from __future__ import annotations

from sqlglot import exp

from belvedere.plan.bound_rules import Known
from belvedere.plan.bounds import event_time_columns
from belvedere.plan.operators.nodes import Join, Node, TopK


def lost_time(plan: Node, known: Known) -> str | None:
    """Return a hint that makes a watermark apply to the rows."""
    for node in plan.walk():
        if isinstance(node, TopK) and event_time_columns(node.input, known) - event_time_columns(node, known):
            return _limit(node)
        if isinstance(node, TopK) and isinstance(node.input, Join) and not event_time_columns(node, known):
            join = node.input
            if node.alike and event_time_columns(join.left, known) and not event_time_columns(join.right, known):
                return "also declare WATERMARK FOR the time of the versions: a late version changes joined rows"
    return None


def _limit(node: TopK) -> str | None:
    """Return the hint for a limit that loses the event time: it keeps the last rows per key, or rows without a time
    come first."""
    first = node.order[0] if node.order else None
    if first is None or not isinstance(first.expr, exp.Column) or node.alike:
        return None
    name = first.expr.name.rpartition(".")[2]
    if first.descending:
        return f"the last row of a key can be replaced at any time: use the first one, ORDER BY {name} without DESC"
    return f"rows without a time come first: declare `{name} TIMESTAMP NOT NULL`, or write ORDER BY {name} NULLS LAST"
