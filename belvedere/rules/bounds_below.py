"""Translate bounds on an operator's input into bounds on columns of the stored relation below it.

In: a stage's operator and its bounds. Out: columns with the bound below which the stage looks up no row again. Each
rule defines which bounds its operator needs; this module holds the shared part.
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
    """Return the first operator below the linear ones."""
    while is_linear(plan) and len(plan.inputs) == 1:
        plan = plan.inputs[0]
    return plan


def side_of(operator: Node, scan: str) -> int | None:
    """Return the number of the operator's input that contains a scan."""
    scanned = (any(isinstance(n, Scan) and n.relation == scan for n in i.walk()) for i in operator.inputs)
    return next((n for n, found in enumerate(scanned) if found), None)


def by_key(operator: Node, partition: Partition, side: int, known: Known) -> Bounds:
    """Return the bounds below which no row of an operator's key arrives any more."""
    sides = [bounds_of(i, known) for i in operator.inputs]
    keys = []
    for n, expr in enumerate(partition.inputs[side]):
        least = [combine(b, exprs[n]) for b, exprs in zip(sides, partition.inputs, strict=True)]
        known_ones = [b for b in least if b is not None]
        if len(known_ones) == len(least):
            keys.append((expr, min(known_ones)))
    return through(operator.inputs[side], iter(keys))


def of_keys(own: Bounds, output: Relation, path: str) -> dict[str, int]:
    """Return the bounds of those output columns that are keys of an access path.

    The rows of a complete key are not written again.
    """
    keys = {e.name for e in output.path(path).exprs if isinstance(e, exp.Column)}
    return {n: b for n, b in own.items() if n in keys}


def through(fragment: Node, requested: Iterator[tuple[Expr, int]]) -> dict[str, int]:
    """Convert bounds on expressions over a fragment's rows to bounds on columns of the relation below the fragment."""
    found: dict[str, int] = {}
    for expr, bound in requested:
        below = _below(fragment, expr)
        if below is not None:
            name, above = below
            limit = bound if bound in (NEVER, FOREVER) else bound - above
            found[name] = max(found.get(name, NEVER), limit)
    return found


def _below(node: Node, expr: Expr) -> tuple[str, int] | None:
    """Return the scan column behind an expression and the maximum by which the expression exceeds it.

    The node is a linear chain over the scan. Return None if there is no such column.
    """
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
