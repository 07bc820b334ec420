"""Ends of a time window, and whether one determines the other.

In: a plan and a column's name. Out: its window. So `GROUP BY wend` may select `wstart` (One SQL, Listing 2): the ends
of Tumble and Hop determine each other; the end of a Cumulate window determines its start; for a session neither does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from belvedere.lang.select.calendar_windows import is_calendar_start
from belvedere.plan.monotone import interval_length
from belvedere.plan.operators.emit import Emit
from belvedere.plan.operators.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Node,
    Project,
    Scan,
    TopK,
    Union,
    Unnest,
    Window,
)
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
    in_zone: bool = False
    """Whether it is a window of the calendar with a time zone."""


def window_end(plan: Node, name: str, view_plan: ViewPlan, path: tuple[str, ...] = ()) -> WindowBoundary | None:
    """Return the window of which a column is an end; None for any other column."""
    match plan:
        case TimeWindow():
            if name in (plan.start, plan.end):
                return WindowBoundary(path, plan.kind, name == plan.start, plan.size)
            return window_end(plan.input, name, view_plan, (*path, "window"))
        case Project():
            item = next((i for i in plan.items if i.name == name), None)
            if item is None:
                return None
            same = item.expr.this if _is_local(item.expr) else item.expr
            if isinstance(same, exp.Column):
                return window_end(plan.input, same.name, view_plan, path)
            found = _computed_end(plan.input, item.expr.unnest(), view_plan, path)
            return found or _calendar_end(plan, item.expr, path)
        case Union():
            place = plan.schema.names.index(name)
            ends = [window_end(i, i.schema.names[place], view_plan, (*path, "union")) for i in plan.inputs]
            alike = ends[0] is not None and not ends[0].in_zone and all(e == ends[0] for e in ends)
            return ends[0] if alike else None
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


def _calendar_end(plan: Project, expr: exp.Expr, path: tuple[str, ...]) -> WindowBoundary | None:
    """Return the window if an expression is an end of a window of the calendar: a rounded time, or that plus a length.

    Rounded times are so far apart that one end determines the other. Only where clocks skip a day, two windows with a
    time zone can have the same end.
    """
    own, in_zone = _local(expr)
    for other, _ in (_local(i.expr) for i in plan.items):
        for start, end in ((own, other), (other, own)):
            moved = isinstance(end, exp.Add) and isinstance(end.expression, exp.Interval) and end.this == start
            if moved and is_calendar_start(start):
                length = end.expression.sql()
                return WindowBoundary((*path, length), TimeWindowKind.TUMBLE, own is start, in_zone=in_zone)
    return None


def _is_local(expr: exp.Expr) -> bool:
    """Return whether an expression is an instant as a TIMESTAMP_NTZ."""
    return isinstance(expr, exp.Cast) and expr.to.this is exp.DataType.Type.TIMESTAMPNTZ


def _local(expr: exp.Expr) -> tuple[exp.Expr, bool]:
    """Return the local time of an instant that is computed from one, and whether there is a time zone."""
    if not isinstance(expr, exp.FromTimeZone):
        return expr, False
    return (expr.this.this if isinstance(expr.this, exp.Cast) else expr.this), True


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
