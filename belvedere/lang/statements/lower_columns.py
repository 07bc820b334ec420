"""`T.c := expression`: adds or redefines a column.

In: the owner and the expression, also with aggregates over paths. Out: a new version of the owner. A redefined column
that the key or a relationship depends on stays under a hidden name.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from belvedere.catalog.relationships import OWNER, Relationship, relationship_column
from belvedere.catalog.subscriptions import EVENT_COLUMNS
from belvedere.catalog.templates import QueryTemplate
from belvedere.errors import BelvedereError, Span, fail
from belvedere.functions.function_table import is_aggregate
from belvedere.lang.endpoints.view_order import own_order
from belvedere.lang.names.definitions import NamedRelation
from belvedere.lang.names.resolve import Resolver
from belvedere.lang.names.scope import FromItem, name_parts
from belvedere.lang.relationships.path_aggregates import expand_path_aggregates
from belvedere.lang.relationships.path_ways import ways_of_row
from belvedere.lang.relationships.paths import only_requests
from belvedere.lang.select.arrival_columns import rows_with_arrivals
from belvedere.lang.select.grouping import contains_aggregate
from belvedere.lang.select.query_frame import Frame, StatementContext, named_source
from belvedere.lang.select.subqueries import attach_all
from belvedere.lang.statements.lower_inputs import PARENT
from belvedere.lang.statements.script_lowering import ScriptLowering
from belvedere.plan.operators.nodes import Expr, Item, Project
from belvedere.plan.operators.project import item_of
from belvedere.plan.unused_names import unused_name
from belvedere.schema import INGEST_TIME, UID, Schema
from belvedere.syntax.statement_tree import DefineColumn, DottedName, Part
from belvedere.syntax.wording import did_you_mean


def define_column(script: ScriptLowering, statement: DefineColumn) -> None:
    """Define `T.c := expression`, also with aggregates over paths."""
    owner = script.owner(statement.path.owner, statement.path.span)
    expression = expand_path_aggregates(statement.expression, ways_of_row(script.definitions, owner, script.context()))
    add_column(script, owner, statement.path, expression, statement.span, statement.doc)


def add_column(
    script: ScriptLowering, owner: NamedRelation, path: DottedName, expression: exp.Expr, span: Span, doc: str | None
) -> None:
    """Define a new version of the owner with one more column, or a redefined one."""
    owner = script.definitions.relations[owner.id]
    if owner.id in script.definitions.subscriptions:
        _add_to_events(script, owner, path, expression, span, doc)
        return
    _add_to_rows(script, owner, path, expression, span, doc)


def _add_to_rows(
    script: ScriptLowering, owner: NamedRelation, path: DottedName, expression: exp.Expr, span: Span, doc: str | None
) -> None:
    owner = replace(owner, relationships=dict(owner.relationships))  # the preceding version keeps its own
    context = script.context()
    frame = Frame(context)
    said = {c.name.casefold() for c in expression.find_all(exp.Column)} & {UID, INGEST_TIME}
    rows = rows_with_arrivals(script.definitions, owner, said)
    frame.plan, source = named_source(rows, OWNER, context.names, owner)
    frame.scope.sources.append(source)
    frame.scope.sources.append(replace(source, alias=owner.name.rpartition(".")[2].partition("~")[0], bare=False))
    if contains_aggregate(expression):
        raise _pathless_aggregate(expression, owner, context)
    expr = Resolver(frame).resolve(expression)
    frame.inference().typed(expr)
    expr = attach_all(frame, expr)
    _refuse_windows(expr, expression, context)
    name = path.last.text
    related = owner.relationship(name) is not None or script.definitions.computed_of(owner, name) is not None
    if related and owner.schema.find(name) is None:
        raise fail(
            "B4005",
            f"`{owner.name}` has a relationship `{name}` already",
            span=path.last.span,
            hint="choose another name",
        )
    new = frame.item(name, expr, doc=doc)
    plan = Project(frame.plan, tuple(_with_column(script, frame, source, owner, new)))
    view = script.definitions.views.get(owner.id)
    parent = None
    if owner.parent is not None and view is not None:
        parent = (script.definitions.get(owner.parent), owner.parent_key)
    defined = view or script.definitions.inputs.get(owner.id)
    before = defined.doc if defined is not None else None
    order = own_order(view.order, _still(plan, source)) if view is not None else ()
    replaced = owner.schema.find(name)
    overrides = replaced.name if replaced is not None else None
    query = context.query(expression, column=name)
    script.add_view(
        owner.name, plan, span, before, like=owner, parent=parent, order=order, overrides=overrides, query=query
    )


def _add_to_events(
    script: ScriptLowering, owner: NamedRelation, path: DottedName, expression: exp.Expr, span: Span, doc: str | None
) -> None:
    """Add a column to a subscription's events: its query also selects it, so the events remain events."""
    definitions, name = script.definitions, path.last.text
    before = definitions.subscriptions[owner.id]
    read = next((c for c in expression.find_all(exp.Column) if c.name.casefold() in EVENT_COLUMNS), None)
    if read is not None or name.casefold() in EVENT_COLUMNS:
        column = read.name if read is not None else name
        hint = f"write a view over the events: `V := SELECT *, ... FROM {owner.name}`"
        message = (
            f"`{column}` is created with the event: a computed column of the subscription `{owner.name}` cannot read it"
        )
        raise fail("B4047", message, span=path.span, hint=hint)
    observed = definitions.relations[before.view]
    there = set(observed.schema.names)
    reachable = {n: r for n, r in owner.relationships.items() if _own_columns(r) <= there}
    observed = replace(observed, relationships={**observed.relationships, **reachable})
    definitions.relations[observed.id] = observed
    columns = DottedName((Part(observed.name, path.span), path.last))
    _add_to_rows(script, observed, columns, expression, span, doc)
    evolved = definitions.with_columns_of(observed)
    shown = {c.name: c.hidden for c in owner.schema}
    known = [replace(c, hidden=shown.get(c.name, c.hidden)) for c in evolved.schema if c.name not in EVENT_COLUMNS]
    old = pa.struct([pa.field(c.name, c.type, c.nullable) for c in evolved.schema.visible])
    own = [replace(c, type=old) if c.name == "_old" else c for c in owner.schema if c.name in EVENT_COLUMNS]
    made = replace(
        before, id=definitions.new_id(owner.name), view=evolved.id, schema=Schema((*known, *own), owner.schema.key)
    )
    definitions.define(made, owner.relationships, owner.sealed, owner.id)


def _still(plan: Project, source: FromItem) -> dict[str, str]:
    """Return the present names of the owner's columns."""
    names = {i.expr.name: i.name for i in reversed(plan.items) if isinstance(i.expr, exp.Column)}
    return {c.name: names[c.internal] for c in source.columns if c.internal in names}


def _pathless_aggregate(expression: exp.Expr, owner: NamedRelation, context: StatementContext) -> BelvedereError:
    call = next(n for n in expression.walk() if is_aggregate(n))
    written = name_parts(call.find(exp.Column))
    if written and context.definitions.computed_of(owner, written[0].name) is not None:
        return only_requests(context, written[0])
    names = [r.name for r in owner.relationships.values()]
    hint = did_you_mean(written[0].name, names, shown=4) if written else None
    example = f"`count({names[0]})`" if names else f"define one first: `{owner.name}.r := JOIN ... ON ...`"
    message = "an aggregate in a column's expression needs a relationship of its table"
    return context.fail("B4021", message, call, hint or f"aggregate over a relationship: {example}")


def _with_column(script: ScriptLowering, frame: Frame, source: FromItem, owner: NamedRelation, new: Item) -> list[Item]:
    """Return all columns in order, the new one in its place or after the last visible one. A redefined column that the
    key or a relationship still needs stays under a hidden name."""
    items = [
        item_of(frame.plan.schema[s.internal], c.name) for c, s in zip(owner.schema, source.columns, strict=False)
    ]  # columns of arrival may follow
    replaced = owner.schema.find(new.name)
    if replaced is None:
        items.insert(max((n for n, i in enumerate(items) if not i.hidden), default=-1) + 1, new)
        return items
    at = owner.schema.names.index(replaced.name)
    old, items[at] = items[at], replace(new, name=replaced.name, doc=new.doc or replaced.doc)
    if replaced.name in _needed(script, owner):
        hidden = unused_name(replaced.name, {i.name for i in items})
        items.append(replace(old, name=hidden, hidden=True))
        _rename_in_relationships(script, owner, replaced.name, hidden)
    return items


def _needed(script: ScriptLowering, owner: NamedRelation) -> set[str]:
    """Return the columns that the key and the relationships of a table depend on."""
    current = script.definitions.relations[owner.id]
    read = map(_own_columns, current.relationships.values())
    view = script.definitions.views.get(owner.id)
    order = [o.expr.name for o in view.order] if view is not None else []
    computed = [r.column for t in _computed_of(script, owner) for r in t.row]
    return set(owner.schema.key or ()).union(order, computed, *read)


def _computed_of(script: ScriptLowering, owner: NamedRelation) -> list[QueryTemplate]:
    """Return the relationships of a table that compute rows."""
    made, definitions = script.definitions.computed.values(), script.definitions
    return [t for t in made if definitions.with_columns_of(definitions.relations[t.owner]).id == owner.id]


def _own_columns(relationship: Relationship) -> set[str]:
    """Return the columns of its owner that a relationship reads."""
    return {*relationship.columns_of(OWNER), *(own for own, _ in relationship.pairs)}


def _rename_in_relationships(script: ScriptLowering, owner: NamedRelation, old: str, new: str) -> None:
    """Rename a redefined column in relationships: later versions read the old value under its hidden name."""

    def change(c: exp.Column) -> Expr:
        return relationship_column(OWNER, new) if c.table == OWNER and c.name == old else c

    for folded, r in script.definitions.relations[owner.id].relationships.items():
        owner.relationships[folded] = replace(
            r.over(change), pairs=tuple((new if o == old else o, x) for o, x in r.pairs)
        )
    for template in _computed_of(script, owner):
        row = tuple(replace(r, column=new) if r.column == old else r for r in template.row)
        script.definitions.computed[template.name.casefold()] = replace(template, row=row)
    for nested in [
        r for r in script.definitions if r.parent is not None and r.parent.casefold() == owner.name.casefold()
    ]:
        _rename_parent_key(script, nested, old, new)


def _rename_parent_key(script: ScriptLowering, nested: NamedRelation, old: str, new: str) -> None:
    pairs = tuple((own, new if p == old else p) for own, p in nested.parent_key)
    relationships = dict(nested.relationships)
    if PARENT in relationships:
        relationships[PARENT] = replace(relationships[PARENT], pairs=pairs)
    script.definitions.relations[nested.id] = replace(nested, parent_key=pairs, relationships=relationships)
    if nested.id in script.definitions.views:
        script.definitions.views[nested.id] = replace(script.definitions.views[nested.id], parent_key=pairs)


def _refuse_windows(expr: Expr, written: exp.Expr, context: StatementContext) -> None:
    if expr.find(exp.Window) is not None:
        raise context.fail(
            "B4022", "a computed column cannot be a window function", written, "write a view that selects it"
        )
