"""Readable names of unnamed computed columns: their expressions.

In: an operator, expressions and rows with the names of its plan (`group`, `aggregate`). Out: the same with `price % 3`
and `COUNT(*)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from belvedere.plan.expression_text import expression_text
from belvedere.plan.expressions import replace_columns
from belvedere.plan.operators.nodes import Aggregate, Distinct, Expr, Filter, Node, Project, TopK, Window
from belvedere.provenance.findings import FoundRows
from belvedere.provenance.row_predicates import RowPredicate


def computed(node: Node) -> dict[str, Expr]:
    """Return an operator's columns that an aggregate or window function below computed, with their expressions.

    Columns that were renamed since are left out.
    """
    match node:
        case Aggregate():
            return {i.name: i.expr for i in (*node.keys, *node.aggregates) if not isinstance(i.expr, exp.Column)}
        case Window():
            return computed(node.input) | {i.name: i.expr for i in node.items}
        case Project():
            below, same = (
                computed(node.input),
                (i.name for i in node.items if isinstance(i.expr, exp.Column) and i.expr.name == i.name),
            )
            return {n: below[n] for n in same if n in below}
        case Filter() | TopK() | Distinct():
            return computed(node.input)
    return {}


def text_over(node: Node, expr: Expr) -> str:
    """Return the text of an expression over an operator's columns."""
    return expression_text(replace_columns(expr, computed(node)))


def predicate_over(node: Node, requested: RowPredicate) -> RowPredicate:
    """Return the requested predicate on an operator's rows in a readable form."""
    made = computed(node)
    return replace(requested, tests=tuple(replace_columns(t, made) for t in requested.tests))


def group_text(node: Aggregate, members: Iterable[str] | None = None) -> str:
    """Return the GROUP BY columns of an aggregate; with `members` those of one of its grouping sets."""
    chosen = [k for k in node.keys if members is None or k.name in members]
    return ", ".join(
        k.name.rpartition(".")[2] if isinstance(k.expr, exp.Column) else expression_text(k.expr) for k in chosen
    )


def shown(node: Node, read: FoundRows) -> FoundRows:
    """Return a sample of an operator's rows without hidden columns. Unnamed columns are named by their expressions."""
    names = {c.name: c.name for c in node.schema.visible or node.schema}
    names |= {n: expression_text(e) for n, e in computed(node).items() if n in names}
    rows = tuple({names[n]: v for n, v in r.items() if n in names} for r in read.rows)
    return replace(read, rows=rows, order=tuple(names[n] for n in read.order if n in names))
