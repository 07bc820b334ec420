"""Bounds on what an operator reads, as bounds on columns of the stored relation below it.

In: a stage's operator and bounds. Out: columns and bounds below which no row is looked up again. What an operator asks for, its rule
says; here is what rules have in common.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from belvedere.engine.relation import Relation
from belvedere.plan.bound_rules import Bounds, Known
from belvedere.plan.bounds import bounds_of
from belvedere.plan.expressions import column
from belvedere.plan.monotone import FOREVER, NEVER, combine, reach
from belvedere.plan.operators.node import Partition
from belvedere.plan.operators.nodes import Expr, Filter, Node, Project, Scan, Unnest
from belvedere.plan.operators.time_window import TimeWindow, TimeWindowKind
from belvedere.plan.plan_properties import is_linear


def operator_of(plan: Node) -> Node:
    """The first operator below the linear ones."""
    while is_linear(plan) and len(plan.inputs) == 1:
        plan = plan.inputs[0]
    return plan


def side_of(operator: Node, scan: str) -> int | None:
    """Which input of an operator a scan is in."""
    scanned = (any(isinstance(n, Scan) and n.relation == scan for n in i.walk()) for i in operator.inputs)
    return next((n for n, found in enumerate(scanned) if found), None)


def by_key(operator: Node, partition: Partition, side: int, known: Known) -> Bounds:
    """Bounds below which no row of an operator's key comes again."""
    sides = [bounds_of(i, known) for i in operator.inputs]
    keys = []
    for n, expr in enumerate(partition.inputs[side]):
        least = [combine(b, exprs[n]) for b, exprs in zip(sides, partition.inputs, strict=True)]
        known_ones = [b for b in least if b is not None]
        if len(known_ones) == len(least):
            keys.append((expr, min(known_ones)))
    return through(operator.inputs[side], iter(keys))


def of_keys(own: Bounds, output: Relation, path: str) -> dict[str, int]:
    """Return the bounds of an output's columns that are keys of an access path: the rows of a complete key are not
    written again.
    """
    keys = {e.name for e in output.path(path).exprs if isinstance(e, exp.Column)}
    return {n: b for n, b in own.items() if n in keys}


def through(fragment: Node, requested: Iterator[tuple[Expr, int]]) -> dict[str, int]:
    """Bounds on expressions over a fragment's rows as bounds on columns of the relation below it."""
    found: dict[str, int] = {}
    for expr, bound in requested:
        below = _below(fragment, expr)
        if below is not None:
            name, above = below
            limit = bound if bound in (NEVER, FOREVER) else bound - above
            found[name] = max(found.get(name, NEVER), limit)
    return found


def _below(node: Node, expr: Expr) -> tuple[str, int] | None:
    """A column of the scan below a linear chain and how far above it the expression can be, in every row that is made of it."""
    found = reach(expr)
    if found is None:
        return None
    name, above = found
    match node:
        case Scan():
            return name, above
        case Project():
            below = _below(node.input, next(i.expr for i in node.items if i.name == name))
        case TimeWindow() if node.kind is not TimeWindowKind.SESSION and name in (node.start, node.end):
            below = _below(node.input, column(node.time))
            above += node.size if name == node.end else 0
        case Filter() | TimeWindow() | Unnest():
            below = _below(node.inputs[0], column(name)) if name in node.inputs[0].schema.names else None
        case _:
            return None
    return None if below is None else (below[0], below[1] + above)
