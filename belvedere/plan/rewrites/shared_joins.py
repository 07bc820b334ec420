"""Rewrite: views that join the same relations on the same condition share one join.

In: the plans of all views. Out: plans of the same meaning. Aliases and the selected columns do not matter: the shared
join has all columns. A filter on now() below a join is lifted above a shared one; if no view needs all rows of the
join, such filters stay below and keep it small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from belvedere.plan.expressions import column, conjunction, conjuncts, reads_clock, replace_columns
from belvedere.plan.operators.nodes import Expr, Filter, Item, Join, JoinKind, Node, Project, TopK
from belvedere.plan.operators.project import item_of
from belvedere.plan.plan_properties import is_linear
from belvedere.plan.unused_names import unused_name

PlanPlace = tuple[int, str]
"""A column of a join, independent of its name there: the number of the side and the side's own name for it."""


@dataclass(frozen=True)
class _SharedSide:
    """One of the joined relations: renamed columns of `base` under conditions on them."""

    base: Node
    project: Project | None
    plain: tuple[Expr, ...]
    clock: tuple[Expr, ...]

    @property
    def items(self) -> tuple[Item, ...]:
        """Return the side's columns over `base`."""
        return tuple(map(item_of, self.base.schema)) if self.project is None else self.project.items

    @property
    def names(self) -> dict[str, str]:
        """Return the side's columns: name -> the name in `base`."""
        return {i.name: i.expr.name for i in self.items}


@dataclass(frozen=True)
class _Shape:
    """The shape of a tree of inner joins.

    Trees of equal `key` have the same rows except for names, columns and now().
    """

    tree: Join
    sides: tuple[_SharedSide, ...]
    key: tuple[object, ...]

    @property
    def places(self) -> dict[str, PlanPlace]:
        return {name: (n, own) for n, side in enumerate(self.sides) for name, own in side.names.items()}

    @property
    def clock(self) -> tuple[Expr, ...]:
        return tuple(part for side in self.sides for part in side.clock)


def share_joins(plans: Mapping[str, Node]) -> dict[str, Node]:
    """Return the plans by name. Joins of the same relations become equal nodes if one of them is kept with all its
    rows."""
    groups: dict[tuple[object, ...], list[_Shape]] = {}
    kept = set()
    for plan in plans.values():
        first = _first_operator(plan)
        for join in _joins(plan):
            shape = _shape(join)
            groups.setdefault(shape.key, []).append(shape)
            if join is not first and not shape.clock:
                kept.add(shape.key)
    inside = _parts(shape for shapes in groups.values() for shape in shapes)
    shared = {
        k: _together([*shapes, *inside.get(k, ())]) for k, shapes in groups.items() if k in kept and len(shapes) > 1
    }
    return {name: _replaced(plan, shared) for name, plan in plans.items()}


def _parts(shapes: Iterable[_Shape]) -> dict[tuple[object, ...], list[_Shape]]:
    """Return subtrees of the shapes by key. They are no reason to share, but read the shared joins."""
    found: dict[tuple[object, ...], list[_Shape]] = {}
    for shape in shapes:
        below = [shape.tree.left, shape.tree.right]
        while below:
            node = below.pop()
            if isinstance(node, Join) and node.kind is JoinKind.INNER:
                part = _shape(node)
                found.setdefault(part.key, []).append(part)
                below += [node.left, node.right]
    return found


def _joins(node: Node) -> Iterator[Join]:
    """Yield the outermost trees of inner joins."""
    if isinstance(node, Join) and node.kind is JoinKind.INNER:
        yield node
        for side in _leaves(node):
            yield from _joins(side)
    else:
        for below in _below(node):
            yield from _joins(below)


def _below(node: Node) -> tuple[Node, ...]:
    """Return the parts below a node that may be shared. A join that keeps one version per row is excluded, because its
    pairs are not stored."""
    return node.input.inputs if isinstance(node, TopK) and node.alike and isinstance(node.input, Join) else node.inputs


def _first_operator(plan: Node) -> Node:
    """Return the plan below the linear operators on top. A view stores the rows of a join there only as its own."""
    while is_linear(plan) and len(plan.inputs) == 1:
        plan = plan.inputs[0]
    return plan


def _leaves(node: Node) -> Iterator[Node]:
    if isinstance(node, Join) and node.kind is JoinKind.INNER:
        yield from _leaves(node.left)
        yield from _leaves(node.right)
    else:
        yield node


def _side(node: Node) -> _SharedSide:
    parts: tuple[Expr, ...] = ()
    below = node
    while isinstance(below, Filter):
        parts += conjuncts(below.condition)
        below = below.input
    plain, clock = (tuple(p for p in parts if reads_clock(p) is c) for c in (False, True))
    if isinstance(below, Project) and all(isinstance(i.expr, exp.Column) for i in below.items):
        return _SharedSide(below.input, below, plain, clock)
    return _SharedSide(below, None, plain, clock)


def _shape(tree: Join) -> _Shape:
    sides = tuple(_side(leaf) for leaf in _leaves(tree))
    shape = _Shape(tree, sides, ())
    places = {name: column(f"{n}.{own}") for name, (n, own) in shape.places.items()}
    leaves = iter(sides)

    def key(node: Node) -> tuple[object, ...]:
        if isinstance(node, Join) and node.kind is JoinKind.INNER:
            below = key(node.left), key(node.right)
            return ("join", *below, frozenset(_ordered(replace_columns(p, places)) for p in conjuncts(node.condition)))
        side = next(leaves)
        return ("side", side.base, frozenset(replace_columns(p, places) for p in side.plain))

    return replace(shape, key=key(tree))


def _ordered(part: Expr) -> Expr:
    """Return an equality with its sides in a canonical order."""
    if isinstance(part, exp.EQ | exp.NullSafeEQ) and part.this.sql() > part.expression.sql():
        return type(part)(this=part.expression, expression=part.this)
    return part


def _together(shapes: list[_Shape]) -> _Shape:
    """Return the first tree with the columns of all, without the filters on now()."""
    first = shapes[0]
    taken = set(first.tree.schema.names)
    sides = []
    for n, side in enumerate(first.sides):
        project = side.project
        known = set(side.names.values())
        for other in (s.sides[n] for s in shapes[1:]):
            for item in other.items if project is not None else ():
                if project is not None and item.expr.name not in known:
                    known.add(item.expr.name)
                    name = item.name if item.name not in taken else unused_name(item.name, taken)
                    taken.add(name)
                    project = replace(project, items=(*project.items, replace(item, name=name)))
        sides.append(replace(side, project=project, clock=()))
    leaves = iter(sides)

    def built(node: Node) -> Node:
        if isinstance(node, Join) and node.kind is JoinKind.INNER:
            return replace(node, left=built(node.left), right=built(node.right))
        side = next(leaves)
        below = side.base if side.project is None else side.project
        condition = conjunction(side.plain)
        return below if condition is None else Filter(below, condition)

    tree = built(first.tree)
    assert isinstance(tree, Join)
    return _Shape(tree, tuple(sides), first.key)


def _replaced(node: Node, shared: Mapping[tuple[object, ...], _Shape]) -> Node:
    if isinstance(node, Join) and node.kind is JoinKind.INNER:
        shape = _shape(node)
        found = shared.get(shape.key)
        if found is not None:
            return _renamed(shape, found)
    if _below(node) is not node.inputs and node.inputs[0].inputs == _below(node):
        cut = node.inputs[0]
        return node.with_inputs((cut.with_inputs(tuple(_replaced(i, shared) for i in cut.inputs)),))
    below = tuple(_replaced(i, shared) for i in node.inputs)
    return node if all(a is b for a, b in zip(below, node.inputs, strict=True)) else node.with_inputs(below)


def _renamed(shape: _Shape, shared: _Shape) -> Node:
    """Return the shared join with the names and columns of one member, and its filters on now() above."""
    names = {place: name for name, place in shared.places.items()}
    items = tuple(replace(item_of(c), expr=column(names[shape.places[c.name]])) for c in shape.tree.schema)
    same = all(i.name == i.expr.name for i in items) and len(items) == len(shared.tree.schema.names)
    node: Node = shared.tree if same else Project(shared.tree, items)
    condition = conjunction(shape.clock)
    return node if condition is None else Filter(node, condition)
