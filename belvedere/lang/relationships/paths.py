"""Relationships and paths: `s.readings`, `_.sensors.lastReading` as joins.

In: a relationship's definition and the FROM item that it starts from. Out: the join, in the frame's plan, and the FROM
item at its end. A relationship with LIMIT joins the first n rows per row of its owner (SQRL, 'Relationships and Local
Scopes').
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from belvedere.catalog.relationships import OWNER, Relationship
from belvedere.catalog.resolved_query import ResolvedPath
from belvedere.errors import BelvedereError
from belvedere.lang.names.scope import FromItem
from belvedere.lang.select.query_frame import Frame, StatementContext, named_source, scan
from belvedere.plan.expressions import column, columns_of, conjunction, conjuncts
from belvedere.plan.operators.nodes import Expr, Filter, JoinKind, TopK
from belvedere.plan.rewrites.keys import carry_keys
from belvedere.syntax.wording import did_you_mean


def find_relationship(context: StatementContext, owner: FromItem, name: exp.Identifier) -> Relationship:
    """Return the relationship of a FROM item. Raises a diagnostic if there is none."""
    relation = owner.starts
    found = context.definitions.relations[relation.id].relationship(name.name) if relation is not None else None
    computed = relation is not None and context.definitions.computed_of(relation, name.name) is not None
    if computed or (found is not None and found.parameters):
        raise only_requests(context, name)
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


def only_requests(context: StatementContext, name: exp.Identifier) -> BelvedereError:
    """Return the error for a path over a relationship with parameters."""
    hint = "write its join here, or define a relationship without parameters"
    return context.fail("B4042", f"`{name.name}` takes parameters, which only API requests provide", name, hint)


def follow_path(
    frame: Frame, owner: FromItem, names: Sequence[exp.Identifier], alias: str | None, kind: JoinKind
) -> tuple[FromItem, list[Expr]]:
    """Join a path, step by step. Steps from an item of the outer query give conditions on outer columns instead of a
    join."""
    conditions: list[Expr] = []
    steps: list[Relationship] = []
    source = owner
    for n, name in enumerate(names):
        last = n == len(names) - 1
        steps.append(frame.context.definitions.as_seen(find_relationship(frame.context, source, name)))
        shown = alias if last and alias else name.name
        source, condition = join_relationship(frame, source, steps[-1], shown, kind, addressable=last)
        conditions += condition
    relation = owner.relation.id if owner.relation is not None and not owner.addressable else None
    frame.context.resolved(names, ResolvedPath(owner.alias, relation, tuple(steps)))
    return source, conditions


def join_relationship(
    frame: Frame, owner: FromItem, definition: Relationship, alias: str, kind: JoinKind, *, addressable: bool = True
) -> tuple[FromItem, list[Expr]]:
    """Join one step of a path: a relationship as the query sees it."""
    context = frame.context
    relation = context.definitions.relations[definition.target]
    right, target = named_source(scan(relation), alias, context.names, relation, addressable=addressable)
    bound = definition.over(lambda c: column(target_column(owner if c.table == OWNER else target, c.name)))
    own = {c.internal for c in target.columns}
    local = conjunction(c for c in conjuncts(bound.residual) if columns_of(c) <= own)
    mixed = [c for c in conjuncts(bound.residual) if not columns_of(c) <= own]
    if local is not None:
        right = Filter(right, local)
    limited = bound.limit is not None
    by_row = limited and (bool(mixed) or not all(columns_of(o.expr) <= own for o in bound.order))
    if limited and not by_row:
        partition = tuple(target_column(target, t) for _, t in bound.pairs)
        key = right.schema.key
        # otherwise each row is its own partition, as a parent is
        if not bound.limit or key is None or not set(key) <= set(partition):
            right = TopK(right, bound.order, bound.limit, partition=partition)
    linked = ((column(target_column(target, t)), column(target_column(owner, o))) for o, t in bound.pairs)
    conditions = [*(exp.EQ(this=theirs, expression=own) for theirs, own in linked), *mixed]
    outer = frame.empty or not any(c.internal in frame.plan.schema.names for c in owner.columns)
    frame.scope.sources.append(target)
    if outer:
        reads = {name for e in (*conditions, *(o.expr for o in bound.order)) for name in columns_of(e)}
        frame.scope.hand_on(owner, [c for c in owner.columns if c.internal in reads])
        frame.open |= by_row
        if frame.empty:
            frame.plan = right
        else:
            frame.join(right, JoinKind.INNER, None)
        return target, conditions
    if by_row and frame.plan.schema.key is None:
        frame.plan = carry_keys(frame.plan)
    rows, own_names = frame.plan.schema.key or (), frame.plan.schema.names
    frame.join(right, kind, conjunction(conditions))
    if by_row:  # the first n matches per row: joined first, then limited
        frame.plan = TopK(frame.plan, bound.order, bound.limit, partition=rows, alike=own_names)
    return target, []


def target_column(source: FromItem, name: str) -> str:
    """Return the internal name of a FROM item's column."""
    found = source.find(source.behind.get(name, name))
    if found is None:
        raise KeyError(name)
    return found.internal
