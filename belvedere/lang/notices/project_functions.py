"""Positions in which Spark cannot call a function of the project.

In: a catalog. Out: an error for each call in the condition of an outer, semi or anti join that reads both sides: Spark
evaluates such a function before a join or after it, never within. Calls in lambdas are rejected when they are typed.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from belvedere.catalog.catalog import Catalog
from belvedere.errors import Diagnostic, Span
from belvedere.functions.project_functions import own_function
from belvedere.plan.operators.nodes import Join, JoinKind, Node

HINT = "compute its value on one side of the join, in a subquery of FROM, or write an inner join"


def unplaced_calls(catalog: Catalog) -> tuple[Diagnostic, ...]:
    """Return an error (B3074) for each function in a position where Spark cannot call it."""
    if not catalog.functions:
        return ()
    plans = [(v.plan, v.span) for v in catalog.views.values()] + [(q.plan, q.span) for q in catalog.templates.values()]
    return tuple(found for plan, span in plans for found in _within_joins(plan, span))


def _within_joins(plan: Node, span: Span | None) -> Iterator[Diagnostic]:
    for join in plan.walk():
        if not isinstance(join, Join) or join.kind is JoinKind.INNER or join.condition is None:
            continue
        sides = set(join.left.schema.names), set(join.right.schema.names)
        for call in join.condition.walk():
            own = own_function(call)
            read = {c.name for c in call.find_all(exp.Column)} if own is not None else set()
            if own is not None and all(read & side for side in sides):
                message = (
                    f"`{own.name}` cannot be called with values of both sides in the ON of a {join.kind.value} join"
                )
                yield Diagnostic("B3074", message, span=_place(call, span), hint=HINT)


def _place(call: exp.Expr, span: Span | None) -> Span | None:
    start, end = call.meta.get("start"), call.meta.get("end")
    if span is None or start is None or end is None or not span.start <= start < end <= span.end:
        return span
    return Span(span.file, start, end)
