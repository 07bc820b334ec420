"""Rewrite: a join of a table's rows with its own nested rows is no join, but the nested rows beside the columns of their parent.

In: a tree, and the plans of views that it scans. Out: an equivalent tree with the same keys, in which `FROM T t JOIN t.items i` and
`FROM T.items i JOIN i.parent t` unnest T. Nothing is looked up, and the times of T's rows keep their bounds. Joins of levels that are
further apart, and outer joins, stay joins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from belvedere.plan.expressions import column, conjunction, conjuncts, replace_columns
from belvedere.plan.facts import is_linear, needs_clock
from belvedere.plan.keys import item_of, keep_columns
from belvedere.plan.nodes import Expr, Filter, Join, JoinKind, Node, Project, Scan, Unnest, equated
from belvedere.plan.rewrite import carry, push_down, replace_node

Definition = Callable[[str], Node | None]
"""The plan of a view by its id; None for anything else."""


def join_nested(node: Node, definition: Definition) -> Node:
    """The same relation, with nested rows taken from their parents' rows."""
    node = node.with_inputs(tuple(join_nested(i, definition) for i in node.inputs))
    if not isinstance(node, Join) or node.kind is not JoinKind.INNER:
        return node
    for parent, nested in ((node.left, node.right), (node.right, node.left)):
        found = _nested_rows(nested, definition)
        made = None if found is None else _beside(node, parent, found)
        if made is not None and made.schema.key == node.schema.key:
            return made
    return node


@dataclass(frozen=True)
class _Nested:
    """A chain of projections and filters over one Unnest of the relation `base`."""

    plan: Node
    base: Scan


def _nested_rows(node: Node, definition: Definition) -> _Nested | None:
    """The chain with the nested table's own plan in place of its scan."""
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
    """The nested rows with the parent's columns beside them; None where the join is by anything but the parent's whole key."""
    base = _bottom(parent)
    if base is None or base.relation != nested.base.relation or any(isinstance(n, Unnest) for n in parent.walk()):
        return None
    wanted = tuple(item_of(c) for c in base.schema)
    plan, names = carry(nested.plan, nested.base, wanted)
    beside = dict(zip(base.schema.names, (column(n) for n in names), strict=True))
    own = {c.name: replace_columns(push_down(parent, (column(c.name),))[0], beside) for c in parent.schema}
    parts = conjuncts(join.condition)
    same = [p for p in parts if _is_same(p, own, plan)]
    linked = {n for p in same for n, _ in equated(p)}
    if not all(any(isinstance(own.get(n), exp.Column) and own[n] == beside[k] for n in linked) for k in base.schema.key or ()):
        return None
    filters = [replace_columns(c, beside) for c in _conditions(parent)]
    kept = tuple(item_of(c) for c in nested.plan.schema)
    items = tuple(replace(item_of(c), expr=own[c.name].copy()) for c in parent.schema)
    condition = conjunction(filters)
    made = Project(plan if condition is None else Filter(plan, condition), (*kept, *items))
    rest = conjunction([p for p in parts if p not in same])
    return made if rest is None else Filter(made, rest)


def _is_same(part: Expr, own: dict[str, Expr], plan: Node) -> bool:
    """Whether a condition says that a column of the nested row, made of the parent's row, is what the parent's row says: it always is.

    Columns that may be NULL are not equal to themselves.
    """
    if not isinstance(part, (exp.EQ, exp.NullSafeEQ)):
        return False
    sides = (part.left, part.right)
    for mine, theirs in (sides, sides[::-1]):
        if not isinstance(mine, exp.Column) or mine.name not in own or not isinstance(theirs, exp.Column):
            continue
        value = own[mine.name]
        if theirs.name in plan.schema.names and theirs == value:
            return isinstance(part, exp.NullSafeEQ) or not plan.schema[theirs.name].nullable
    return False


def _conditions(node: Node) -> list[Expr]:
    """The filters of a chain, over the columns of its scan."""
    found: list[Expr] = []
    while not isinstance(node, Scan):
        if isinstance(node, Filter):
            found += push_down(node.input, conjuncts(node.condition))
        node = node.inputs[0]
    return found
