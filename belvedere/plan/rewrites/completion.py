"""Completion times for queries without a selected event-time column.

In: a plan under EMIT AFTER WATERMARK, and the columns that may have bounds. Out: the plan with a hidden column, or
without rows that have no event time. A row that depends on later rows (LEAD, `n FOLLOWING`) is complete when the
farthest of them is below the bound. If there is no such row, it waits until the input ends. A row without an event time
is below no bound: it would never be emitted, and would delay others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from belvedere.plan.bound_rules import Known
from belvedere.plan.bounds import event_time_columns
from belvedere.plan.expressions import Expr, column
from belvedere.plan.monotone import LAST_TIME
from belvedere.plan.operators.nodes import Filter, Item, Node, Project, Scan, Window
from belvedere.plan.operators.predicate_window import PredicateWindow, WindowForm, final_times
from belvedere.plan.operators.project import item_of
from belvedere.plan.operators.window import leading_column, rows_ahead, same_rows
from belvedere.plan.rewrites.rewrite import inline, replace_node
from belvedere.plan.unused_names import unused_name
from belvedere.schema import TIMESTAMP
from belvedere.values.instants import instant

COMPLETE_AT = "_complete_at"
"""Hidden column with the time of the last row that the row depends on."""


def with_completion(
    plan: Node, known: Known, times: Callable[[str], Sequence[str]], views: Callable[[str], Node | None]
) -> Node:
    """Return the plan with event-time columns, or unchanged if there are none. The windows of a scanned view are
    recomputed if they give the time."""
    whole = inline(plan, lambda i: _with_windows(i, views))
    candidates = [plan, whole] if _completed(whole)[1] is None else [whole, plan]
    for candidate in [*candidates, *(t for c in candidates for t in _without_untimed(c, times))]:
        completed = _completed(candidate)[0]
        if event_time_columns(completed, known):
            return completed
    return plan


def _with_windows(id_: str, views: Callable[[str], Node | None]) -> Node | None:
    """Return the plan of a view with WINDOW BY, or with window functions, without operators above them; else None."""
    node = plan = views(id_)
    while isinstance(node, Project | Filter):
        node = node.input
    return plan if isinstance(node, PredicateWindow | Window) else None


def last_time() -> Expr:
    """Return `TIMESTAMP '9999-12-31 23:59:59.999999'`. Rows that wait for it wait for the end of the input."""
    text = instant(LAST_TIME).strftime("%Y-%m-%d %H:%M:%S.%f")
    return exp.cast(exp.Literal.string(text), exp.DataType.Type.TIMESTAMPTZ)


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


def _completed(plan: Node) -> tuple[Node, str | None]:
    """Add the hidden column to a plan of projections and filters over window functions that look ahead. Return the plan
    and the column's name."""
    match plan:
        case Filter():
            below, name = _completed(plan.input)
            return replace(plan, input=below), name
        case Project():
            below, name = _completed(plan.input)
            if name is None:
                return plan, None
            fresh = unused_name(COMPLETE_AT, {i.name for i in plan.items})
            return Project(below, (*plan.items, item_of(below.schema[name], fresh, hidden=True))), fresh
        case Window():
            return _with_next_times(plan)
        case PredicateWindow():
            return _with_final_times(plan)
        case _:
            return plan, None


def _with_final_times(window: PredicateWindow) -> tuple[Node, str | None]:
    """Add the time of the last row that decides the end of a window. Earlier tuples that also decide it are used if
    they exist."""
    resume = window.resume
    places = final_times(resume) if resume is not None else {}
    if resume is None or not places or window.input.schema[resume.column].type != TIMESTAMP:
        return window, None
    labels = {("label", "item"): 0} if resume.form is WindowForm.LABELLED else {}
    taken = {*window.schema.names}
    names: dict[tuple[str, str], str] = {}
    for place in (*places, *labels):
        names[place] = unused_name(COMPLETE_AT, taken)
        taken.add(names[place])
    last, *shorter = places
    found: Expr = exp.Coalesce(this=column(names[last]), expressions=[last_time()])
    if shorter:  # a tuple that does not exist is skipped
        found = exp.Least(this=found, expressions=[_later(column(names[p]), places[p]) for p in shorter])
    kept, name = tuple(item_of(c) for c in window.schema), unused_name(COMPLETE_AT, taken)
    below = window.with_times(names)
    made = tuple(item_of(below.schema[names[p]]) for p in labels)
    above = Project(below, (*kept, *made, Item(name, found, TIMESTAMP, nullable=False, hidden=True)))
    if not labels:
        return above, name
    both = exp.Greatest(this=column(name), expressions=[column(names[p]) for p in labels])
    return Project(above, (*kept, Item(name, both, TIMESTAMP, nullable=False, hidden=True))), name


def _later(time: Expr, length: int) -> Expr:
    unit = exp.Interval(this=exp.Literal.string(str(length)), unit=exp.var("MICROSECOND"))
    return exp.Add(this=time, expression=unit)


def _with_next_times(window: Window) -> tuple[Node, str | None]:
    """Add, for each order in which window functions look ahead, the time of the farthest row that they read."""
    farthest: list[tuple[exp.Window, str, int]] = []
    for call in (w for i in window.items for w in i.expr.find_all(exp.Window)):
        time, rows = leading_column(call, window.input), rows_ahead(call)
        if time is None or rows in (None, 0) or rows is None or window.input.schema[time].type != TIMESTAMP:
            continue
        same = next((n for n, (other, _, _) in enumerate(farthest) if same_rows(other, call)), None)
        if same is None:
            farthest.append((call, time, rows))
        else:
            farthest[same] = (call, time, max(rows, farthest[same][2]))
    if not farthest:
        return window, None
    taken = {*window.schema.names}
    items = []
    for call, time, rows in farthest:
        name = unused_name(COMPLETE_AT, taken)
        taken.add(name)
        items.append(Item(name, _lead(call, time, rows), TIMESTAMP, nullable=False, hidden=True))
    below = replace(window, items=(*window.items, *items))
    if len(items) == 1:
        return below, items[0].name
    name = unused_name(COMPLETE_AT, taken)
    greatest = exp.Greatest(this=column(items[0].name), expressions=[column(i.name) for i in items[1:]])
    kept = tuple(item_of(c) for c in window.schema)
    return Project(below, (*kept, Item(name, greatest, TIMESTAMP, nullable=False, hidden=True))), name


def _lead(call: exp.Window, time: str, rows: int) -> exp.Window:
    """Return the time of the row that many positions later, in the order of a window function."""
    lead = exp.Lead(this=column(time), offset=exp.Literal.number(rows), default=last_time())
    found = exp.Window(this=lead, order=call.args["order"].copy(), over="OVER")
    if call.args.get("partition_by"):
        found.set("partition_by", [e.copy() for e in call.args["partition_by"]])
    return found
