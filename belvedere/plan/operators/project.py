"""Projections: columns computed row by row, and unchanged columns as items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from belvedere.plan.bound_rules import Bounds, Known, given
from belvedere.plan.cached_values import cached_property
from belvedere.plan.expressions import Expr, column, columns_of, replace_columns
from belvedere.plan.monotone import combine, monotone
from belvedere.plan.operators.node import Item, Node, texts
from belvedere.plan.unused_names import unused_name
from belvedere.schema import Column, Schema


@dataclass(frozen=True)
class Project(Node):
    """Columns computed row by row."""

    input: Node
    items: tuple[Item, ...]

    @cached_property
    def schema(self) -> Schema:
        kept: dict[str, str] = {}
        for item in self.items:
            if isinstance(item.expr, exp.Column):
                kept.setdefault(item.expr.name, item.name)
        key = self.input.schema.key
        if key is not None:
            key = tuple(kept[k] for k in key) if all(k in kept for k in key) else None
        return Schema(tuple(i.column for i in self.items), key)

    @property
    def text(self) -> str:
        return f"project {texts(self.items)}"

    @property
    def is_linear(self) -> bool:
        return True

    def pruned(self, requested: frozenset[str]) -> Node:
        key = frozenset(self.schema.key or ())
        items = tuple(i for i in self.items if i.name in requested | key) or self.items[:1]
        return Project(*pruned_through(self.input, items))

    def with_key_columns(self) -> Node:
        """Return the projection with the key columns of its input that it dropped, as hidden columns."""
        below = self.input.with_key_columns()
        present = {i.expr.name for i in self.items if isinstance(i.expr, exp.Column)}
        taken = {i.name for i in self.items}
        extra = []
        for name in below.schema.key or ():
            if name not in present:
                fresh = unused_name(name, taken)
                taken.add(fresh)
                extra.append(item_of(below.schema[name], fresh, hidden=True))
        return replace(self, input=below, items=self.items + tuple(extra))

    @property
    def never_null(self) -> frozenset[str]:
        below = self.input.never_null
        return frozenset(
            i.name for i in self.items if not i.nullable or (isinstance(i.expr, exp.Column) and i.expr.name in below)
        )

    @property
    def holds(self) -> tuple[Expr, ...]:
        return renamed({i.expr.name: i.name for i in self.items if isinstance(i.expr, exp.Column)}, self.input.holds)

    def ways(self, known: Known) -> tuple[Bounds, ...]:
        sure = self.input.never_null
        return tuple(given((i.name, combine(w, i.expr, sure)) for i in self.items) for w in self.input.ways(known))

    def grouping_columns(self, known: Known) -> frozenset[str]:
        below, times = self.input.grouping_columns(known), self.input.event_times(known)
        return frozenset(i.name for i in self.items if _groups(i.expr, below, times))


def renamed(names: Mapping[str, str], conditions: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Return the conditions that read only these columns, with other names."""
    new = {old: column(name) for old, name in names.items()}
    return tuple(replace_columns(c, new) for c in conditions if columns_of(c) <= new.keys())


def _groups(expr: Expr, grouping: frozenset[str], times: frozenset[str]) -> bool:
    """Return whether an item is a shifted or rounded grouping column, or a rounded event time."""
    found = monotone(expr)
    if found is None:
        return False
    return found.column in grouping or (found.column in times and found.shift is None)


def pruned_through(below: Node, items: tuple[Item, ...]) -> tuple[Node, tuple[Item, ...]]:
    """Return the pruned plan below renaming projections, and the items over it. No expression is computed twice after
    the substitution."""
    while isinstance(below, Project) and all(isinstance(i.expr, exp.Column) for i in below.items):
        inner = {i.name: i.expr for i in below.items}
        items = tuple(replace(i, expr=replace_columns(i.expr, inner)) for i in items)
        below = below.input
    read = frozenset(c for i in items for c in columns_of(i.expr))
    return below.pruned(read | frozenset(below.schema.key or ())), items


def item_of(c: Column, name: str | None = None, *, hidden: bool | None = None) -> Item:
    """Return an unchanged column as an item of a projection, optionally renamed, hidden or shown."""
    return Item(name or c.name, column(c.name), c.type, c.nullable, c.hidden if hidden is None else hidden, c.doc)


def keep_columns(node: Node, names: tuple[str, ...]) -> Node:
    """Return a projection to `names`, or the node itself if it has exactly these."""
    if node.schema.names == names:
        return node
    return Project(node, tuple(item_of(node.schema[n]) for n in names))


def pruned_inside(node: Node) -> Node:
    """Return the node with pruned inputs and unchanged columns, because their positions count."""
    return keep_columns(node.pruned(frozenset(node.schema.names)), node.schema.names)
