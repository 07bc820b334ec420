"""Rewrite: expressions that would fail give NULL instead (`on_error = "null"` in the project file).

In: a plan. Out: the same plan with Spark's `try_` forms of arithmetic, casts, element access and sums. Interval arithmetic and
comparisons with the clock stay as they are: they do not fail in practice, and other rewrites read them.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from belvedere.plan.nodes import Aggregate, Expr, Filter, Item, Join, Node, Order, Project, TopK, Unnest, Window

BINARY: dict[type[Expr], str] = {
    exp.Add: "try_add",
    exp.Sub: "try_subtract",
    exp.Mul: "try_multiply",
    exp.Div: "try_divide",
    exp.Mod: "try_mod",
}
CALLS = {"element_at": "try_element_at", "to_timestamp": "try_to_timestamp", "to_date": "try_to_date"}


def forgive(node: Node) -> Node:
    """The plan with every expression that may fail in its forgiving form."""
    node = node.with_inputs(tuple(forgive(i) for i in node.inputs))
    match node:
        case Project():
            return replace(node, items=_items(node.items))
        case Window():
            return replace(node, items=_items(node.items))
        case Filter():
            return replace(node, condition=forgiving(node.condition))
        case Join() if node.condition is not None:
            return replace(node, condition=forgiving(node.condition))
        case Aggregate():
            return replace(node, keys=_items(node.keys), aggregates=_items(node.aggregates))
        case TopK():
            return replace(node, order=tuple(Order(forgiving(o.expr), o.descending, o.nulls_first) for o in node.order))
        case Unnest():
            return replace(node, expr=forgiving(node.expr))
        case _:
            return node


def _items(items: tuple[Item, ...]) -> tuple[Item, ...]:
    return tuple(replace(i, expr=forgiving(i.expr)) for i in items)


def forgiving(expr: Expr) -> Expr:
    """A copy of an expression that gives NULL where it would fail."""
    result: Expr = exp.paren(expr, copy=True)
    for node in reversed(list(result.walk())):  # from the leaves up: `transform` does not go into what it has replaced
        changed = _forgive(node)
        if changed is not node:
            node.replace(changed)
    found: Expr = result.this
    return found.pop() if isinstance(found, exp.Expr) else found


def _forgive(node: Expr) -> Expr:
    name = BINARY.get(type(node))
    if name is not None:
        sides = [node.this.unnest(), node.expression.unnest()]
        if any(isinstance(s, exp.Interval | exp.CurrentTimestamp) for s in sides):
            return node
        return exp.Anonymous(this=name, expressions=sides)
    if isinstance(node, exp.Cast) and not node.args.get("safe"):
        return exp.TryCast(this=node.this, to=node.args["to"], safe=True)  # printed as CAST unless it is safe
    if isinstance(node, exp.IntDiv):
        guarded = exp.func("nullif", node.expression.copy(), exp.Literal.number(0), dialect="spark")
        return exp.IntDiv(this=node.this, expression=guarded)
    if isinstance(node, exp.Sum):
        return exp.Anonymous(this="try_sum", expressions=[node.this])
    if isinstance(node, exp.Bracket) and len(node.expressions) == 1:
        return exp.Anonymous(this="try_element_at" if _is_text(node) else "get", expressions=[node.this, node.expressions[0]])
    if isinstance(node, exp.Anonymous) and node.name.lower() in CALLS:
        return exp.Anonymous(this=CALLS[node.name.lower()], expressions=node.expressions)
    return node


def _is_text(node: exp.Bracket) -> bool:
    """`m['key']` reads a map, `a[0]` an array."""
    key = node.expressions[0]
    return isinstance(key, exp.Literal) and bool(key.is_string)
