"""Relationships and paths: `s.readings`, `_.sensors.lastReading` as joins.

In: a relationship's definition and the FROM item that it starts from. Out: the join, in the frame's plan, and the FROM item at
its end. A relationship with LIMIT joins the first n rows per row of its owner (SQRL, 'Relationships and Local Scopes').
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from belvedere.lang.definitions import OWNER, TARGET, Definitions, NamedRelation, RelationshipDefinition
from belvedere.lang.names import did_you_mean
from belvedere.lang.select.frame import Frame, StatementContext, named_source, scan
from belvedere.lang.select.scope import FromItem
from belvedere.plan.expressions import column, conjunction
from belvedere.plan.keys import carry_keys
from belvedere.plan.nodes import Expr, Filter, JoinKind, Node, Order, TopK


def find_relationship(context: StatementContext, owner: FromItem, name: exp.Identifier) -> RelationshipDefinition:
    """The relationship of a FROM item, or a diagnostic."""
    relation = owner.relation
    found = context.definitions.relations[relation.id].relationship(name.name) if relation is not None else None
    if found is not None:
        return found
    known = [r.name for r in relation.relationships.values()] if relation is not None else []
    if owner.find(name.name) is not None:
        hint = f"use `{owner.alias}.{name.name}` in an expression"
        raise context.fail("B4002", f"`{name.name}` is a column of `{owner.alias}`, not a relationship", name, hint)
    if not known:
        hint = f"define one: `{relation.name if relation else owner.alias}.{name.name} := JOIN ... ON ...`"
    else:
        hint = did_you_mean(name.name, known) or ""
    raise context.fail("B4001", f"`{owner.alias}` has no relationship `{name.name}`", name, hint)


def follow_path(
    frame: Frame, owner: FromItem, names: Sequence[exp.Identifier], alias: str | None, kind: JoinKind
) -> tuple[FromItem, list[Expr]]:
    """Join a path, step by step. Steps from an item of the query around give conditions on outer columns instead of a join."""
    conditions: list[Expr] = []
    source = owner
    for n, name in enumerate(names):
        last = n == len(names) - 1
        definition = find_relationship(frame.context, source, name)
        shown = alias if last and alias else name.name
        source, condition = join_relationship(frame, source, definition, shown, kind, addressable=last)
        conditions += condition
    return source, conditions


def join_relationship(
    frame: Frame, owner: FromItem, definition: RelationshipDefinition, alias: str, kind: JoinKind, *, addressable: bool = True
) -> tuple[FromItem, list[Expr]]:
    """One step of a path."""
    context = frame.context
    relation = present_target(context.definitions, definition)
    right, target = named_source(scan(relation), alias, context.names, relation, addressable=addressable)
    pairs = [_pair(owner, target, o, t) for o, t in definition.pairs]
    residual = [rebind(c, owner, target) for c in definition.residual]
    own = {c.internal for c in target.columns}
    local = [c for c in residual if all(x.name in own for x in c.find_all(exp.Column))]
    mixed = [c for c in residual if c not in local]
    local_condition = conjunction(local)
    if local_condition is not None:
        right = Filter(right, local_condition)
    order = tuple(Order(rebind(o.expr, owner, target), o.descending, o.nulls_first) for o in definition.order)
    limited = definition.limit is not None
    by_row = limited and (bool(mixed) or any(x.name not in own for o in order for x in o.expr.find_all(exp.Column)))
    if limited and not by_row:
        partition = tuple(target_column(target, t) for _, t in definition.pairs)
        key = right.schema.key
        if not definition.limit or key is None or not set(key) <= set(partition):  # else each row is alone, as a parent is
            right = TopK(right, order, definition.limit, partition=partition)
    outer = frame.empty or not any(c.internal in frame.plan.schema.names for c in owner.columns)
    frame.scope.sources.append(target)
    if outer:
        reads = {x.name for p in (*pairs, *mixed, *(o.expr for o in order)) for x in p.find_all(exp.Column)}
        frame.scope.used.update({c.internal: c for c in owner.columns if c.internal in reads})
        frame.open |= by_row
        _start(frame, right)
        return target, [*pairs, *mixed]
    if by_row:
        return _limited(frame, right, kind, conjunction([*pairs, *mixed]), order, definition, target)
    frame.join(right, kind, conjunction([*pairs, *mixed]))
    return target, []


def present_target(definitions: Definitions, definition: RelationshipDefinition) -> NamedRelation:
    """The relation at the end: what its name means now, so long as the columns of the join are still there."""
    then = definitions.relations[definition.target]
    now = definitions.latest(then)
    exprs = [*definition.residual, *(o.expr for o in definition.order)]
    used = {t for _, t in definition.pairs} | {c.name for e in exprs for c in e.find_all(exp.Column) if c.table == TARGET}
    return now if all(now.schema.find(name) is not None for name in used) else then


def _limited(
    frame: Frame,
    right: Node,
    kind: JoinKind,
    condition: Expr | None,
    order: tuple[Order, ...],
    definition: RelationshipDefinition,
    target: FromItem,
) -> tuple[FromItem, list[Expr]]:
    """The first n matches per row so far: joined first, then cut."""
    if frame.plan.schema.key is None:
        frame.plan = carry_keys(frame.plan)
    partition = frame.plan.schema.key or ()
    frame.join(right, kind, condition)
    frame.plan = TopK(frame.plan, order, definition.limit, partition=partition)
    return target, []


def _start(frame: Frame, right: Node) -> None:
    if frame.empty:
        frame.plan = right
    else:
        frame.join(right, JoinKind.INNER, None)


def _pair(owner: FromItem, target: FromItem, left: str, right: str) -> Expr:
    return exp.EQ(this=column(target_column(target, right)), expression=column(target_column(owner, left)))


def target_column(source: FromItem, name: str) -> str:
    """The internal name of a FROM item's column."""
    found = source.find(name)
    if found is None:
        raise KeyError(name)
    return found.internal


def rebind(expr: Expr, owner: FromItem, target: FromItem) -> Expr:
    """A relationship's expression (`_.x`, `target.y`) over two FROM items."""

    def change(node: Expr) -> Expr:
        if isinstance(node, exp.Column):
            source = owner if node.table == OWNER else target
            return column(target_column(source, node.name))
        return node

    return expr.copy().transform(change)


def relationship_column(side: str, name: str) -> exp.Column:
    """`_.name` or `target.name`, as definitions and the catalog have them."""
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(side))


__all__ = ["OWNER", "TARGET", "find_relationship", "follow_path", "join_relationship", "rebind", "relationship_column"]
