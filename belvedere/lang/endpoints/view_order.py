"""Order of a query's result, over columns of it: a view's own order is the default for readers.

In: a query's plan with the limit that its ORDER BY makes on top. Out: the plan, in which every sort key is a column
(hidden if the query does not show it), and the order over these. An order by the clock or by nested values does not
count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from belvedere.functions.spark_types import Typed
from belvedere.lang.types.infer import Inference
from belvedere.plan.expressions import column, reads_clock
from belvedere.plan.operators.emit import Emit
from belvedere.plan.operators.nodes import Expr, Item, Node, Order, Project, TopK
from belvedere.plan.operators.project import item_of
from belvedere.plan.unused_names import unused_name

NAME = "_order"
"""Prefix of hidden columns with the sort keys that a query does not show."""


def ordered_plan(plan: Node) -> tuple[Node, tuple[Order, ...]]:
    """Return the plan with its sort keys among its columns, and its order. The order is empty if a sort key cannot be
    stored."""
    if isinstance(plan, Emit) and not plan.stream:
        below, order = ordered_plan(plan.input)
        return (replace(plan, input=unlimited(below)), order) if order else (plan, ())
    project = plan if isinstance(plan, Project) else None
    top = plan if project is None else project.input
    if not isinstance(top, TopK) or not top.order or not all(_sorts(o.expr, top) for o in top.order):
        return plan, ()
    if project is None:
        project = Project(top, tuple(item_of(c) for c in top.schema))
    project, top = _with_keys(project, top)
    names, items = {i.expr: i.name for i in reversed(project.items)}, list(project.items)
    for key in top.order:
        if key.expr not in names:
            taken = {i.name for i in items}
            items.append(item_of(top.schema[key.expr.name], unused_name(NAME, taken), hidden=True))
            names[key.expr] = items[-1].name
    made = Project(top, tuple(items))
    return made, tuple(replace(o, expr=column(names[o.expr])) for o in top.order)


def unlimited(plan: Node) -> Node:
    """Return the same rows without a node that only sorts them."""
    top = plan.input if isinstance(plan, Project) else plan
    if not isinstance(top, TopK) or top.limit is not None or top.offset or top.most:
        return plan
    return replace(plan, input=top.input) if isinstance(plan, Project) else top.input


def is_unsorted(plan: Node) -> bool:
    """Return whether there is an ORDER BY without LIMIT on top."""
    return unlimited(plan) is not plan


def own_order(order: Sequence[Order], columns: dict[str, str]) -> tuple[Order, ...]:
    """Return an order over columns with other names, up to the first key without one."""
    found = []
    for key in order:
        if key.expr.name not in columns:
            break
        found.append(replace(key, expr=column(columns[key.expr.name])))
    return tuple(found)


def _sorts(expr: Expr, top: TopK) -> bool:
    if reads_clock(expr):
        return False
    type_ = _typed(expr, top).type
    return not (pa.types.is_nested(type_) or pa.types.is_interval(type_) or pa.types.is_null(type_))


def _typed(expr: Expr, top: TopK) -> Typed:
    return Inference({c.name: Typed(c.type, c.nullable) for c in top.input.schema}).typed(expr)


def _with_keys(project: Project, top: TopK) -> tuple[Project, TopK]:
    """Add computed sort keys as columns below the limit."""
    computed = dict.fromkeys(o.expr for o in top.order if not isinstance(o.expr, exp.Column))
    if not computed:
        return project, top
    taken = set(top.input.schema.names)
    items: dict[Expr, Item] = {}
    for expr in computed:
        typed = _typed(expr, top)
        items[expr] = Item(unused_name(NAME, taken), expr.copy(), typed.type, typed.nullable, hidden=True)
        taken.add(items[expr].name)
    below = Project(top.input, (*(item_of(c) for c in top.input.schema), *items.values()))
    order = tuple(replace(o, expr=column(items[o.expr].name)) if o.expr in items else o for o in top.order)
    top = replace(top, input=below, order=order)
    shown = tuple(replace(i, expr=column(items[i.expr].name)) if i.expr in items else i for i in project.items)
    return Project(top, shown), top
