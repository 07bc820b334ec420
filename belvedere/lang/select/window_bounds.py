"""Ends of a time window, and whether one determines the other.

In: a plan and a column's name. Out: its window. So `GROUP BY wend` may select `wstart` (One SQL, Listing 2): the ends
of Tumble and Hop determine each other; the end of a Cumulate window determines its start; for a session neither does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from belvedere.plan.monotone import interval_length
from belvedere.plan.operators.emit import Emit
from belvedere.plan.operators.nodes import Aggregate, Distinct, Filter, Join, Node, Project, Scan, TopK, Unnest, Window
from belvedere.plan.operators.time_window import TimeWindow, TimeWindowKind

ViewPlan = Callable[[str], Node | None]


@dataclass(frozen=True)
class WindowBoundary:
    """An end of a window: the path to it from the top of the plan, the kind, and whether it is the start."""

    path: tuple[str, ...]
    kind: TimeWindowKind
    is_start: bool
    size: int = 0
    """Length of the window in microseconds."""


def window_end(plan: Node, name: str, view_plan: ViewPlan, path: tuple[str, ...] = ()) -> WindowBoundary | None:
    """Return the window of which a column is an end; None for any other column."""
    match plan:
        case TimeWindow():
            if name in (plan.start, plan.end):
                return WindowBoundary(path, plan.kind, name == plan.start, plan.size)
            return window_end(plan.input, name, view_plan, (*path, "window"))
        case Project():
            item = next((i for i in plan.items if i.name == name), None)
            if item is None or isinstance(item.expr, exp.Column):
                return None if item is None else window_end(plan.input, item.expr.name, view_plan, path)
            return _computed_end(plan.input, item.expr.unnest(), view_plan, path)
        case Aggregate():
            item = next((i for i in plan.keys if i.name == name), None)
            if item is None or not isinstance(item.expr, exp.Column):
                return _maximum(plan, name, view_plan, path)
            return window_end(plan.input, item.expr.name, view_plan, path)
        case Join():
            side = 0 if name in plan.left.schema.names else 1
            below = plan.inputs[side]
            return window_end(below, name, view_plan, (*path, str(side))) if name in below.schema.names else None
        case Filter() | TopK() | Distinct() | Window() | Unnest() | Emit():
            below = plan.inputs[0]
            return window_end(below, name, view_plan, path) if name in below.schema.names else None
        case Scan():
            behind = view_plan(plan.relation)
            return window_end(behind, name, view_plan, (*path, plan.relation)) if behind is not None else None
        case _:
            return None


def _computed_end(plan: Node, expr: exp.Expr, view_plan: ViewPlan, path: tuple[str, ...]) -> WindowBoundary | None:
    """Return the window if an expression is a window's start plus its length, which is its end."""
    if not isinstance(expr, exp.Add) or not isinstance(expr.this, exp.Column):
        return None
    start = window_end(plan, expr.this.name, view_plan, path)
    if start is None or not start.is_start or interval_length(expr.expression) != start.size:
        return None
    return replace(start, is_start=False)


def _maximum(plan: Aggregate, name: str, view_plan: ViewPlan, path: tuple[str, ...]) -> WindowBoundary | None:
    """Return the window of `max(wstart)` beside a key `wend` of the same window: it is the start."""
    item = next((i for i in plan.aggregates if i.name == name), None)
    if item is None or not isinstance(item.expr, exp.Max) or not isinstance(item.expr.this, exp.Column):
        return None
    found = window_end(plan.input, item.expr.this.name, view_plan, path)
    keys = [k.expr.name for k in plan.keys if isinstance(k.expr, exp.Column)]
    ends = [window_end(plan.input, k, view_plan, path) for k in keys]
    return found if found is not None and any(e is not None and determines(e, found) for e in ends) else None


def determines(known: WindowBoundary, other: WindowBoundary) -> bool:
    """Return whether one end of a window determines the other."""
    same = known.path == other.path and known.kind is other.kind and known.is_start != other.is_start
    return same and known.kind.determines_other(known.is_start)
