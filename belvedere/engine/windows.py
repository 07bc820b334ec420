"""WINDOW BY inside a plan: such an operator is no SQL text, so its rows become a temporary view that the rest of the plan scans.

In: a plan. Out: the plan over scans, and what to compute for them, innermost first. Nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from belvedere.engine.render import order_text, render
from belvedere.plan.nodes import Node, Scan
from belvedere.plan.window_by import PredicateWindow


@dataclass(frozen=True)
class WindowOperator:
    """The operator behind the scan `name`, and the SQL text of its input."""

    name: str
    node: PredicateWindow
    text: str


def split_windows(plan: Node, view_of: Callable[[str], str], clock: str) -> tuple[Node, tuple[WindowOperator, ...]]:
    """The plan with scans `w0`, `w1`, ... in place of its WINDOW BY operators; `view_of` and `clock` as for `render`."""
    found: list[WindowOperator] = []

    def walk(node: Node) -> Node:
        node = node.with_inputs(tuple(walk(i) for i in node.inputs))
        if not isinstance(node, PredicateWindow):
            return node
        name = f"w{len(found)}"
        found.append(WindowOperator(name, node, render(node.input, view_of, clock)))
        return Scan(name, node.schema)

    return walk(plan), tuple(found)


def print_plan(plan: Node) -> str:
    """All of a plan as text, with its WINDOW BY operators: for fingerprints."""
    rest, windows = split_windows(plan, lambda name: name, "clock")
    texts = [
        part
        for w in windows
        for part in (w.name, str(w.node.spec), str(w.node.columns), *map(order_text, w.node.order), w.text)
    ]
    return "\n".join([*texts, render(rest, lambda name: name)])
