"""Views, DISTINCT ON and subscriptions: statements that define a relation by a query.

In: the statement and the script so far. Out: the script's definitions with one more version of a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from belvedere.catalog.resolved_query import ROW_NUMBER, ResolvedPath
from belvedere.catalog.subscriptions import ChangeKind, Subscription
from belvedere.lang.endpoints.view_order import is_unsorted, ordered_plan, unlimited
from belvedere.lang.names.definitions import NamedRelation
from belvedere.lang.names.resolve import Resolver
from belvedere.lang.names.scope import FromItem
from belvedere.lang.relationships.paths import target_column
from belvedere.lang.select.arrival_columns import rows_with_arrivals
from belvedere.lang.select.queries import lower_query
from belvedere.lang.select.query_frame import Frame, StatementContext, named_source
from belvedere.lang.select.select_list import make_order
from belvedere.lang.statements.script_lowering import ScriptLowering
from belvedere.plan.expressions import column, row_number
from belvedere.plan.operators.nodes import Node, Order, Project, TopK
from belvedere.plan.operators.project import item_of
from belvedere.schema import TIMESTAMP, UID, Column, Schema
from belvedere.syntax.query_tree import unwrap_query
from belvedere.syntax.statement_tree import CreateSubscription, DefineView, DistinctOn

OPERATION, EVENT_TIME, SEQUENCE, OLD = "_op", "_event_time", "_seq", "_old"


def define_view(script: ScriptLowering, statement: DefineView) -> None:
    """Define `V := query`."""
    context = script.context()
    plan, order = ordered_plan(lower_query(statement.query, context))
    plan = unlimited(plan) if order else _unordered(plan, statement.query, context)
    query = context.query(statement.query)
    made = script.add_view(statement.path.text, plan, statement.span, statement.doc, order=order, query=query)
    script.keep_history(made, statement.history)


def _unordered(plan: Node, query: exp.Query, context: StatementContext) -> Node:
    """Remove an ORDER BY without LIMIT that cannot be the order of a table, with a notice: by the clock, by nested
    values, of events."""
    if not is_unsorted(plan):
        return plan
    order, hint = unwrap_query(query).args.get("order") or query, "order it in the query that reads it, or add LIMIT"
    context.notice("B3060", "rows cannot be served in this order: ORDER BY without LIMIT is ignored", order, hint)
    return unlimited(plan)


def define_distinct(script: ScriptLowering, statement: DistinctOn) -> None:
    """Define `V := DISTINCT T ON k ORDER BY c`: the first row per key."""
    context = script.context()
    relation = script.owner(statement.table.parts, statement.table.span)
    frame = Frame(context)
    called = statement.alias.text if statement.alias is not None else relation.name
    said = {c.name.casefold() for e in (*statement.keys, *statement.order) for c in e.find_all(exp.Column)}
    rows = rows_with_arrivals(script.definitions, relation, said)
    frame.plan, source = named_source(rows, called, context.names, relation)
    frame.scope.sources.append(source)
    keys = [Resolver(frame).resolve(k) for k in statement.keys]
    orders = [make_order(o, Resolver(frame).resolve(o.this)) for o in statement.order]
    for order, ordered in zip(orders, statement.order, strict=True):
        frame.check_order(order.expr, ordered)
    partition = []
    for key, written in zip(keys, statement.keys, strict=True):
        if isinstance(key, exp.Dot):  # a field: rows are identified by a hidden column
            field = frame.item(context.names.fresh(written.name or "key"), key, hidden=True)
            frame.plan = Project(frame.plan, (*map(item_of, frame.plan.schema), field))
            key = exp.column(field.name, quoted=True)  # noqa: PLW2901 -- the same key under its name
        if not isinstance(key, exp.Column):
            raise context.fail(
                "B4020",
                "DISTINCT ON takes columns and their fields",
                written,
                "add the expression as a column of the table first",
            )
        frame.check_order(key, written)
        partition.append(key.name)
    name = statement.path.text
    same = script.definitions.find(name)
    like = same if same is not None and same.name == relation.name else None
    parent = None
    if like is not None and like.parent is not None:  # rows of a nested table are distinct within their parent
        parent = (script.definitions.get(like.parent), like.parent_key)
        owned = (target_column(source, own) for own, _ in like.parent_key)
        partition = [*(n for n in owned if n not in partition), *partition]
    top = TopK(frame.plan, (*orders, *_arrival(source, orders)), 1, partition=tuple(partition))
    plan = Project(top, tuple(replace(item_of(frame.plan.schema[c.internal]), name=c.name) for c in source.columns))
    query = context.query(_numbered(statement, relation, called, context))
    made = script.add_view(name, plan, statement.span, statement.doc, like=like, parent=parent, query=query)
    script.keep_history(made, statement.history)


def _numbered(statement: DistinctOn, relation: NamedRelation, called: str, context: StatementContext) -> exp.Select:
    """Return the equivalent in standard SQL: the row with number 1 of each key."""
    name = exp.to_identifier(relation.name)
    name.meta["start"] = statement.table.span.start
    context.resolved([name], ResolvedPath(relation.name, relation.id))
    alias = exp.TableAlias(this=exp.to_identifier(called)) if called != relation.name else None
    columns = [exp.column(c.name) for c in relation.schema.visible]
    order = exp.Order(expressions=[o.copy() for o in statement.order]) if statement.order else None
    number = exp.alias_(row_number([k.copy() for k in statement.keys], order), ROW_NUMBER)
    rows = exp.Select(expressions=[*columns, number], from_=exp.From(this=exp.Table(this=name, alias=alias)))
    first = exp.EQ(this=exp.column(ROW_NUMBER), expression=exp.Literal.number(1))
    numbered = exp.From(this=exp.Subquery(this=rows))
    return exp.Select(expressions=[c.copy() for c in columns], from_=numbered, where=exp.Where(this=first))


def _arrival(source: FromItem, orders: Sequence[Order]) -> tuple[Order, ...]:
    """Return the order by arrival. Among equal sort keys the later arrival counts as greater, so it is first if the
    order descends."""
    uid = source.find(UID)
    descending = bool(orders) and orders[-1].descending
    return (Order(column(uid.internal), descending=descending),) if uid is not None else ()


def define_subscription(script: ScriptLowering, statement: CreateSubscription) -> None:
    """Define `CREATE SUBSCRIPTION S ON ADD AS query`: the query is a view, its events a relation."""
    context = script.context()
    name = statement.path.text
    plan = _unordered(lower_query(statement.query, context), statement.query, context)
    query = context.query(statement.query)
    observed = script.add_view(f"{name}~query", script.by_content(plan), statement.span, None, query=query)
    own = (OPERATION, EVENT_TIME, SEQUENCE, OLD)
    taken = next((c.name for c in observed.schema.visible if c.name in own), None)
    if taken is not None:
        message = f"events have a column `{taken}`, and the query has one already"
        raise context.fail("B5023", message, statement.query, f"rename it: SELECT {taken} AS first{taken}")
    columns = [c for c in observed.schema if c.name not in own]  # a changelog's rows are also numbered
    columns = [replace(c, hidden=c.hidden or c.name in statement.hidden) for c in columns]
    old = pa.struct([pa.field(c.name, c.type, c.nullable) for c in observed.schema.visible])
    columns += [
        Column(OPERATION, pa.string(), False),
        Column(EVENT_TIME, TIMESTAMP, False),
        Column(SEQUENCE, pa.int64(), False),
    ]
    if statement.on is ChangeKind.CHANGE:
        columns.append(Column(OLD, old, False))
    schema = Schema(tuple(columns), (SEQUENCE,))
    id_ = script.definitions.new_id(name)
    script.definitions.define(Subscription(id_, name, statement.on, observed.id, schema, statement.span, statement.doc))
