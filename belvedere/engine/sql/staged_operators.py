"""WINDOW BY and recursion inside a plan.

Such operators have no SQL text, so their rows become temporary views that the rest of the plan scans.

In: a plan. Out: the plan over scans, and the operators behind them, innermost first. Nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from belvedere.engine.sql.plan_sql import order_text, render
from belvedere.engine.sql.recursion_sql import RecursionOperator, numbered, recursion_operator
from belvedere.plan.operators.nodes import Node, Scan
from belvedere.plan.operators.predicate_window import PredicateWindow
from belvedere.plan.operators.recursion import Recursion


@dataclass(frozen=True)
class WindowOperator:
    """The operator behind the scan `name`, and the SQL text of its input."""

    name: str
    node: PredicateWindow
    text: str


Apart = WindowOperator | RecursionOperator
"""An operator whose rows become a view."""


def split_windows(
    plan: Node, view_of: Callable[[str], str], clock: str, known: dict[Node, str] | None = None
) -> tuple[Node, tuple[Apart, ...]]:
    """Return the plan with scans `w0`, `w1`, ... in place of these operators.

    `view_of` and `clock` are as for `render`.

    Equal operators share a scan, also with those of other plans in `known`. New ones are added to `known`.
    """
    found: list[Apart] = []
    names = {} if known is None else known

    def walk(node: Node) -> Node:
        node = node.with_inputs(tuple(walk(i) for i in node.inputs))
        if not isinstance(node, Recursion | PredicateWindow):
            return node
        name = names.get(node)
        if name is None:
            name = names[node] = f"w{len(names)}"
            found.append(_apart(name, node, view_of, clock))
        return numbered(name, node) if isinstance(node, Recursion) else Scan(name, node.schema)

    return walk(plan), tuple(found)


def _apart(name: str, node: Recursion | PredicateWindow, view_of: Callable[[str], str], clock: str) -> Apart:
    if isinstance(node, Recursion):
        return recursion_operator(name, node, view_of, clock)
    return WindowOperator(name, node, render(node.input, view_of, clock))


def print_plan(plan: Node) -> str:
    """Return a whole plan as text, including non-SQL operators, for fingerprints."""
    rest, operators = split_windows(plan, lambda name: name, "clock")
    return "\n".join([*(part for o in operators for part in _parts(o)), render(rest, lambda name: name)])


def _parts(operator: Apart) -> tuple[str, ...]:
    if isinstance(operator, RecursionOperator):
        sides = (part for name, text, _ in operator.sides for part in (name, text))
        return operator.name, operator.base, operator.step, *sides  # limits change no row
    node = operator.node
    return operator.name, str(node.spec), str(node.columns), *map(order_text, node.order), operator.text
