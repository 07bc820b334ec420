"""Input rows between START and END of a window of WINDOW BY.

In: the operator and the requested predicate on its rows. Out: the predicate on its input. The operator itself finds the
window's ends over its sequence; a database cannot, so Spark answers, or the whole sequence is returned (`RowPredicate`
of only the partition).
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Expr, Node
from belvedere.plan.operators.predicate_window import AFTER, FROM, TO, PredicateWindow, reach_of
from belvedere.provenance.row_predicates import RowPredicate, matching, other
from belvedere.provenance.why_not.pushed_tests import passing


def window_rows(
    rows: Callable[[Node, RowPredicate], Node], node: PredicateWindow, requested: RowPredicate
) -> tuple[RowPredicate, str]:
    """Return the rows from START to END, and those that determine them; the whole sequence if windows depend on each
    other."""
    (sequence,), left = passing(node, requested)
    words = f"in its sequence by {', '.join(node.by)}" if node.by else "in its sequence"
    order = node.order[0].expr if node.order else None
    if node.identity is None or not isinstance(order, exp.Column) or node.spec.tumbling or not left:
        return sequence, words
    reach = reach_of(node, None, order.name)
    behind, ahead = (exp.LTE, exp.GTE) if node.order[0].descending else (exp.GTE, exp.LTE)
    tests = [_or_null(behind(this=order.copy(), expression=other(FROM)))]
    if node.spec.end is not None:
        until = exp.Coalesce(this=other(AFTER), expressions=[other(TO)])
        tests.append(_or_null(ahead(this=order.copy(), expression=until)))
    keys = [
        exp.NullSafeEQ(this=column(k), expression=other(n)) for n, k in zip(node.partition, node.spec.keys, strict=True)
    ]
    own, _ = requested.split(reach.schema.names)
    return sequence + matching(rows(reach, own), *keys, *tests), "in its window, with the rows that decide its ends"


def _or_null(test: exp.Binary) -> Expr:
    """Return the comparison with an end of the window, also TRUE if that end is NULL."""
    return exp.paren(exp.Or(this=test, expression=exp.Is(this=test.expression.copy(), expression=exp.Null())))
