"""Outer joins without an equality, as their pairs plus the rows without a pair; and joins with a side that always has
exactly one row.

In: a LEFT, RIGHT or FULL join. Out: an equivalent plan over the stored pairs, in which only changed rows are joined, or
an inner join. SEMI and ANTI joins are split in this way only if their right side has at most one row (NOT IN tests for
a NULL, EXISTS tests for any row). Otherwise they can have far more pairs than rows.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from sqlglot import exp

from belvedere.plan.expressions import column, conjunction
from belvedere.plan.operators.join import equalities
from belvedere.plan.operators.nodes import (
    Aggregate,
    Distinct,
    Expr,
    Filter,
    Item,
    Join,
    JoinKind,
    Node,
    Project,
    Scan,
    Union,
)
from belvedere.plan.operators.project import item_of
from belvedere.plan.plan_properties import needs_clock
from belvedere.plan.unused_names import unused_name
from belvedere.rules.builder import Builder
from belvedere.rules.rule import Maintain, Rule, Site
from belvedere.schema import TIMESTAMP, Column

OUTER = (JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL)


def _with_certain_row(builder: Builder, join: Join) -> Join:
    """Turn a LEFT JOIN ON TRUE with a global aggregate, which always has exactly one row, into an inner join."""
    certain = join.kind is JoinKind.LEFT and _is_true(join.condition) and _has_one_row(builder, join.right)
    return replace(join, kind=JoinKind.INNER) if certain else join


def _is_true(condition: Expr | None) -> bool:
    return condition is None or (isinstance(condition, exp.Boolean) and bool(condition.this))


def _has_one_row(builder: Builder, node: Node) -> bool:
    while isinstance(node, Project | Scan):
        if isinstance(node, Project):
            node = node.input
            continue
        view = builder.catalog.views.get(node.relation)
        if view is None:
            return False
        node = view.plan
    return isinstance(node, Aggregate) and not node.keys and node.grouping_sets is None


def _can_split(join: Join) -> bool:
    """Return whether it is better to maintain the join's pairs: it has no equality for a look-up, and its rows are
    identified by a key."""
    keyed = all(i.schema.key for i in join.inputs)
    return join.kind in OUTER and keyed and not equalities(join) and not needs_clock(join)


def _can_split_existence(builder: Builder, join: Join) -> bool:
    """Return whether a SEMI or ANTI join with at most one right row can be split."""
    existence = join.kind in (JoinKind.SEMI, JoinKind.ANTI) and all(i.schema.key for i in join.inputs)
    if (
        not existence
        or equalities(join)
        or needs_clock(join)
        or set(join.left.schema.names) & set(join.right.schema.names)
    ):
        return False
    return _has_one_row_at_most(builder, join.right)


def _has_one_row_at_most(builder: Builder, node: Node) -> bool:
    """Return whether a node has at most one row: `SELECT DISTINCT 1`, or a global aggregate."""
    while isinstance(node, Filter):
        node = node.input
    if isinstance(node, Distinct):
        return all(_is_constant(node.input, n) for n in node.schema.names)
    return _has_one_row(builder, node)


def _is_constant(node: Node, name: str) -> bool:
    """Return whether a column has the same value in every row."""
    if isinstance(node, Filter):
        return _is_constant(node.input, name)
    if not isinstance(node, Project):
        return False
    expr = next(i.expr for i in node.items if i.name == name)
    return isinstance(expr, exp.Literal) or (isinstance(expr, exp.Column) and _is_constant(node.input, expr.name))


def _split_existence(builder: Builder, join: Join, owner: str) -> Node:
    """Return the rows with a pair, or those without. A row has at most one pair."""
    inner = builder.shared(replace(join, kind=JoinKind.INNER, there=None), owner)
    pairs = Scan(inner.name, inner.schema)
    if join.kind is JoinKind.ANTI:
        return _alone(join, join.left, pairs, frozenset())
    return Union((Project(pairs, tuple(item_of(c) for c in join.schema)),), key=join.schema.key)


def _split_outer(builder: Builder, join: Join, owner: str) -> Node:
    """Return the pairs as a relation of their own, and the rows of a side that are in no pair."""
    inner = builder.shared(replace(join, kind=JoinKind.INNER, there=None), owner)
    pairs = Scan(inner.name, inner.schema)
    times = frozenset(n for n in builder.bounds().get(inner.name, {}) if inner.schema[n].type == TIMESTAMP)
    branches: list[Node] = [Project(pairs, _items(join, set(pairs.schema.names), True))]
    if join.kind in (JoinKind.LEFT, JoinKind.FULL):
        branches.append(_alone(join, join.left, pairs, times))
    if join.kind in (JoinKind.RIGHT, JoinKind.FULL):
        branches.append(_alone(join, join.right, pairs, times))
    return Union(tuple(branches), key=join.schema.key)


def _alone(join: Join, side: Node, pairs: Scan, times: frozenset[str]) -> Node:
    """Return the rows of a side without a pair, with NULLs for the other side's columns.

    Times with a bound are compared in addition to the key, which decides. They limit how old the pairs are that future
    rows can match.
    """
    taken = set(side.schema.names)
    items, tests = [], []
    for name in dict.fromkeys((*(side.schema.key or ()), *(n for n in side.schema.names if n in times))):
        c = side.schema[name]
        fresh = unused_name(name, taken)
        taken.add(fresh)
        items.append(Item(fresh, column(name), c.type, c.nullable, hidden=True))
        tests.append(exp.NullSafeEQ(this=column(name), expression=column(fresh)))
    alone = Join(side, Project(pairs, tuple(items)), JoinKind.ANTI, conjunction(tuple(tests)))
    return Project(alone, _items(join, set(side.schema.names), side is join.left))


def _items(join: Join, own: set[str], there: bool) -> tuple[Item, ...]:
    """Return the join's columns over the columns of one side, with NULL for the others."""

    def value(c: Column) -> Expr:
        if c.name == join.there:
            return exp.true() if there else exp.Null()
        return column(c.name) if c.name in own else exp.Null()

    return tuple(replace(item_of(c), expr=value(c)) for c in join.schema)


def _applies(site: Site) -> Maintain | None:
    top, builder = site.top, site.builder
    if not isinstance(top, Join):
        return None
    inner = _with_certain_row(builder, top)
    if inner is not top:
        return partial(site.maintain, inner)
    if _can_split(top):
        return lambda: site.maintain(_split_outer(builder, top, site.part.owner))
    if _can_split_existence(builder, top):
        return lambda: site.maintain(_split_existence(builder, top, site.part.owner))
    return None


OUTER_JOIN = Rule("outer join", _applies)
