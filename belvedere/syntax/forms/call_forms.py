"""Forms of a call: DISTINCT, FILTER, IGNORE NULLS, OVER and its frame.

In: a node of a query's tree. Out: a problem if the function does not take this form, as in Spark's analyzer.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from sqlglot import exp

from belvedere.functions.function_table import (
    WRAPPERS,
    function_of,
    is_aggregate,
    is_window_function,
    shown_name,
    unwrap_aggregate,
)
from belvedere.syntax.problems import Problem
from belvedere.syntax.query_tree import is_stream, place_of


def misplaced(node: exp.Expr) -> Problem | None:
    """Return the problem with a form of one node that its function does not take, or None."""
    check = _CHECKS.get(type(node))
    found = check(node) if check is not None else None
    return found or _without_over(node)


def _without_over(node: exp.Expr) -> Problem | None:
    """Return the problem of `row_number()` and similar functions without OVER, or None."""
    if not isinstance(node, exp.Func) or not is_window_function(node):
        return None
    around = node.parent
    while isinstance(around, WRAPPERS):
        around = around.parent
    if isinstance(around, exp.Window):
        return None
    hint = "write OVER (PARTITION BY ... ORDER BY ...)"
    return Problem("B3036", f"`{shown_name(node)}` needs OVER", *place_of(node), hint)


def _distinct(node: exp.Expr) -> Problem | None:
    call = node.parent
    if isinstance(call, exp.Mode):
        return _problem(node, "`mode` does not take DISTINCT: each value would occur once", "remove it")
    if not isinstance(call, exp.Func) or is_aggregate(call):
        return None
    return _problem(node, f"DISTINCT is only for aggregates, not for `{shown_name(call)}`", "remove DISTINCT")


def _filter(node: exp.Expr) -> Problem | None:
    call = unwrap_aggregate(node)
    if is_aggregate(call) or isinstance(node.this, exp.WithinGroup):
        return _filter_condition(node)
    return _problem(
        node, f"FILTER is only for aggregates, not for `{shown_name(call)}`", "write CASE WHEN ... THEN ... END"
    )


def _filter_condition(node: Any) -> Problem | None:
    """Return the problem with FILTER on a function that is not an aggregate, or None."""
    inside = node.expression.walk(prune=lambda part: isinstance(part, exp.Query))
    found = next((part for part in inside if is_aggregate(part) or isinstance(part, exp.Window)), None)
    if found is None:
        return None
    kind = "a window function" if isinstance(found, exp.Window) else "an aggregate"
    return _problem(node, f"{kind} is not allowed in FILTER", "compute it in a separate view, and join it")


def _ignore_nulls(node: exp.Expr) -> Problem | None:
    call = unwrap_aggregate(node)
    row = function_of(call)
    if row is not None and row.skips_nulls:
        return None
    return _problem(node, f"`{shown_name(call)}` takes no IGNORE NULLS", "remove it: the function ignores NULL anyway")


def _window(node: Any) -> Problem | None:
    call = unwrap_aggregate(node.this)
    if isinstance(call, exp.Identifier):  # a name of the WINDOW clause
        return _frame(node)
    inner = node.this.this if isinstance(node.this, exp.Filter) else node.this
    if isinstance(inner, exp.WithinGroup) or (isinstance(call, exp.GroupConcat) and isinstance(call.this, exp.Order)):
        return _ordered_twice(node, call) or _frame(node)
    if not is_aggregate(call) and not is_window_function(call):
        hint = "use OVER with aggregates, row_number, rank, lag and other window functions"
        return _problem(node, f"`{shown_name(call)}` is not a window function", hint)
    if any(isinstance(part, exp.Distinct) for part in call.iter_expressions()):
        hint = "aggregate in a separate view and join it, or write size(collect_set(...) OVER (...))"
        return _problem(node, "DISTINCT is not allowed in a window function", hint)
    if isinstance(call, exp.Median) and _has_order(node):
        return _problem(
            node, "`median` takes no order in OVER", "write OVER (PARTITION BY ...), or percentile(x, 0.5) OVER (...)"
        )
    if node.args.get("spec") is not None and is_window_function(call) and not isinstance(call, exp.NthValue):
        return _problem(node, f"`{shown_name(call)}` takes no frame", "remove ROWS or RANGE")
    return _frame(node)


def _ordered_twice(node: Any, call: exp.Expr) -> Problem | None:
    """Return the problem with an OVER that orders a percentile or list with its own order: such a function reads the
    whole partition."""
    if isinstance(call, exp.Mode) or not _has_order(node):
        return None
    return _problem(node, f"`{shown_name(call)}` WITHIN GROUP takes no order in OVER", "write OVER (PARTITION BY ...)")


def _has_order(node: Any) -> bool:
    """Return whether OVER has an order or a frame, directly or through a named window."""
    name, query = node.args.get("alias"), node.find_ancestor(exp.Select)
    named = (query.args.get("windows") or ()) if name is not None and query is not None else ()
    windows = [node, *(w for w in named if w.name.casefold() == name.name.casefold())]
    return any(w.args.get("order") is not None or w.args.get("spec") is not None for w in windows)


def _frame(node: Any) -> Problem | None:
    """Return the problem with a RANGE frame, whose distance needs exactly one sort key, or None."""
    spec, order = node.args.get("spec"), node.args.get("order")
    bounds = [spec.args.get(name) for name in ("start", "end")] if spec is not None else []
    distances = [bound for bound in bounds if isinstance(bound, exp.Expr)]
    if any(distance.find(exp.Column, exp.Query) for distance in distances):
        return _problem(node, "the bounds of a frame must be constants", "write a number, or an interval")
    found = _reach(node, spec) if spec is not None else None
    if found is not None or not distances or spec.args["kind"].upper() != "RANGE":
        return found
    query = node.find_ancestor(exp.Select)
    if order is None and query is not None and is_stream(query):
        return None  # a stream is ordered by its rowtime
    if order is not None and len(order.expressions) == 1:
        return None
    return _problem(node, "RANGE with a distance needs one ORDER BY key", "order by one number or time, or write ROWS")


def _reach(node: Any, spec: exp.Expr) -> Problem | None:
    """Return the problem with a frame's bounds, or None. ROWS needs integers; a frame must not end before it starts."""
    places = [_place(spec.args.get(end), spec.args.get(f"{end}_side")) for end in ("start", "end")]
    for name in ("start", "end"):
        bound = spec.args.get(name)
        if spec.args["kind"].upper() == "ROWS" and isinstance(bound, exp.Literal) and not bound.is_int:
            return _problem(
                bound if "start" in bound.meta else node, "ROWS takes a whole number of rows", "write ROWS 2 PRECEDING"
            )
    first, last = places[0], 0 if spec.args.get("end") is None else places[1]
    if first == inf or last == -inf or (first is not None and last is not None and first > last):
        return _problem(node, "the frame ends before it starts", "write BETWEEN the earlier bound AND the later one")
    return None


def _place(bound: Any, side: str | None) -> float | None:
    """Return the distance of a bound after the current row; None if it is not a number."""
    if bound == "CURRENT ROW":
        return 0
    sign = -1 if side == "PRECEDING" else 1
    if bound == "UNBOUNDED":
        return sign * inf
    inner = bound.unnest() if isinstance(bound, exp.Expr) else None
    negative = isinstance(inner, exp.Neg)
    literal = inner.this if isinstance(inner, exp.Neg) else inner
    if not isinstance(literal, exp.Literal) or literal.is_string:
        return None
    return float(literal.this) * (-sign if negative else sign)


_CHECKS: dict[type[exp.Expr], Callable[[Any], Problem | None]] = {
    exp.Distinct: _distinct,
    exp.Filter: _filter,
    exp.IgnoreNulls: _ignore_nulls,
    exp.Window: _window,
}


def _problem(node: exp.Expr, message: str, hint: str) -> Problem:
    return Problem("B3015", message, *place_of(node), hint)
