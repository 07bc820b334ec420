"""EMIT and SELECT STREAM: when and in which form a query's changes appear.

In: a query with EMIT or STREAM, and its plan. Out: the plan under `Emit` or `InOrder`. The maintenance of the plan
decides which rows are complete. This module only checks that an event-time column can decide it (One SQL, extensions 2
and 4 to 7; SQLstream's rowtime bounds).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from belvedere.functions import spark_types as t
from belvedere.lang.names.definitions import NamedRelation
from belvedere.lang.names.scope import FromItem
from belvedere.lang.select.lost_time import lost_time
from belvedere.lang.select.query_frame import StatementContext
from belvedere.lang.select.select import SelectLowering
from belvedere.lang.select.select_list import make_order
from belvedere.lang.select.stream_grouping import complete_rows, grouped_stream, order_windows
from belvedere.lang.select.stream_joins import joins_streams, windowed_join
from belvedere.plan.bound_rules import Bounds, Known
from belvedere.plan.bounds import bounds_of, event_time_columns, grouping_columns
from belvedere.plan.expressions import column
from belvedere.plan.monotone import interval_length, monotone
from belvedere.plan.operators.emit import PTIME, UNDO, VERSION, Emit
from belvedere.plan.operators.in_order import InOrder
from belvedere.plan.operators.nodes import Item, Node, Project, Union
from belvedere.plan.operators.project import item_of
from belvedere.plan.rewrites.completion import with_completion
from belvedere.plan.rewrites.keys import carry_keys
from belvedere.plan.rewrites.nested_joins import join_nested
from belvedere.plan.rewrites.rewrite import inline
from belvedere.schema import ROWTIME, TIMESTAMP, find_named
from belvedere.syntax.query_tree import EmitClause, emit_of

EMIT_HINT = "write SELECT ... EMIT STREAM AFTER WATERMARK"
ORDER = "_order"
"""Prefix of hidden columns of a sorted stream: the keys of its ORDER BY."""


def emitted(plan: Node, query: exp.Query, context: StatementContext) -> Node:
    """Return the plan under the query's EMIT clause; unchanged if there is none."""
    clause = emit_of(query)
    if clause is None:
        return plan
    watermark = bool(clause.args.get("watermark"))
    if watermark:
        inputs = context.definitions.inputs
        times = {i: [w.column for w in table.watermarks] for i, table in inputs.items()}
        plan = with_completion(
            plan, known_bounds(context), lambda i: times.get(i, ()), lambda i: _definition(i, context)
        )
        _check_event_time(plan, clause, context)
    stream = bool(clause.args.get("stream"))
    own = next((c.name for c in plan.schema.visible if c.name.casefold() in (UNDO, PTIME, VERSION)), None)
    if stream and own is not None:
        message = f"EMIT STREAM adds a column `{own}`, and the query has one already"
        raise context.fail("B5023", message, clause, f"rename it: SELECT {own} AS first_{own}")
    return Emit(plan, stream, watermark, _delay(clause, context))


def _delay(clause: EmitClause, context: StatementContext) -> int | None:
    written = clause.args.get("delay")
    if written is None:
        return None
    return context.length(written, "AFTER DELAY takes an interval of days or less", "write INTERVAL '6' MINUTES")


def _check_event_time(plan: Node, clause: EmitClause, context: StatementContext) -> None:
    known = known_bounds(context)
    nested = inline(join_nested(carry_keys(plan), lambda i: _definition(i, context)), lambda i: _definition(i, context))
    if not event_time_columns(nested, known):
        hint = lost_time(inline(plan, lambda i: _definition(i, context)), known)
        hint = (
            hint
            or "group by an event-time column or a window of it, and declare WATERMARK FOR in the input's definition"
        )
        raise context.fail("B5013", "EMIT AFTER WATERMARK needs an event-time column in the result", clause, hint)


def _definition(id_: str, context: StatementContext) -> Node | None:
    view = context.definitions.views.get(id_)
    return None if view is None else view.plan


def known_bounds(context: StatementContext) -> Known:
    """Return the columns of inputs and views that may have a watermark; tables without one delay nothing."""

    def known(relation: str) -> Bounds | None:
        definitions = context.definitions
        table = definitions.inputs.get(relation)
        if table is not None:
            waits = table.watermarks or table.append_only
            return {w.column: 0 for w in table.watermarks} if waits else None
        if relation in definitions.views:
            return bounds_of(definitions.views[relation].plan, known)
        return {}

    return known


# -- SELECT STREAM ----------------------------------------------------------------------------------------------------


def lower_stream(query: exp.Query, context: StatementContext) -> Node:
    """Lower `SELECT STREAM ...`, and `UNION ALL` of such: rows in the order of their rowtime."""
    if isinstance(query, exp.Select) and query.args.get("group"):
        return grouped_stream(query, context, known_bounds(context))
    selects = _selects(query, context)
    if len(selects) == 1 and _sorts_batches(query):
        return _in_batches(selects[0], context)
    branches = [_joined(s, context) if joins_streams(s) else _branch(s, context) for s in selects]
    within = _within(query, context)
    plan, time = branches[0] if len(branches) == 1 else _united(branches, query, context)
    return InOrder(plan, time, within)


def _sorts_batches(query: exp.Query) -> bool:
    order: Any = query.args.get("order")
    return order is not None and order.args.get("within") is None


def _in_batches(select: exp.Select, context: StatementContext) -> Node:
    """Lower `ORDER BY FLOOR(rowtime TO MINUTE), v`: rows accumulate until the first key is complete, and are then
    emitted in order."""
    order: Any = select.args["order"]
    keys = [o for o in order.expressions if isinstance(o, exp.Ordered)]
    first = select.copy()
    first.set("order", None)
    for n, key in enumerate(keys):
        first.append("expressions", exp.alias_(key.this.copy(), f"{ORDER}{n}", quoted=True))
    plan, time = _joined(first, context) if joins_streams(first) else _branch(first, context)
    if not isinstance(plan, Project):
        raise AssertionError("a branch of UNION ALL may only filter and project a stream")
    own = next(i.expr for i in plan.items if i.name == time)
    leading = next(i for i in plan.items if i.name == f"{ORDER}0")
    rounded, base = monotone(leading.expr), monotone(own)
    rises = rounded is not None and base is not None and rounded.column == base.column
    if keys[0].args.get("desc") or not rises or leading.type != TIMESTAMP:
        hint = (
            "write ORDER BY rowtime, ..., ORDER BY FLOOR(rowtime TO MINUTE), ..., or ORDER BY ts WITHIN INTERVAL "
            "'2' SECOND"
        )
        raise context.fail("B5016", "the first ORDER BY key of a stream must increase with its rowtime", order, hint)
    items = tuple(replace(i, hidden=i.hidden or i.name.startswith(ORDER)) for i in plan.items)
    orders = (make_order(key, key.this) for key in keys)
    then = tuple((f"{ORDER}{n}", o.descending, o.nulls_come_first) for n, o in enumerate(orders))
    return InOrder(replace(plan, items=items), f"{ORDER}0", None, then[1:])


def _selects(query: exp.Expr, context: StatementContext) -> list[exp.Select]:
    if isinstance(query, exp.Union) and query.args.get("distinct") is False:
        return [*_selects(query.this, context), *_selects(query.expression, context)]
    if isinstance(query, exp.Select):
        return [query]
    raise context.fail(
        "B5015", "UNION ALL is the only set operation on streams", query, "write UNION ALL, or SELECT without STREAM"
    )


def _within(query: exp.Query, context: StatementContext) -> int | None:
    order: Any = query.args.get("order")
    if order is None:
        return None
    within = order.args.get("within")
    length = interval_length(within) if within is not None else None
    if within is None or length is None:
        raise context.fail(
            "B5016",
            "remove ORDER BY: a stream is already in the order of its rowtime",
            order,
            "write ORDER BY ts WITHIN INTERVAL '2' SECOND",
        )
    return length


def _refuse_clauses(select: exp.Select, problem: str, context: StatementContext) -> None:
    for key in ("group", "having", "distinct", "limit", "offset", "qualify"):
        if select.args.get(key):
            raise context.fail("B5011", f"SELECT STREAM with {key.upper()} {problem}", select, EMIT_HINT)


def _branch(select: exp.Select, context: StatementContext) -> tuple[Node, str]:
    """Return the plan of one SELECT of a stream with the time column, and that column's name."""
    _refuse_clauses(select, "is not supported yet", context)
    ordered: Any = select.args.get("order")
    plain = order_windows(select.copy(), context, lambda relation: _time_of(relation, context))
    plain.set("order", None)
    lowering = SelectLowering(plain, context)
    plan = lowering.lower(named=True).plan
    sources = lowering.frame.scope.sources
    if len(sources) != 1 or not isinstance(plan, Project):
        raise context.fail("B5011", "SELECT STREAM over this FROM is not supported", select, EMIT_HINT)
    own = _source_time(sources[0], context)
    named = find_named(plan.items, ROWTIME)
    if named is not None:
        _check_rowtime(named, own, ordered is not None, select, context)
        return plan, named.name
    if ordered is not None:
        raise context.fail(
            "B5016", "ORDER BY ... WITHIN needs the time in the select list", ordered, "select it AS ROWTIME"
        )
    if own is None:
        hint = "declare WATERMARK FOR in the input's definition, or select a time AS ROWTIME"
        raise context.fail("B5017", f"`{sources[0].alias}` has no event-time column to stream by", select, hint)
    shown = next((i for i in plan.items if isinstance(i.expr, exp.Column) and i.expr.name == own), None)
    if shown is not None:
        return plan, shown.name
    return replace(plan, items=(*plan.items, Item(ROWTIME, column(own), TIMESTAMP, False, hidden=True))), ROWTIME


def _joined(select: exp.Select, context: StatementContext) -> tuple[Node, str]:
    """Join two streams within windows: rows are emitted by the later time, unmatched ones at the end of their
    window."""
    _refuse_clauses(select, "over a join is not supported", context)
    plain, outer = windowed_join(select, context, lambda relation: _time_of(relation, context))
    plain.set("order", None)
    plan = SelectLowering(plain, context).lower(named=True).plan
    named = find_named(plan.items, ROWTIME) if isinstance(plan, Project) else None
    if named is None or not isinstance(plan, Project):
        raise context.fail("B5011", "SELECT STREAM over this join is not supported", select, EMIT_HINT)
    hidden = not any(e.alias_or_name.casefold() == ROWTIME for e in select.expressions)
    if outer and grouping_columns(plan, known_bounds(context)):
        raise context.fail("B5011", "SELECT STREAM with an outer join of windows is not supported", select, EMIT_HINT)
    plan = complete_rows(plan) if outer else plan
    return replace(
        plan, items=tuple(replace(i, hidden=hidden) if i.name == named.name else i for i in plan.items)
    ), named.name


def _time_of(relation: NamedRelation, context: StatementContext) -> str | None:
    """Return the event-time column of a relation."""
    definitions = context.definitions
    if relation.id in definitions.inputs:
        watermarks = definitions.inputs[relation.id].watermarks
        return watermarks[0].column if watermarks else None
    if relation.id in definitions.views:
        plan = definitions.views[relation.id].plan
        return plan.time if isinstance(plan, InOrder) else next(iter(bounds_of(plan, known_bounds(context))), None)
    return None


def _source_time(source: FromItem, context: StatementContext) -> str | None:
    """Return the internal name of the event-time column of a FROM item."""
    name = _time_of(source.relation, context) if source.relation is not None else None
    found = source.find(name) if name is not None else None
    return found.internal if found is not None else None


def _check_rowtime(item: Item, own: str | None, sorted_: bool, select: exp.Select, context: StatementContext) -> None:
    if item.type != TIMESTAMP:
        raise context.fail("B5018", f"ROWTIME is {t.a_type(item.type)}, not a TIMESTAMP", select, "CAST it")
    if sorted_ or (isinstance(item.expr, exp.Column) and item.expr.name == own):
        return
    found = monotone(item.expr)
    if found is None or found.column != own:
        hint = "use the rowtime plus an interval, or rounded down; or sort: ORDER BY t WITHIN INTERVAL ..."
        raise context.fail(
            "B5019", "a computed ROWTIME must not decrease while the rowtime of its input increases", select, hint
        )


def _united(branches: list[tuple[Node, str]], query: exp.Query, context: StatementContext) -> tuple[Node, str]:
    """Return the union of the branches with the same columns, and the name of their time: a common visible column, else
    the hidden `rowtime`."""
    first = branches[0][0].schema.visible
    places = {[c.name for c in plan.schema.columns].index(time) for plan, time in branches}
    place = min(places)
    shown = len(places) == 1 and place < len(first) and all(not p.schema[t].hidden for p, t in branches)
    united = []
    for plan, time in branches:
        columns = plan.schema.visible
        if [c.type for c in columns] != [c.type for c in first]:
            message = "the streams of UNION ALL have columns of different types"
            raise context.fail("B3053", message, query, "cast them to the same types")
        items = [item_of(c, f.name) for c, f in zip(columns, first, strict=True)]
        if not shown:
            items.append(Item(ROWTIME, column(time), TIMESTAMP, False, hidden=True))
        united.append(Project(plan, tuple(items)))
    return Union(tuple(united)), first[place].name if shown else ROWTIME
