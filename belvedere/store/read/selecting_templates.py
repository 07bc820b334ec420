"""Query templates that only filter and sort rows of one stored relation, recognised from their plan.

In: a plan. Out: the relation, the condition, the order and the limit, in columns of the relation; None for other plans.
It does not decide whether the store can compute them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from belvedere.plan.expressions import map_columns
from belvedere.plan.operators.nodes import Expr, Filter, Node, Order, Project, Scan, TopK


@dataclass(frozen=True)
class ChosenRows:
    """Rows of `relation` that meet the condition, in the order: the first `limit`, or the number in the argument
    `most`."""

    relation: str
    columns: tuple[str, ...]
    """The shown columns, each under its own name."""
    condition: Expr | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    most: str = ""


def chosen_rows(plan: Node) -> ChosenRows | None:
    """Return the rows that a plan selects; None if they are not unchanged rows of one relation."""
    found = _chosen(plan)
    if found is None:
        return None
    chosen, names = found
    shown = tuple(c.name for c in plan.schema.visible)
    return replace(chosen, columns=shown) if all(names[n] == n for n in shown) else None


Names = Mapping[str, str]
"""The relation's columns by their names in a plan."""


def _chosen(node: Node) -> tuple[ChosenRows, Names] | None:
    if isinstance(node, Scan):
        return ChosenRows(node.relation, ()), {n: n for n in node.schema.names}
    if not isinstance(node, Project | Filter | TopK):
        return None
    inner = _chosen(node.input)
    if inner is None:
        return None
    chosen, names = inner
    if isinstance(node, Project):
        kept = {i.name: names[i.expr.name] for i in node.items if isinstance(i.expr, exp.Column)}
        return (chosen, kept) if len(kept) == len(node.items) else None
    if isinstance(node, Filter):
        return _filtered(chosen, node, names)
    return _ordered(chosen, node, names)


def _bounded(chosen: ChosenRows) -> bool:
    return bool(chosen.order or chosen.limit is not None or chosen.most)


def _filtered(chosen: ChosenRows, node: Filter, names: Names) -> tuple[ChosenRows, Names] | None:
    if _bounded(chosen):
        return None
    condition = _renamed(node.condition, names)
    if chosen.condition is not None:
        condition = exp.And(this=chosen.condition, expression=condition)
    return replace(chosen, condition=condition), names


def _ordered(chosen: ChosenRows, node: TopK, names: Names) -> tuple[ChosenRows, Names] | None:
    if _bounded(chosen) or node.partition or node.offset or node.number is not None or node.alike:
        return None
    order = tuple(replace(o, expr=_renamed(o.expr, names)) for o in node.order)
    return replace(chosen, order=order, limit=node.limit, most=node.most), names


def _renamed(expr: Expr, names: Names) -> Expr:
    return map_columns(expr, lambda c: exp.column(names[c.name], quoted=True))
