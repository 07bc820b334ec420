"""Storage of a relationship's rows as a nested table of its owner, for an API that cannot compute the relationship at
read time.

In: a catalog and one of its relationships (`T.r := JOIN X x ON ... ORDER BY ... LIMIT n`). Out: the catalog with a
nested table `T.r`. It has the columns of X, hidden ones for the owner's key and the sort keys, and the relationships of
X. The caller selects the relationships.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from sqlglot import exp

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.relationships import OWNER, TARGET, Relationship, relationship_column
from belvedere.catalog.resolved_query import ResolvedPath, ResolvedQuery
from belvedere.catalog.views import View
from belvedere.functions.spark_types import Typed
from belvedere.lang.relationships.path_aggregates import over_path
from belvedere.lang.statements.script_lowering import finish_plan
from belvedere.lang.types.infer import Inference
from belvedere.plan.expressions import column, conjunction
from belvedere.plan.operators.nodes import Expr, Item, Join, JoinKind, Node, Order, Project, Scan, TopK
from belvedere.plan.operators.project import item_of
from belvedere.plan.unused_names import unused_name
from belvedere.schema import Column, Schema

ORDER = "_order"


def keep_link(catalog: Catalog, relationship: Relationship) -> Catalog:
    """Return the catalog with the relationship's rows as a table; unchanged if the table's name is taken."""
    owner, target = catalog.schema_of(relationship.owner), catalog.schema_of(relationship.target)
    id_ = f"{catalog.name_of(relationship.owner)}.{relationship.name}"
    if catalog.find(id_) is not None:
        return catalog
    related, orders = _related(relationship, owner, target)
    items, pairs, names = _items(owner, target)
    kept_order = []
    for n, order in enumerate(orders, 1):
        item = _item(unused_name(f"{ORDER}{n}", {i.name for i in items}), order.expr, related.schema)
        items.append(item)
        kept_order.append(replace(order, expr=column(item.name)))
    plan = finish_plan(Project(related, tuple(items)))
    name = ".".join(f"`{part}`" for part in id_.split("."))
    sql = f"{name} := SELECT x.* FROM {OWNER}.`{relationship.name}` x"
    span, doc = relationship.span, relationship.doc
    query = _query(relationship)
    view = View(id_, id_, plan, plan.schema, span, doc, relationship.owner, pairs, sql, query=query)
    kept = replace(relationship, kept=id_, kept_order=tuple(kept_order))
    links = tuple(kept if r is relationship else r for r in catalog.relationships)
    onward = tuple(m for r in _onward(catalog, relationship.target) if (m := _moved(r, id_, names)) is not None)
    histories = dict(catalog.histories)
    if relationship.owner in histories and relationship.target in histories:
        spans = [k for k in (histories[relationship.owner], histories[relationship.target]) if k is not None]
        histories[id_] = min(spans, default=None)
    return replace(
        catalog,
        views={**catalog.views, id_: view},
        relationships=links + onward,
        public=catalog.public | {id_},
        histories=histories,
    )


def _query(relationship: Relationship) -> ResolvedQuery:
    """Return the query that computes the rows."""
    name = exp.to_identifier(relationship.name, quoted=True)
    name.meta["start"] = 0
    rows = over_path([exp.to_identifier(OWNER), name], exp.Star(), name)
    return ResolvedQuery(rows, {0: ResolvedPath(OWNER, steps=(relationship,))}, "", relationship.owner)


def _related(relationship: Relationship, owner: Schema, target: Schema) -> tuple[Node, tuple[Order, ...]]:
    """Return the owner's rows joined with their related rows, as `_.column` and `target.column`, and the order of
    these."""
    left, right = _side(relationship.owner, owner, OWNER), _side(relationship.target, target, TARGET)

    def own(side: str, name: str) -> exp.Column:
        return column(f"{side}.{(owner if side == OWNER else target)[name].name}")

    bound = relationship.over(lambda c: own(c.table, c.name))
    equal = [exp.EQ(this=own(TARGET, theirs), expression=own(OWNER, ours)) for ours, theirs in bound.pairs]
    rest = [] if bound.residual is None else [bound.residual]
    joined: Node = Join(left, right, JoinKind.INNER, conjunction([*equal, *rest]))
    if bound.limit is not None:
        joined = TopK(joined, bound.order, bound.limit, partition=left.schema.key or (), alike=left.schema.names)
    return joined, bound.order


def _side(relation: str, schema: Schema, prefix: str) -> Node:
    return Project(Scan(relation, schema), tuple(item_of(c, f"{prefix}.{c.name}") for c in schema))


def _items(owner: Schema, target: Schema) -> tuple[list[Item], tuple[tuple[str, str], ...], dict[str, str]]:
    """Return the target's columns with both keys; the pairs of the owner's key with the owner's columns; and the names
    of the target's columns in the new table."""
    items = [replace(item_of(c), expr=column(f"{TARGET}.{c.name}")) for c in target.visible]
    names = {c.name: c.name for c in target.visible}

    def key(side: str, c: Column) -> str:
        own = unused_name(c.name, {i.name for i in items})
        items.append(replace(item_of(c, own, hidden=True), expr=column(f"{side}.{c.name}")))
        return own

    pairs = tuple((key(OWNER, owner[k]), owner[k].name) for k in owner.key or ())
    names |= {k: key(TARGET, target[k]) for k in target.key or () if k not in names}
    return items, pairs, names


def _item(name: str, expr: Expr, schema: Schema) -> Item:
    typed = Inference({c.name: Typed(c.type, c.nullable) for c in schema}).typed(expr)
    return Item(name, expr.copy(), typed.type, typed.nullable, hidden=True)


def _onward(catalog: Catalog, target: str) -> Iterator[Relationship]:
    """Yield the relationships of the target, and its nested tables as relationships."""
    named = set()
    for relationship in catalog.relationships:
        if relationship.owner == target:
            named.add(relationship.name.casefold())
            yield relationship
    for view in catalog.views.values():
        name = view.name.rpartition(".")[2]
        if view.parent == target and name.casefold() not in named:
            yield Relationship(target, name, view.id, tuple((theirs, own) for own, theirs in view.parent_key))


def _moved(relationship: Relationship, owner: str, names: Mapping[str, str]) -> Relationship | None:
    """Return the relationship for another owner, whose column names are in `names`; None if one is missing."""
    read = relationship.columns_of(OWNER) | {own for own, _ in relationship.pairs}
    if relationship.kept is not None or not read <= names.keys():
        return None
    moved = relationship.over(lambda c: relationship_column(OWNER, names[c.name]) if c.table == OWNER else c)
    return replace(moved, owner=owner, pairs=tuple((names[own], theirs) for own, theirs in relationship.pairs))
