"""Rows of nested tables outside their parents: their identity, and the detection of added and removed rows.

A nested row's own key is its parent's key and its index in the array. Indexes change when earlier elements come and go,
so subscriptions and exports identify such a row by its parent's key and its columns. Rows of append-only inputs never
move: they keep their key.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from belvedere.lang.names.definitions import Definitions, NamedRelation
from belvedere.plan.expressions import column, row_number
from belvedere.plan.operators.nodes import Aggregate, Item, Node, Project, Scan, Unnest, Window
from belvedere.plan.operators.project import item_of
from belvedere.plan.unused_names import unused_name
from belvedere.schema import UID, has_map

NUMBER = "_number"
PARENT_KEY = "parent_"


def by_content(plan: Node, definitions: Definitions) -> Node:
    """Replace the key of a plan if it has array indexes that may change. The new key is its columns, and a number among
    equal rows."""
    key = plan.schema.key or ()
    places = [k for k in key if _is_moving_place(plan, k, definitions)]
    if not places or any(has_map(c.type) for c in plan.schema.visible):
        return plan
    kept = [c for c in plan.schema if not c.hidden or (c.name in key and c.name not in places)]
    number = unused_name(NUMBER, set(plan.schema.names))
    order = exp.Order(expressions=[exp.Ordered(this=column(p), nulls_first=True) for p in places])
    counted = Item(number, row_number([column(c.name) for c in kept], order), pa.int32(), nullable=False, hidden=True)
    numbered = Window(plan, (counted,))
    names = [*(c.name for c in kept), number]
    rows = Aggregate(numbered, tuple(item_of(numbered.schema[n], hidden=False) for n in names), ())
    hidden = {c.name: c.hidden for c in numbered.schema}
    return Project(rows, tuple(replace(item_of(rows.schema[n]), hidden=hidden[n]) for n in names))


def parent_columns(relation: NamedRelation) -> tuple[tuple[str, str], ...]:
    """Return the parent's key columns of a nested table as (name to show, own column), if the table does not show them
    itself.

    The row number of a stream is not shown by `*`, so it is not shown here.
    """
    shown = {c.name.casefold() for c in relation.schema.visible}
    hidden = [
        (own, theirs.lstrip("_"))
        for own, theirs in relation.parent_key
        if own.casefold() not in shown and theirs != UID
    ]
    names = ((name if name.casefold() not in shown else PARENT_KEY + name, own) for own, name in hidden)
    return tuple((name, own) for name, own in names if name.casefold() not in shown)


def with_parent(relation: NamedRelation) -> Node:
    """Return all rows of a nested table, each with its parent's key first."""
    extra = parent_columns(relation)
    first = tuple(item_of(relation.schema[own], name, hidden=False) for name, own in extra)
    taken = {name for name, _ in extra}
    rest = tuple(item_of(c) for c in relation.schema if c.name not in taken)
    return Project(Scan(relation.id, relation.schema), (*first, *rest))


def _is_moving_place(node: Node, name: str, definitions: Definitions) -> bool:
    """Return whether a column is an index in an array of rows that may change."""
    if isinstance(node, Scan):
        view = definitions.views.get(node.relation)
        return view is not None and _is_moving_place(view.plan, name, definitions)
    if isinstance(node, Unnest) and name == node.position.name:
        return _changes(node, definitions)
    if isinstance(node, Project | Aggregate):
        items = node.items if isinstance(node, Project) else node.keys
        item = next((i for i in items if i.name == name), None)
        inner = item.expr.name if item is not None and isinstance(item.expr, exp.Column) else None
        return inner is not None and _is_moving_place(node.inputs[0], inner, definitions)
    return any(_is_moving_place(i, name, definitions) for i in node.inputs if name in i.schema.names)


def _changes(node: Node, definitions: Definitions) -> bool:
    """Return whether rows of an input below may be replaced."""
    for relation in (n.relation for n in node.walk() if isinstance(n, Scan)):
        table, view = definitions.inputs.get(relation), definitions.views.get(relation)
        if (table is not None and not table.append_only) or (view is not None and _changes(view.plan, definitions)):
            return True
    return False
