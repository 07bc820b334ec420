"""The part of a catalog that a role sees.

In: a catalog, a `Grant`. Out: a catalog without the relations, columns, relationships, templates and inputs that are
hidden from the role. So they are not in the API's model. Row conditions are part of each statement
(`Read.row_conditions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import takewhile

from belvedere.catalog.access import Access, Grant, Right
from belvedere.catalog.catalog import Catalog
from belvedere.catalog.views import View
from belvedere.schema import Schema


def role_catalog(catalog: Catalog, grant: Grant) -> Catalog:
    """Return the part of a catalog that a role sees."""
    relations = grant.relations if Right.READ in grant.rights else frozenset()
    pushes = grant.pushes if Right.PUSH in grant.rights else frozenset()
    hidden, public = grant.hidden, catalog.public & relations
    inputs = {
        i: replace(t, schema=_without(t.schema, hidden.get(i)))
        for i, t in catalog.inputs.items()
        if i in public | pushes
    }
    views = {i: _role_view(v, public, hidden) for i, v in catalog.views.items() if i in public}
    events = {
        i: replace(s, schema=_without(s.schema, hidden.get(i))) for i, s in catalog.subscriptions.items() if i in public
    }
    links = (r for r in catalog.relationships if {r.owner, r.target} <= public and not r.reads_any(hidden))
    return replace(
        catalog,
        inputs=inputs,
        views=views,
        subscriptions=events,
        relationships=tuple(r for r in links if r.name not in hidden.get(r.owner, ())),
        templates={n: t for n, t in catalog.templates.items() if n in grant.templates and relations},
        exports=(),
        public=public,
        access=Access(grant=replace(grant, relations=relations, pushes=pushes)),
    )


def _without(schema: Schema, columns: frozenset[str] | None) -> Schema:
    """Return the schema with these columns hidden: plans can use them, but no client sees them."""
    if not columns:
        return schema
    return Schema(tuple(replace(c, hidden=c.hidden or c.name in columns) for c in schema), schema.key)


def _role_view(view: View, public: frozenset[str], hidden: Mapping[str, frozenset[str]]) -> View:
    """Return a view without hidden columns.

    Its order ends before the first hidden column, and a parent that the role does not see is removed.
    """
    own = hidden.get(view.id, frozenset())
    order = tuple(takewhile(lambda o: o.expr.name not in own, view.order))
    parent = view.parent if view.parent in public else None
    theirs = hidden.get(parent or "", frozenset())
    if view.name.rpartition(".")[2] in theirs or any(o in own or t in theirs for o, t in view.parent_key):
        parent = None
    return replace(view, schema=_without(view.schema, own), order=order, parent=parent)
