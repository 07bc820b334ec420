"""Completion times for queries without a selected event-time column.

In: a plan under EMIT AFTER WATERMARK, and the columns that may have bounds. Out: the plan with a hidden column, or
without rows that have no event time. A row that depends on later rows is complete when the last of them is below the
bound (`final_columns`). If there is no such row, it waits until the input ends. A row without an event time is below no
bound: it would never be emitted, and would delay others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from belvedere.plan.bound_rules import Known
from belvedere.plan.bounds import event_time_columns
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Aggregate, Filter, Item, Join, Node, Project, Scan, Window
from belvedere.plan.operators.predicate_window import PredicateWindow
from belvedere.plan.operators.project import item_of, pruned_inside
from belvedere.plan.rewrites.final_columns import COMPLETE_AT, final_columns, latest_of
from belvedere.plan.rewrites.rewrite import inline, replace_node
from belvedere.plan.unused_names import unused_name
from belvedere.schema import TIMESTAMP


def with_completion(
    plan: Node, known: Known, times: Callable[[str], Sequence[str]], views: Callable[[str], Node | None]
) -> Node:
    """Return the plan with event-time columns, or unchanged if there are none. The windows of a scanned view are
    recomputed if they give the time."""
    whole = inline(plan, lambda i: _with_windows(i, views))
    whole = plan if whole == plan else pruned_inside(whole)
    grouped = any(isinstance(n, Aggregate | Join) for n in plan.walk())
    candidates = [plan, whole] if grouped or _completed(whole, known) is whole else [whole, plan]
    for candidate in [*candidates, *(t for c in candidates for t in _without_untimed(c, times))]:
        completed = _completed(candidate, known)
        if event_time_columns(completed, known):
            return completed
    return plan


def _with_windows(id_: str, views: Callable[[str], Node | None]) -> Node | None:
    """Return the plan of a view over WINDOW BY or window functions; None if its rows depend on its input's epochs."""
    plan = views(id_)
    if plan is None:
        return None
    nodes = tuple(inline(plan, lambda i: _with_windows(i, views)).walk())
    windows = any(isinstance(n, PredicateWindow | Window) for n in nodes)
    return plan if windows and not any(n.is_historic for n in nodes) else None


def _completed(plan: Node, known: Known) -> Node:
    """Return the plan with the hidden column, or unchanged if there is none."""
    found = final_columns(plan, known)
    if found is None:
        return plan
    name = unused_name(COMPLETE_AT, set(found.plan.schema.names))
    kept = tuple(item_of(c) for c in found.plan.schema if c.name not in found.times)
    final = latest_of([column(n) for n in found.times])
    return Project(found.plan, (*kept, Item(name, final, TIMESTAMP, nullable=False, hidden=True)))


def _without_untimed(plan: Node, times: Callable[[str], Sequence[str]]) -> Iterator[Node]:
    """Yield the plan over the rows with a time: in one event-time column of each input, then in all."""
    scans = {id(n): n for n in plan.walk() if isinstance(n, Scan)}.values()
    columns = {id(s): tuple(times(s.relation)) for s in scans}
    for place in range(max(map(len, columns.values()), default=0)):
        made = plan
        for scan in scans:
            names = columns[id(scan)][place : place + 1]
            made = _timed(made, scan, names)
        if made is not plan:
            yield made


def _timed(plan: Node, scan: Scan, names: Sequence[str]) -> Node:
    optional = [n for n in names if n not in scan.never_null]
    if not optional:
        return plan
    tests = [exp.Not(this=exp.Is(this=column(n), expression=exp.Null())) for n in optional]
    return replace_node(plan, scan, Filter(scan, exp.and_(*tests)))
