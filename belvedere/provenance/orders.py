"""Rows that sort before another one.

In: a TopK. Out: a condition over its input's columns and those of the compared rows (`requested.other`).
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from belvedere.plan.expressions import columns_of, conjunction, replace_columns
from belvedere.plan.operators.nodes import Expr, Order, TopK
from belvedere.provenance.row_predicates import of_other, other


def ahead_of(node: TopK) -> Expr:
    """Return the condition for rows that sort before the other one, or are that row. Ties are broken as in the node."""
    orders = (*node.order, *node.tie_order)
    ways: list[Expr] = []
    equal: list[Expr] = []
    for order in orders:
        ways.append(conjunction([*equal, _before(order)]) or exp.true())
        equal.append(exp.NullSafeEQ(this=order.expr.copy(), expression=of_other(order.expr)))
    ways.append(conjunction(equal) or exp.true())
    result: Expr = exp.paren(ways[0])
    for way in ways[1:]:
        result = exp.Or(this=result, expression=exp.paren(way))
    return exp.paren(result)


def ahead_of_values(node: TopK, values: Mapping[str, Expr]) -> tuple[Expr, ...]:
    """Return the same condition for one row with these known columns; empty if the order reads other columns."""
    known = {other(n).name: v for n, v in values.items()}
    condition = ahead_of(node)
    read = {c for c in columns_of(condition) if c not in node.input.schema.names}
    return (replace_columns(condition, known),) if read <= known.keys() else ()


def _before(order: Order) -> Expr:
    """Return the condition that a row's sort key is strictly before the other's."""
    mine, theirs = order.expr, of_other(order.expr)
    kind = exp.GT if order.descending else exp.LT
    nulls, values = (mine, theirs) if order.nulls_come_first else (theirs, mine)
    null_first = exp.And(this=_is_null(nulls), expression=exp.Not(this=exp.paren(_is_null(values))))
    return exp.Or(this=kind(this=mine.copy(), expression=theirs), expression=exp.paren(null_first))


def _is_null(expr: Expr) -> Expr:
    return exp.Is(this=expr.copy(), expression=exp.Null())
