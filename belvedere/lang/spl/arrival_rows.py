"""Rows of an SPL window, with their order of arrival, clock and event time.

In: the plan of a table or subquery of FROM. Out: the same plan over the input of its rows, with these columns carried
along. The rows must be append-only: a window cannot retract one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from belvedere.lang.select.query_frame import StatementContext
from belvedere.plan.operators.emit import PTIME, SEQUENCE, Emit
from belvedere.plan.operators.in_order import InOrder
from belvedere.plan.operators.nodes import Filter, Item, Node, Project, Scan, Union
from belvedere.plan.operators.project import item_of
from belvedere.plan.operators.spl_aggregate import SplAggregate
from belvedere.plan.operators.spl_join import FIRED, FIRING, SplJoin
from belvedere.plan.operators.spl_windows import Interval
from belvedere.plan.plan_properties import needs_clock
from belvedere.plan.rewrites.rewrite import carry, inline, replace_node
from belvedere.schema import INGEST_TIME, UID

ARRIVED_TIME = "_arrived_time"
ARRIVED = ("_arrived_number", "_arrived_at", ARRIVED_TIME)
"""Columns of order, clock and event time of rows that come from several inputs."""
HINT = (
    "take a stream (CREATE STREAM), a view that only filters and computes columns of some, SELECT STREAM, or EMIT "
    "STREAM"
)


@dataclass(frozen=True)
class ArrivingRows:
    """A plan and the names of its columns that order its rows, give their time, and number the firings that created
    them."""

    plan: Node
    order: str
    clock: str
    time: str | None
    punctuation: str | None
    of_panes: bool = False
    """Whether panes of `timeInterval` created them: their clock is the bound."""
    by_arrival: bool = True
    """Whether rows are numbered in the sequence that all inputs share. Otherwise their own relation numbers them."""


def arriving_rows(plan: Node, context: StatementContext, place: exp.Expr) -> ArrivingRows:
    """Return the rows of one FROM item. Raises B5211 if they are not append-only."""
    plan = inline(plan, lambda relation: _simple_view(relation, context))
    source = rows_source(plan)
    if source is None:
        raise context.fail("B5211", "a window needs an append-only relation", place, HINT)
    if isinstance(source, Union):
        return _of_union(plan, source, context, place)
    names = _columns(source, context, place)
    return _carried(plan, source, names, _has_panes(source, context))


def _carried(plan: Node, source: Node, names: Sequence[str | None], of_panes: bool) -> ArrivingRows:
    """Return the plan with these columns of its source: order, clock, event time and firing."""
    requested = tuple(n for n in dict.fromkeys(names) if n is not None)
    carried, found = carry(plan, source, tuple(item_of(source.schema[n], hidden=True) for n in requested))
    place_of = dict(zip(requested, found, strict=True))
    order, clock, time, punctuation = (None if n is None else place_of[n] for n in names)
    assert order is not None
    assert clock is not None
    return ArrivingRows(carried, order, clock, time, punctuation, of_panes, names[0] in (UID, ARRIVED[0]))


def _of_union(plan: Node, union: Union, context: StatementContext, place: exp.Expr) -> ArrivingRows:
    """Return rows of several inputs in the order of arrival: all inputs share one sequence of numbers."""
    branches = [arriving_rows(b, context, place) for b in union.branches]
    if any(not b.by_arrival for b in branches):
        hint = "write one view SELECT STREAM ... UNION ALL SELECT STREAM ..., and the window over it"
        raise context.fail("B5211", "rows of several streams that are made have no order among each other", place, hint)
    timed = all(b.time is not None for b in branches)
    names = [n for n in ARRIVED if n != ARRIVED_TIME or timed]
    made = []
    for branch, given in zip(branches, union.branches, strict=True):
        columns = [item_of(c) for c in given.schema.columns]
        hidden = (branch.order, branch.clock, branch.time)
        columns += [
            item_of(branch.plan.schema[n], name, hidden=True)
            for n, name in zip(hidden, names, strict=False)
            if n is not None
        ]
        made.append(Project(branch.plan, tuple(columns)))
    known = Union(tuple(made))
    above = replace_node(plan, union, known)
    time = ARRIVED_TIME if timed else None
    return _carried(above, known, (names[0], names[1], time, None), False)


def rows_source(plan: Node) -> Scan | Union | None:
    """Return the source of a chain of projections and filters without `now()`; None if it is not a relation or UNION
    ALL."""
    while isinstance(plan, (Project, Filter)) and not needs_clock(plan):
        plan = plan.input
    return plan if isinstance(plan, Scan | Union) else None


def _has_panes(scan: Scan, context: StatementContext) -> bool:
    """Return whether rows are the firings of panes, or of windows over these."""
    view = context.definitions.views.get(scan.relation)
    below = [] if view is None else list(view.plan.walk())
    return any(isinstance(n, SplAggregate) and isinstance(n.window.kind, Interval) for n in below) or any(
        _has_panes(n, context) for n in below if isinstance(n, Scan)
    )


def _simple_view(relation: str, context: StatementContext) -> Node | None:
    """Return the plan of a view that only filters and computes columns of rows, possibly of several inputs."""
    view = context.definitions.views.get(relation)
    return None if view is None or rows_source(view.plan) is None else view.plan


def _columns(scan: Scan, context: StatementContext, place: exp.Expr) -> tuple[str, str, str | None, str | None]:
    """Return the columns of order, clock, event time and firing of the source of rows."""
    table = context.definitions.inputs.get(scan.relation)
    if table is not None and table.append_only:
        return UID, INGEST_TIME, table.watermarks[0].column if table.watermarks else None, None
    view = context.definitions.views.get(scan.relation)
    if view is not None and fires(view.plan):
        return SEQUENCE, FIRED, None, FIRING
    if view is not None and isinstance(view.plan, InOrder):
        return SEQUENCE, view.plan.came, view.plan.time if view.plan.within is None else None, None
    if view is not None and isinstance(view.plan, Emit) and view.plan.stream:
        return SEQUENCE, PTIME, None, None
    name = table.name if table is not None else view.name if view is not None else scan.relation
    raise context.fail("B5211", f"`{name}` is not append-only: its rows can change or leave", place, HINT)


def fires(plan: Node) -> bool:
    """Return whether a view has all firings of a window, with the columns that distinguish them."""
    if not {SEQUENCE, FIRED, FIRING} <= set(plan.schema.names) or plan.schema.key != (SEQUENCE,):
        return False
    return any(isinstance(n, SplJoin) or (isinstance(n, SplAggregate) and n.every) for n in plan.walk())


def with_firings(plan: Node, fired: Item, firing: Item) -> Node:
    """Return the rows of a `SELECT STREAM` with the hidden columns that distinguish its firings, if their names are
    unused."""
    taken = {c.name.casefold() for c in plan.schema}
    if not isinstance(plan, Project) or {FIRED, FIRING} & taken:
        return plan
    return Project(plan.input, (*plan.items, fired, firing))
