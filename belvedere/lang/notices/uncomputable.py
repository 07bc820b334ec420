"""Check of plans: expressions that their operator cannot compute.

In: a query's plan. Out: nothing, or B3022 at the position of such an expression. It catches forms that no rule of
lowering handles; without this check the run would end with an error.
"""

from __future__ import annotations

from sqlglot import exp

from belvedere.errors import Span, fail
from belvedere.lang.types.typing_scope import SubqueryValue
from belvedere.plan.expressions import columns_of
from belvedere.plan.operators.nodes import Expr, Node
from belvedere.plan.operators.recursion import Recursion


def refuse_unbound(plan: Node, span: Span) -> None:
    """Raise B3022 if a subquery is not joined, or a column is not in the operator's inputs."""
    found = _unbound(plan)
    if found is None:
        return
    subquery = next(iter(found.find_all(SubqueryValue)), None)
    what = "a subquery here" if subquery is not None else "this reference to the outer query"
    hint = "compute it in a view or in a subquery of FROM, and join that"
    raise fail("B3022", f"{what} is not supported", span=_place(found, span), hint=hint)


def _unbound(plan: Node) -> Expr | None:
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        waiting += node.inputs
        if isinstance(node, Recursion):  # its expressions are those of its step
            waiting.append(node.step)
            continue
        own = frozenset(name for i in node.inputs for name in i.schema.names)
        for expr in node.expressions if node.inputs else ():
            if expr.find(SubqueryValue, exp.Query) is not None or not columns_of(expr) <= own:
                return expr
    return None


def _place(expr: Expr, span: Span) -> Span:
    written = next((n for n in expr.walk() if "start" in n.meta and "end" in n.meta), None)
    if written is None or not span.start <= written.meta["start"] < written.meta["end"] <= span.end:
        return span
    return Span(span.file, written.meta["start"], written.meta["end"])
