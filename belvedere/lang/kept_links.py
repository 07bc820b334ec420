"""Keep the rows of a relationship as a table under its owner, for an API that cannot compute the relationship when it reads.

In: a catalog and one of its relationships (`T.r := JOIN X x ON ... ORDER BY ... LIMIT n`). Out: the catalog with a nested table `T.r` that
has the columns of X, hidden ones for the owner's key and for what the rows are ordered by, and the relationships of X. Which relationships
need that is decided by the caller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from sqlglot import exp

from belvedere.catalog import Catalog, Relationship, View
from belvedere.functions.types import Typed
from belvedere.lang.definitions import OWNER, TARGET
from belvedere.lang.script_lowering import finish_plan
from belvedere.lang.types.infer import Inference
from belvedere.plan.expressions import column, conjunction
from belvedere.plan.keys import unused_name
from belvedere.plan.nodes import Expr, Item, Join, JoinKind, Node, Order, Project, Scan, TopK
from belvedere.schema import Column, Schema

ORDER = "_order"


def keep_link(catalog: Catalog, relationship: Relationship) -> Catalog:
    """The catalog with the relationship's rows as a table; unchanged where the table's name is taken."""
    owner, target = catalog.schema_of(relationship.owner), catalog.schema_of(relationship.target)
    id_ = f"{catalog.name_of(relationship.owner)}.{relationship.name}"
    if catalog.find(id_) is not None:
        return catalog
    related, orders = _related(relationship, owner, target)
    items, pairs, names = _items(related.schema, owner, target)
    kept_order = []
    for n, order in enumerate(orders, 1):
        item = _item(unused_name(f"{ORDER}{n}", {i.name for i in items}), order.expr, related.schema)
        items.append(item)
        kept_order.append(replace(order, expr=column(item.name)))
    plan = finish_plan(Project(related, tuple(items)))
    name = ".".join(f"`{part}`" for part in id_.split("."))
    sql = f"{name} := SELECT x.* FROM {OWNER}.`{relationship.name}` x"
    span, doc = relationship.span, relationship.doc
    view = View(id_, id_, plan, plan.schema, span, doc, relationship.owner, pairs, sql)
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


def _related(relationship: Relationship, owner: Schema, target: Schema) -> tuple[Node, list[Order]]:
    """The rows of the owner beside their related rows, as `_.column` and `target.column`; and the order of these."""
    left, right = _side(relationship.owner, owner, OWNER), _side(relationship.target, target, TARGET)

    def over(expr: Expr) -> Expr:
        def change(node: Expr) -> Expr:
            if not isinstance(node, exp.Column):
                return node
            return column(f"{OWNER}.{owner[node.name].name}" if node.table == OWNER else f"{TARGET}.{target[node.name].name}")

        return expr.copy().transform(change)

    equal = [
        exp.EQ(this=column(f"{TARGET}.{target[theirs].name}"), expression=column(f"{OWNER}.{owner[own].name}"))
        for own, theirs in relationship.pairs
    ]
    rest = [] if relationship.residual is None else [over(relationship.residual)]
    orders = [replace(o, expr=over(o.expr)) for o in relationship.order]
    joined: Node = Join(left, right, JoinKind.INNER, conjunction([*equal, *rest]))
    if relationship.limit is not None:
        joined = TopK(joined, tuple(orders), relationship.limit, partition=left.schema.key or ())
    return joined, orders


def _side(relation: str, schema: Schema, prefix: str) -> Node:
    items = (Item(f"{prefix}.{c.name}", column(c.name), c.type, c.nullable, c.hidden, c.doc) for c in schema)
    return Project(Scan(relation, schema), tuple(items))


def _items(joined: Schema, owner: Schema, target: Schema) -> tuple[list[Item], tuple[tuple[str, str], ...], dict[str, str]]:
    """The target's columns, the owner's key and the target's; the pairs of the former key with the owner's columns; and what
    the target's columns are called here.
    """
    items = []
    for c in target.visible:
        items.append(Item(c.name, column(joined[f"{TARGET}.{c.name}"].name), c.type, c.nullable, doc=c.doc))
    names = {c.name: c.name for c in target.visible}

    def key(side: str, c: Column) -> str:
        own = unused_name(c.name, {i.name for i in items})
        items.append(Item(own, column(f"{side}.{c.name}"), c.type, c.nullable, hidden=True))
        return own

    pairs = tuple((key(OWNER, owner[k]), owner[k].name) for k in owner.key or ())
    names |= {k: key(TARGET, target[k]) for k in target.key or () if k not in names}
    return items, pairs, names


def _item(name: str, expr: Expr, schema: Schema) -> Item:
    typed = Inference({c.name: Typed(c.type, c.nullable) for c in schema}).typed(expr)
    return Item(name, expr.copy(), typed.type, typed.nullable, hidden=True)


def _onward(catalog: Catalog, target: str) -> Iterator[Relationship]:
    """The relationships of the target, and its nested tables as relationships."""
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
    """The relationship from the rows of another owner, whose columns are called as `names` say; None where one is not there."""
    exprs = [e for e in (relationship.residual, *(o.expr for o in relationship.order)) if e is not None]
    read = {c.name for e in exprs for c in e.find_all(exp.Column) if c.table == OWNER} | {own for own, _ in relationship.pairs}
    if relationship.kept is not None or not read <= names.keys():
        return None

    def renamed(node: Expr) -> Expr:
        if not isinstance(node, exp.Column) or node.table != OWNER:
            return node
        return exp.Column(this=exp.to_identifier(names[node.name], quoted=True), table=exp.to_identifier(OWNER))

    residual = None if relationship.residual is None else relationship.residual.copy().transform(renamed)
    order = tuple(replace(o, expr=o.expr.copy().transform(renamed)) for o in relationship.order)
    pairs = tuple((names[own], theirs) for own, theirs in relationship.pairs)
    return replace(relationship, owner=owner, pairs=pairs, residual=residual, order=order)


__all__ = ["keep_link"]
