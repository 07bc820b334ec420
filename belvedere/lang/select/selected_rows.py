"""Subqueries of FROM and names of WITH that select rows of one relation: paths may begin at these rows.

In: the plan of the subquery. Out: the plan with the columns that relationships read, hidden if the subquery omits them,
and its FROM item. A subquery that groups, joins or combines has new rows, without relationships.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from belvedere.catalog.relationships import OWNER
from belvedere.lang.names.definitions import NamedRelation
from belvedere.lang.names.scope import FromItem
from belvedere.lang.select.query_frame import Frame, named_source
from belvedere.plan.operators.nodes import Filter, Node, Project, Scan, TopK
from belvedere.plan.operators.project import item_of
from belvedere.plan.rewrites.rewrite import carry

BEHIND = "~row"
"""Suffix of the name of a column that only relationships read."""


def selected_rows(frame: Frame, node: Node, item: exp.Expr, alias: str) -> tuple[Node, FromItem]:
    """Return the rows of a query under an alias, with the relationships that the outer query names."""
    found = _origin(frame, node, item)
    if found is None:
        return named_source(node, alias, frame.context.names)
    relation, scan = found
    read = sorted(
        {name for r in relation.relationships.values() for name in (*r.columns_of(OWNER), *(own for own, _ in r.pairs))}
    )
    shown = set(node.schema.names)
    carried, names = carry(node, scan, tuple(item_of(scan.schema[n], hidden=True) for n in read))
    named, source = named_source(carried, alias, frame.context.names)
    hidden = {n for n in names if n not in shown}
    columns = tuple(replace(c, name=c.name + BEHIND) if c.name in hidden else c for c in source.columns)
    behind = {own: name + BEHIND if name in hidden else name for own, name in zip(read, names, strict=True)}
    return named, replace(source, columns=columns, rows_of=relation, behind=behind)


def _origin(frame: Frame, node: Node, item: exp.Expr) -> tuple[NamedRelation, Scan] | None:
    """Return the relation whose rows a plan only filters, orders and extends, if the outer query names a relationship
    of it."""
    while isinstance(node, Project | Filter | TopK):
        node = node.input
    relation = frame.context.definitions.relations.get(node.relation) if isinstance(node, Scan) else None
    query = item.find_ancestor(exp.Select)
    if relation is None or query is None or not isinstance(node, Scan):
        return None
    said = {i.name.casefold() for i in query.find_all(exp.Identifier)}
    return (relation, node) if said & relation.relationships.keys() else None
