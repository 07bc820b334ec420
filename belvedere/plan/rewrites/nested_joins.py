"""Rewrite: a join of a table with its own nested rows becomes an unnest, without a join.

In: a tree, and the plans of views that it scans. Out: an equivalent tree with the same keys. `FROM T t JOIN t.items i`
and `FROM T.items i JOIN i.parent t` unnest T. A further `JOIN i.parts p` unnests twice. `LEFT JOIN t.items i` keeps a
row of T without items. Nothing is looked up, and the times of T's rows keep their bounds. Outer joins of deeper levels
stay joins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from belvedere.plan.expressions import column, columns_of, conjunction, conjuncts, equated, replace_columns
from belvedere.plan.operators.nodes import Expr, Filter, Item, Join, JoinKind, Node, Project, Scan, Unnest
from belvedere.plan.operators.project import item_of, keep_columns
from belvedere.plan.plan_properties import is_linear, needs_clock
from belvedere.plan.rewrites.rewrite import carry, plain_columns, push_down, replace_node

Definition = Callable[[str], Node | None]
"""Function that returns the plan of a view by its id; None for anything else."""


def join_nested(node: Node, definition: Definition) -> Node:
    """Return the same relation, with nested rows read from their parents' rows."""
    deep = _deeper(node, definition) if isinstance(node, Join) else None
    if deep is not None:
        return deep
    node = node.with_inputs(tuple(join_nested(i, definition) for i in node.inputs))
    if isinstance(node, Join) and node.kind is JoinKind.LEFT:
        return _with_empty(node, definition) or node
    if not isinstance(node, Join) or node.kind is not JoinKind.INNER:
        return node
    for parent, nested in ((node.left, node.right), (node.right, node.left)):
        found = _nested_rows(nested, definition)
        made = None if found is None else _beside(node, parent, found)
        if made is not None and made.schema.key == node.schema.key:
            return made
    return node


def _deeper(node: Join, definition: Definition) -> Node | None:
    """Return `(T JOIN items) JOIN parts` as `T JOIN (items JOIN parts)` if that removes all joins; else None."""
    above = node.left
    if not (_is_plain(node) and isinstance(above, Join) and _is_plain(above)):
        return None
    found = _nested_rows(node.right, definition)
    for outer, middle in ((above.left, above.right), (above.right, above.left)):
        base = _bottom(middle)
        if found is None or base is None or base.relation != found.base.relation:
            continue
        reach = {*middle.schema.names, *node.right.schema.names}
        linking = [p for p in conjuncts(node.condition) if columns_of(p) <= reach]
        others = [p for p in conjuncts(node.condition) if p not in linking]
        inner = join_nested(Join(middle, node.right, JoinKind.INNER, conjunction(linking)), definition)
        whole = Join(outer, inner, JoinKind.INNER, conjunction([*conjuncts(above.condition), *others]))
        made = join_nested(whole, definition)
        if not any(isinstance(n, Join) for n in made.walk()) and set(made.schema.key or ()) == set(
            node.schema.key or ()
        ):
            return Project(made, tuple(item_of(made.schema[n]) for n in node.schema.names))
    return None


def _is_plain(join: Join) -> bool:
    return join.kind is JoinKind.INNER and join.versions is None


@dataclass(frozen=True)
class _Nested:
    """A chain of projections and filters over one Unnest of the relation `base`."""

    plan: Node
    base: Scan


def _with_empty(join: Join, definition: Definition) -> Node | None:
    """Return `T LEFT JOIN items` as T unnested, with one row if there are no items: its columns of the items
    are NULL."""
    found = _nested_rows(join.right, definition)
    if found is None or any(isinstance(n, Filter) for n in found.plan.walk()):
        return None
    unnest = next(n for n in found.plan.walk() if isinstance(n, Unnest))
    outer = replace(unnest, outer=True, position=replace(unnest.position, nullable=True))
    made = _beside(join, join.left, replace(found, plan=replace_node(found.plan, unnest, outer)))
    if not isinstance(made, Project):  # conditions beyond the parent's key would drop rows
        return None
    own = {c.name: _unnested(found.plan, c.name) for c in join.right.schema}
    place = next((n for n, source in own.items() if source == unnest.position.name), None)
    if place is None or any(own[n] is None and _source(found.plan, n) is None for n in own):
        return None
    items = tuple(i if i.name not in own else _or_null(i, own[i.name] is None, place) for i in made.items)
    made = replace(made, items=tuple(next(i for i in items if i.name == n) for n in join.schema.names))
    return made if made.schema.key is not None and set(made.schema.key) <= set(join.schema.key or ()) else None


def _or_null(item: Item, of_parent: bool, place: str) -> Item:
    """Return a column of the nested row, NULL if there is none; `place` is the column with its index in the array."""
    expr = item.expr
    if of_parent:
        is_there = exp.Not(this=exp.Is(this=column(place), expression=exp.Null()))
        expr = exp.Case(ifs=[exp.If(this=is_there, true=expr.copy())])
    return replace(item, expr=expr, nullable=True)


def _nested_rows(node: Node, definition: Definition) -> _Nested | None:
    """Return the chain with the scan replaced by the nested table's own plan."""
    scan = _bottom(node)
    plan = definition(scan.relation) if scan is not None else None
    base = _bottom(plan) if plan is not None else None
    if scan is None or plan is None or base is None or sum(isinstance(n, Unnest) for n in plan.walk()) != 1:
        return None
    return _Nested(replace_node(node, scan, keep_columns(plan, scan.schema.names)), base)


def _bottom(node: Node) -> Scan | None:
    while not isinstance(node, Scan):
        if not isinstance(node, (Project, Filter, Unnest)) or not is_linear(node) or needs_clock(node):
            return None
        node = node.input
    return node


def _beside(join: Join, parent: Node, nested: _Nested) -> Node | None:
    """Return the nested rows with the parent's columns; None if the join does not use exactly the parent's
    whole key."""
    base = _bottom(parent)
    if base is None or base.relation != nested.base.relation or any(isinstance(n, Unnest) for n in parent.walk()):
        return None
    requested = tuple(item_of(c) for c in base.schema)
    plan, names = carry(nested.plan, nested.base, requested)
    beside = dict(zip(base.schema.names, (column(n) for n in names), strict=True))
    own = {c.name: replace_columns(push_down(parent, (column(c.name),))[0], beside) for c in parent.schema}
    parts = conjuncts(join.condition)
    same = [p for p in parts if _is_same(p, own, plan)]
    linked = {n for p in same for n, _ in equated(p)}
    if not all(
        any(isinstance(own.get(n), exp.Column) and own[n] == beside[k] for n in linked) for k in base.schema.key or ()
    ):
        return None
    filters = [replace_columns(c, beside) for c in _conditions(parent)]
    kept = tuple(item_of(c) for c in nested.plan.schema)
    items = tuple(replace(item_of(c), expr=own[c.name].copy()) for c in parent.schema)
    condition = conjunction(filters)
    made = Project(plan if condition is None else Filter(plan, condition), (*kept, *items))
    rest = conjunction([p for p in parts if p not in same])
    return made if rest is None else Filter(made, rest)


def _is_same(part: Expr, own: dict[str, Expr], plan: Node) -> bool:
    """Return whether a condition equates a column of the nested row that comes from the parent with the parent's
    column. It is always true.

    Columns that may be NULL are not equal to themselves.
    """
    if not isinstance(part, (exp.EQ, exp.NullSafeEQ)):
        return False
    sides = (part.left, part.right)
    for mine, theirs in (sides, sides[::-1]):
        if not isinstance(mine, exp.Column) or mine.name not in own or not isinstance(theirs, exp.Column):
            continue
        value = own[mine.name]
        if not isinstance(value, exp.Column) or theirs.name not in plan.schema.names:
            continue
        source = _source(plan, theirs.name)
        if source is not None and source == _source(plan, value.name):
            return isinstance(part, exp.NullSafeEQ) or not plan.schema[theirs.name].nullable
    return False


def _unnested(node: Node, name: str) -> str | None:
    """Return the column of an Unnest that a column of the chain over it equals; None for any other."""
    while not isinstance(node, Unnest):
        if isinstance(node, Scan):
            return None
        found = plain_columns(node).get(name) if isinstance(node, Project) else name
        if found is None:
            return None
        node, name = node.inputs[0], found
    return name if name not in node.input.schema.names else None


def _source(node: Node, name: str) -> str | None:
    """Return the column of a chain's scan that a column of the chain equals; None if it is computed or unnested."""
    while not isinstance(node, Scan):
        below = node.inputs[0]
        found = plain_columns(node).get(name) if isinstance(node, Project) else name
        if found is None or found not in below.schema.names:
            return None
        node, name = below, found
    return name


def _conditions(node: Node) -> list[Expr]:
    """Return the filters of a chain, over the columns of its scan."""
    found: list[Expr] = []
    while not isinstance(node, Scan):
        if isinstance(node, Filter):
            found += push_down(node.input, conjuncts(node.condition))
        node = node.inputs[0]
    return found
