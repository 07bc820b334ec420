"""SELECT STREAM ... GROUP BY: a group is emitted once, when a row or bound has reached its end.

In: such a SELECT. Out: the complete groups of the query as append-only rows, with the hidden column `rowtime`: the end
of the group (SQLstream's rowtime bounds). It equals EMIT STREAM AFTER WATERMARK without the columns of a changelog.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from belvedere.lang.names.definitions import NamedRelation
from belvedere.lang.select.query_frame import StatementContext
from belvedere.lang.select.select import SelectLowering
from belvedere.plan.bound_rules import Known
from belvedere.plan.bounds import event_time_columns, grouping_columns
from belvedere.plan.expressions import column
from belvedere.plan.operators.emit import UNDO, Emit
from belvedere.plan.operators.nodes import Aggregate, Expr, Filter, Item, Node, Project
from belvedere.plan.operators.project import item_of
from belvedere.schema import ROWTIME, TIMESTAMP, find_named

HINT = "group by a rounded time: GROUP BY FLOOR(rowtime TO HOUR), or by the start or end of a window"


def grouped_stream(select: exp.Select, context: StatementContext, known: Known) -> Node:
    """Return the plan of a SELECT STREAM with GROUP BY. Raises B5011 if no key is non-decreasing in the rowtime."""
    plain = select.copy()
    plain.set("stream", None)
    plan = SelectLowering(plain, context).lower(named=True).plan
    times = event_time_columns(plan, known) & grouping_columns(plan, known)
    if not times:
        raise context.fail(
            "B5011", "SELECT STREAM with GROUP BY needs a key that increases with the rowtime", select, HINT
        )
    end = _end_of_group(plan, times)
    named = find_named(plan.schema.visible, ROWTIME) is not None
    if end is not None and not named:
        plan = Project(plan, (*map(item_of, plan.schema), Item(ROWTIME, end, TIMESTAMP, nullable=True)))
    complete = complete_rows(plan)
    hidden = end is not None and not named
    return replace(complete, items=tuple(replace(i, hidden=hidden and i.name == ROWTIME) for i in complete.items))


def complete_rows(plan: Node) -> Project:
    """Return the complete rows of a query, as append-only rows."""
    complete = Filter(Emit(plan, stream=True, watermark=True), exp.Not(this=column(UNDO)))
    return Project(complete, tuple(item_of(c) for c in plan.schema.visible))


def _end_of_group(plan: Node, times: frozenset[str]) -> Expr | None:
    """Return the end of the group as an expression over the plan's columns: a key rounded down to a unit, plus that
    unit."""
    if not isinstance(plan, Project):
        return None
    below: Node = plan.input
    while not isinstance(below, Aggregate):
        if len(below.inputs) != 1 or isinstance(below, Project):
            return None
        below = below.inputs[0]
    units = {k.name: k.expr.args["unit"] for k in below.keys if isinstance(k.expr, exp.TimestampTrunc)}
    for item in plan.items:
        if item.name in times and isinstance(item.expr, exp.Column) and item.expr.name in units:
            one = exp.Interval(this=exp.Literal.string("1"), unit=units[item.expr.name].copy())
            return exp.Add(this=column(item.name), expression=one)
    return None


def order_windows(
    select: exp.Select, context: StatementContext, time_of: Callable[[NamedRelation], str | None]
) -> exp.Select:
    """Return the SELECT with windows ordered by the stream's rowtime if they have no order: `OVER (RANGE ...
    PRECEDING)`."""
    source = select.args.get("from_")
    table = source.this if source is not None else None
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        return select
    relation = context.definitions.find(table.name)
    own = time_of(relation) if relation is not None else None
    if own is None:
        return select
    ordered = select.copy()
    for window in ordered.find_all(exp.Window):
        if window.args.get("spec") is not None and window.args.get("order") is None:
            time = exp.Column(this=exp.to_identifier(own, quoted=True))
            window.set("order", exp.Order(expressions=[exp.Ordered(this=time)]))
    return ordered
