"""Relations that are not stored, and stored views that contain all of their rows.

If a script adds a column to a table (`Orders.total := ...`), the table with the column is stored, and the one below is
not. In: a catalog, the stored relations. Out: the plan that reads a relation's rows from such a view, or a sentence why
its rows are not stored.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from sqlglot import exp

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.views import View
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Item, Join, JoinKind, Node, Project, Scan
from belvedere.schema import Schema


def from_covering_view(catalog: Catalog, id_: str, stored: Collection[str]) -> Node | None:
    """Return a plan for a relation that is not stored, from a stored view with each of its rows once and all
    columns."""
    if id_ in stored or not (id_ in catalog.inputs or id_ in catalog.views):
        return None
    schema = catalog.schema_of(id_)
    for view in catalog.views.values():
        if view.id in stored:
            names = _unchanged_columns(catalog, view.plan, id_)
            if names.keys() >= set(schema.names) and _has_each_once(view, schema, names):
                items = (Item(c.name, column(names[c.name]), c.type, c.nullable, c.hidden) for c in schema)
                return Project(Scan(view.id, view.schema), tuple(items))
    return None


def _has_each_once(view: View, schema: Schema, names: dict[str, str]) -> bool:
    """Return whether the view has the relation's key. A join that multiplies rows would add columns to the key."""
    return bool(schema.key) and set(view.schema.key or ()) == {names[n] for n in schema.key or ()}


def _unchanged_columns(catalog: Catalog, node: Node, id_: str) -> dict[str, str]:
    """Return a relation's columns that an operator passes on unchanged, by new name; {} if it may drop rows."""
    if isinstance(node, Scan):
        if node.relation == id_:
            return {n: n for n in node.schema.names}
        below = catalog.views.get(node.relation)
        return _unchanged_columns(catalog, below.plan, id_) if below is not None else {}
    if isinstance(node, Project):
        under = _unchanged_columns(catalog, node.inputs[0], id_)
        there = {i.expr.name: i.name for i in node.items if isinstance(i.expr, exp.Column)}
        return {name: there[n] for name, n in under.items() if n in there}
    if isinstance(node, Join) and node.kind == JoinKind.LEFT:
        return _unchanged_columns(catalog, node.inputs[0], id_)
    return {}


def why_not_stored(catalog: Catalog, id_: str) -> str:
    """Return a sentence that the rows of a relation are not stored, and why."""
    name = catalog.name_of(id_) if catalog.find(id_) else id_
    if any(part.startswith("_") for part in name.split(".")):
        return f"the rows of `{name}` are not stored: it is private"
    if "~" in id_:
        return (
            f"the rows of `{name}` from before the script redefined it are not stored (use two names to keep "
            "both: IMPORT ... AS)"
        )
    return f"the rows of `{name}` are not stored"


def retention_text(keep: timedelta) -> str:
    """Return how long an input keeps its rows, as a text such as `30 days` or `1 day, 2:00:00`."""
    return str(keep).removesuffix(", 0:00:00")
