"""Explanation of how a `PredicateWindow` finds its windows: the class of each boundary's search and its cost.

In: the operator. Out: lines for display. The classes are those of conjunctions (`sqlpp/windows/boundary_classes.py`):

    0    no condition on j                      a    P(j)
    b    monotone in j: positions, order key    a+b  both
    c1   f(j) < g(i) and the like               c2   f(j) = g(i)            c3   f(j) <> g(i)
    d    any other: all pairs of i and j are tested
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from belvedere.plan.operators.predicate_window import PredicateWindow
from belvedere.plan.operators.window_specs import BoundarySpec, ConjunctionSpec, WindowAggregate

COST: Mapping[str, str] = {
    "0": "no search",
    "a": "one backward pass, O(n)",
    "b": "arithmetic or binary search, O(n log n) at most",
    "a+b": "binary search, then the next true, O(n log n) at most",
    "c1": "descent in a tree of extremes, O(n log n)",
    "c2": "look-up by value and position, O(n log n)",
    "c3": "two descents in trees of extremes, O(n log n)",
    "d": "scan from each start, O(n L) for windows of length L",
}
"""Cost of a search, cheapest first."""
AGGREGATE_COST: Mapping[str, str] = {
    **dict.fromkeys(("COUNT", "SUM", "AVG"), "prefix sums"),
    **dict.fromkeys(("MIN", "MAX"), "doubling table"),
    **dict.fromkeys(("MEDIAN", "PERCENTILE"), "wavelet matrix"),
}


def class_of(conjunction: ConjunctionSpec) -> str:
    """Return the class of one conjunction."""
    general = [c for c in conjunction.compares if not c.direction or c.operator == "<>"]
    if general:
        return {"=": "c2", "<>": "c3"}.get(general[0].operator, "c1")
    if conjunction.compares:
        return "a+b" if conjunction.local else "b"
    return "a" if conjunction.local else "0"


def found_by(window: PredicateWindow) -> tuple[str, ...]:
    """Return lines for the clause, each boundary, one long partition, and each kind of aggregate."""
    return tuple(_lines(window))


def search_of(window: PredicateWindow) -> str:
    """Return the same as one line."""
    return "; ".join(line.strip() for line in found_by(window))


def _lines(window: PredicateWindow) -> Iterator[str]:
    spec = window.spec
    keys = ", ".join(window.by) or "nothing: one partition"
    yield f"windows: {'tumbling' if spec.tumbling else 'sliding'}, partitioned by {keys}"
    for role, boundary in (("LABEL", spec.label), ("START", spec.start), ("END", spec.end)):
        if boundary is not None:
            yield f"  {role}: {_boundary(boundary)}"
    if spec.end is None:
        yield "  END: before the next start, one pass, O(n)"
    elif spec.only:
        yield "  only windows whose END is found"
    tasks = (
        f"by one task, {window.why_one_task}"
        if window.ends[0] is None
        else "in blocks, by as many tasks as there are cores"
    )
    yield f"  a partition with most of the rows: {tasks}"
    for function in dict.fromkeys(_name(o) for o in spec.outputs if isinstance(o, WindowAggregate)):
        yield f"  {function}: {AGGREGATE_COST.get(function, 'folds over aligned blocks')}, independent of window length"


def _name(aggregate: WindowAggregate) -> str:
    """Return the user's name of an aggregate."""
    return "MEDIAN" if aggregate.function == "PERCENTILE" and aggregate.fraction == 0.5 else aggregate.function


def _boundary(boundary: BoundarySpec) -> str:
    if boundary.unbounded:
        return "the partition's edge, O(1)"
    if boundary.scan is not None:
        return f"class d: {COST['d']}"
    if boundary.search is None:
        return "a condition on one tuple, O(n)" if boundary.local else "every tuple"
    classes = dict.fromkeys(map(class_of, boundary.search))
    worst = max(classes, key=list(COST).index, default="0")
    return f"{' or '.join(f'class {c}' for c in classes) or 'never'}: {COST[worst]}"
