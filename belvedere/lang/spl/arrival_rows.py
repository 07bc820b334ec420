"""The rows that a window of SPL takes: in which order they arrive, at which clock, with which event time.

In: the plan of a table or subquery of FROM. Out: the same plan over the input that its rows come from, with the columns that say so carried
along. Rows must only arrive: a window cannot take one back.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from belvedere.lang.select.query_frame import StatementContext
from belvedere.plan.operators.emit import SEQUENCE
from belvedere.plan.operators.nodes import Item, Node, Project, Scan
from belvedere.plan.operators.project import item_of
from belvedere.plan.operators.spl_aggregate import SplAggregate
from belvedere.plan.operators.spl_join import FIRED, FIRING, SplJoin
from belvedere.plan.operators.spl_windows import Interval
from belvedere.plan.plan_properties import base_scan
from belvedere.plan.rewrites.rewrite import carry, inline
from belvedere.schema import INGEST_TIME, UID

HINT = "take a stream (CREATE STREAM), a view that only filters and computes columns of one, or SELECT STREAM ... WINDOW (...)"


@dataclass(frozen=True)
class ArrivingRows:
    """A plan and the names of its columns that order its rows, time them, and number the firings that made them."""

    plan: Node
    order: str
    clock: str
    time: str | None
    punctuation: str | None
    of_panes: bool = False
    """Whether panes of `timeInterval` made them: their clock is the bound."""


def arriving_rows(plan: Node, context: StatementContext, place: exp.Expr) -> ArrivingRows:
    """The rows of one FROM item. Raises B5211 where they do not only arrive."""
    plan = inline(plan, lambda relation: _simple_view(relation, context))
    scan = base_scan(plan)
    if scan is None:
        raise context.fail("B5211", "a window needs rows that only arrive, in their order", place, HINT)
    names = _columns(scan, context, place)
    carried, found = carry(
        plan, scan, tuple(item_of(scan.schema[n], hidden=True) for n in dict.fromkeys(names) if n is not None)
    )
    place_of = dict(zip((n for n in dict.fromkeys(names) if n is not None), found, strict=True))
    order, clock, time, punctuation = (None if n is None else place_of[n] for n in names)
    assert order is not None
    assert clock is not None
    return ArrivingRows(carried, order, clock, time, punctuation, _has_panes(scan, context))


def _has_panes(scan: Scan, context: StatementContext) -> bool:
    """Whether rows are the firings of panes, or of windows over these."""
    view = context.definitions.views.get(scan.relation)
    below = [] if view is None else list(view.plan.walk())
    return any(isinstance(n, SplAggregate) and isinstance(n.window.kind, Interval) for n in below) or any(
        _has_panes(n, context) for n in below if isinstance(n, Scan)
    )


def _simple_view(relation: str, context: StatementContext) -> Node | None:
    """The plan of a view that only filters and computes columns of rows."""
    view = context.definitions.views.get(relation)
    return None if view is None or base_scan(view.plan) is None else view.plan


def _columns(scan: Scan, context: StatementContext, place: exp.Expr) -> tuple[str, str, str | None, str | None]:
    """The columns of order, clock, event time and firing of what rows come from."""
    table = context.definitions.inputs.get(scan.relation)
    if table is not None and table.append_only:
        return UID, INGEST_TIME, table.watermarks[0].column if table.watermarks else None, None
    view = context.definitions.views.get(scan.relation)
    if view is not None and fires(view.plan):
        return SEQUENCE, FIRED, None, FIRING
    name = table.name if table is not None else view.name if view is not None else scan.relation
    raise context.fail("B5211", f"rows of `{name}` do not only arrive: they can change or leave", place, HINT)


def fires(plan: Node) -> bool:
    """Whether a view is all firings of a window, with the columns that tell them apart."""
    if not {SEQUENCE, FIRED, FIRING} <= set(plan.schema.names) or plan.schema.key != (SEQUENCE,):
        return False
    return any(isinstance(n, SplJoin) or (isinstance(n, SplAggregate) and n.every) for n in plan.walk())


def with_firings(plan: Node, fired: Item, firing: Item) -> Node:
    """The rows of a `SELECT STREAM` with the hidden columns that tell its firings apart, where their names are free."""
    taken = {c.name.casefold() for c in plan.schema}
    if not isinstance(plan, Project) or {FIRED, FIRING} & taken:
        return plan
    return Project(plan.input, (*plan.items, fired, firing))
