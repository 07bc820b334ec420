"""Small rewrites that the choice of rules needs: inlining, carrying a column upwards, pushing expressions down a chain.

In: plan trees. Out: plan trees of the same meaning (with more columns, if requested).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from sqlglot import exp

from belvedere.plan.expressions import column, replace_columns
from belvedere.plan.operators.nodes import Expr, Filter, Item, Node, Project, Scan
from belvedere.plan.operators.project import item_of, keep_columns
from belvedere.plan.plan_properties import base_scan, needs_clock
from belvedere.plan.unused_names import unused_name
from belvedere.schema import Column, Schema, is_engine_column


def inline(node: Node, definition: Callable[[str], Node | None]) -> Node:
    """Replace scans by the plan that `definition` returns for them, recursively."""
    if isinstance(node, Scan):
        plan = definition(node.relation)
        return node if plan is None else keep_columns(inline(plan, definition), node.schema.names)
    return node.with_inputs(tuple(inline(i, definition) for i in node.inputs))


def replace_scans(node: Node, change: Callable[[Scan], Node]) -> Node:
    """Replace every scan, left to right."""
    if isinstance(node, Scan):
        return change(node)
    return node.with_inputs(tuple(replace_scans(i, change) for i in node.inputs))


def carry(node: Node, source: Node, extra: tuple[Item, ...]) -> tuple[Node, tuple[str, ...]]:
    """Add `extra` (over `source`'s columns) right above `source` and carry them to the top of the chain `node`.

    Returns the new tree and the names of the carried columns at its top. Columns that already reach the top are reused.
    """
    if node is source:
        return _extend(source, extra)
    below, names = carry(node.inputs[0], source, extra)
    rebuilt = node.with_inputs((below,))
    if not isinstance(rebuilt, Project):
        return rebuilt, names
    return extend_items(rebuilt, tuple(item_of(below.schema[n], hidden=True) for n in names))


def _extend(node: Node, extra: tuple[Item, ...]) -> tuple[Node, tuple[str, ...]]:
    """Add computed columns on top of a node, reusing columns that already exist."""
    passed = tuple(item_of(c) for c in node.schema)
    project, names = extend_items(Project(node, passed), extra)
    return (node if len(project.items) == len(passed) else project), names


def extend_items(project: Project, extra: Iterable[Item]) -> tuple[Project, tuple[str, ...]]:
    """Return the projection with further hidden items, and their names; existing equal items are reused."""
    names: list[str] = []
    items = list(project.items)
    for item in extra:
        same = next((i.name for i in items if i.expr == item.expr), None)
        if same is None:
            same = unused_name(item.name, {i.name for i in items}, engine=is_engine_column(item.name))
            items.append(replace(item, name=same, hidden=True))
        names.append(same)
    return replace(project, items=tuple(items)), tuple(names)


def with_column(node: Node, added: Column, scans: frozenset[str]) -> Node:
    """Carry a column that the named scans have gained (the weight) to the top of a linear tree or join."""
    if isinstance(node, Scan):
        if node.relation not in scans:
            return node
        return replace(
            node, relation_schema=replace(node.relation_schema, columns=(*node.relation_schema.columns, added))
        )
    rebuilt = node.with_inputs(tuple(with_column(i, added, scans) for i in node.inputs))
    if isinstance(rebuilt, Project) and added.name in rebuilt.input.schema.names:
        return replace(rebuilt, items=(*rebuilt.items, item_of(added, hidden=True)))
    return rebuilt


def push_down(node: Node, exprs: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Rewrite expressions over the top of a chain of projections and filters as expressions over its scan."""
    while not isinstance(node, Scan):
        if isinstance(node, Project):
            mapping = {i.name: i.expr for i in node.items}
            exprs = tuple(replace_columns(e, mapping) for e in exprs)
        if not isinstance(node, (Project, Filter)) or needs_clock(node):
            raise AssertionError(f"not a chain: {type(node).__name__}")
        node = node.input
    return exprs


def passes_key(plan: Node, top: Node, side: Node, own: Schema) -> bool:
    """Return whether a row of `plan`, a chain over the operator `top`, has the key of the row from which it is
    computed.

    That row belongs to a relation with the schema `own`, which `top` reads through the chain `side`.
    """
    key, result = side.schema.key, Scan("top", top.schema)
    if not key or own.key is None or base_scan(side) is None or base_scan(replace_node(plan, top, result)) is None:
        return False
    below = push_down(side, tuple(column(n) for n in key))
    if tuple(e.name for e in below if isinstance(e, exp.Column)) != own.key:
        return False
    same = all(
        (own[o].type, own[o].nullable) == (side.schema[n].type, side.schema[n].nullable)
        for o, n in zip(own.key, key, strict=True)
    )
    outer = push_down(replace_node(plan, top, result), tuple(column(n) for n in plan.schema.key or ()))
    return same and outer == tuple(column(n) for n in key)


def plain_columns(project: Project) -> dict[str, str]:
    """Return the unchanged input columns of a projection: name -> the name in the input."""
    types = {c.name: c.type for c in project.input.schema}
    items = (i for i in project.items if isinstance(i.expr, exp.Column) and types.get(i.expr.name) == i.type)
    return {i.name: i.expr.name for i in items}


def replace_node(tree: Node, old: Node, new: Node) -> Node:
    """Return the chain `tree` with `old` replaced by `new`."""
    if tree is old:
        return new
    return tree.with_inputs(tuple(replace_node(i, old, new) if _contains(i, old) else i for i in tree.inputs))


def _contains(tree: Node, requested: Node) -> bool:
    return any(n is requested for n in tree.walk())
