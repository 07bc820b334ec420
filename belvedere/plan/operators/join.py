"""Joins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import pyarrow as pa
from sqlglot import exp

from belvedere.plan.bound_rules import Bounds, Known, implied_bounds, only
from belvedere.plan.cached_values import cached_property
from belvedere.plan.expression_text import expression_text
from belvedere.plan.expressions import Expr, columns_of, conjuncts, equated
from belvedere.plan.operators.node import Node, Partition
from belvedere.plan.operators.project import Project, item_of
from belvedere.plan.operators.scan import Scan
from belvedere.plan.unused_names import unused_name
from belvedere.schema import TIMESTAMP, Column, Schema

THERE = "_there"


class JoinKind(StrEnum):
    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"


@dataclass(frozen=True)
class Join(Node):
    """A join; `condition` None is TRUE (a cross join). SEMI and ANTI return only the left columns.

    `versions` are two columns of the right side. Each right row is a version, valid from the first time until before
    the second (NULL: still valid), and the condition selects the version valid at a time of the left row. So a left row
    has at most one.

    `there` is an optional hidden column: TRUE if there is a left row. A FULL join needs it in its key if the keys of
    both sides may be NULL. Otherwise an unmatched left row and an unmatched right row could look the same.
    """

    left: Node
    right: Node
    kind: JoinKind
    condition: Expr | None = None
    there: str | None = None
    versions: tuple[str, str] | None = None

    @cached_property
    def schema(self) -> Schema:
        left, right = self.left.schema, self.right.schema
        if self.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return left
        columns = tuple(
            replace(c, nullable=c.nullable or outer)
            for side, outer in (
                (left, self.kind in (JoinKind.RIGHT, JoinKind.FULL)),
                (right, self.kind in (JoinKind.LEFT, JoinKind.FULL)),
            )
            for c in side
        )
        if self.there is not None:
            columns += (Column(self.there, pa.bool_(), hidden=True),)
        return Schema(columns, self._key())

    def _key(self) -> tuple[str, ...] | None:
        """Return both sides' keys, or only one side's if the condition determines the row of the other side."""
        left, right = self.left.schema, self.right.schema
        if left.key is None or right.key is None:
            return None
        if self.versions is not None:
            return left.key
        pairs = equated(self.condition)
        if self.kind in (JoinKind.INNER, JoinKind.LEFT) and _determined(right, pairs, left):
            return left.key
        if self.kind in (JoinKind.INNER, JoinKind.RIGHT) and _determined(left, pairs, right):
            return right.key
        return left.key + right.key + (() if self.there is None else (self.there,))

    @property
    def text(self) -> str:
        return f"join {self.kind.value} on {expression_text(self.condition) if self.condition is not None else 'true'}"

    @property
    def key_by_key(self) -> Partition | None:
        """Partition by the columns that its condition compares."""
        pairs = equalities(self)
        if not pairs:
            return None
        left, right = tuple(a for a, _, _ in pairs), tuple(b for _, b, _ in pairs)
        output: tuple[Expr, ...] = right if self.kind is JoinKind.RIGHT else left
        if self.kind is JoinKind.FULL:
            output = tuple(
                exp.Coalesce(this=a.copy(), expressions=[b.copy()]) for a, b in zip(left, right, strict=True)
            )
        return Partition((left, right), output, tuple(t for _, _, t in pairs))

    def pruned(self, requested: frozenset[str]) -> Node:
        read = columns_of(self.condition) if self.condition is not None else frozenset()
        needed = requested | read | frozenset(self.left.schema.key or ()) | frozenset(self.right.schema.key or ())
        left = self.left.pruned(needed & frozenset(self.left.schema.names))
        half = self.kind in (JoinKind.SEMI, JoinKind.ANTI)
        right_required = (read if half else needed) | frozenset(self.right.schema.key or ())
        return replace(self, left=left, right=self.right.pruned(right_required & frozenset(self.right.schema.names)))

    def with_key_columns(self) -> Node:
        node = replace(self, left=self.left.with_key_columns(), right=self.right.with_key_columns())
        return _with_left_marked(_with_names_apart(node))

    # -- bounds

    @property
    def never_null(self) -> frozenset[str]:
        """Return the columns that are never NULL. A side that may be missing has none."""
        left, right = self.left.never_null, self.right.never_null
        match self.kind:
            case JoinKind.INNER:
                return left | right
            case JoinKind.RIGHT:
                return right
            case JoinKind.FULL:
                return frozenset()
            case _:
                return left

    @property
    def holds(self) -> tuple[Expr, ...]:
        match self.kind:
            case JoinKind.INNER:
                return (*self.left.holds, *self.right.holds, *conjuncts(self.condition))
            case JoinKind.RIGHT:
                return self.right.holds
            case JoinKind.FULL:
                return ()
            case _:
                return self.left.holds

    def ways(self, known: Known) -> tuple[Bounds, ...]:
        """Return the bounds of its columns that follow from a change of either side.

        The sides are kept apart if that is more precise: the later of two times, one of each side, is above the bound
        of the changed side. Comparisons imply bounds only for rows that match; an unmatched row of an outer join has
        its own bounds.
        """
        if self.versions is not None:
            return self._ways_of_versions(self.versions, self.left.bounds(known), self.right.bounds(known))
        facts = (self.condition, *self.left.holds, *self.right.holds)
        ways: list[Bounds] = []
        if not _holds_nothing_back(self.left, known) or _holds_nothing_back(self.right, known):
            alone = self.kind in (JoinKind.LEFT, JoinKind.FULL, JoinKind.ANTI)
            ways += [self._way(w, self.left, facts, alone) for w in self.left.ways(known)]
        if not _holds_nothing_back(self.right, known):
            alone = self.kind in (JoinKind.RIGHT, JoinKind.FULL)
            ways += [self._way(w, self.right, facts, alone) for w in self.right.ways(known)]
        return tuple(ways)

    def _way(self, changed: Bounds, side: Node, facts: tuple[Expr | None, ...], alone: bool) -> Bounds:
        """Return the bounds that follow from a change of one side; `alone` says that its rows may be unmatched."""
        found = implied_bounds(changed, *facts)
        if alone:
            found = {n: b for n, b in found.items() if n not in side.schema.names} | dict(changed)
        return only(found, self.schema.names)

    def _ways_of_versions(self, versions: tuple[str, str], left: Bounds, right: Bounds) -> tuple[Bounds, ...]:
        """Return the bounds of left columns, which carry the time. A future version is valid from a time not below its
        bound.

        It ends the validity of the preceding version, however old that is. Rows of earlier times keep the version that
        they were joined with.
        """
        since, until = versions
        begins = {**right, **({since: right[until]} if until in right else {})}
        found = (left, implied_bounds(begins, self.condition))
        return tuple(only(b, self.left.schema.names) for b in found)


def _determined(schema: Schema, pairs: tuple[tuple[str, Expr], ...], other: Schema) -> bool:
    """Return whether every key column equals an expression over the other side's columns."""
    return all(any(n == k and _fixes(schema[k].type, e, other) for n, e in pairs) for k in schema.key or ())


def _fixes(type_: pa.DataType, expr: Expr, other: Schema) -> bool:
    """Return whether equality with `expr` fixes one value. It does not if the comparison casts both sides ('1' = 1 and
    '01' = 1)."""
    names = set(other.names)
    if any(c.name not in names for c in expr.find_all(exp.Column)):
        return False
    if isinstance(expr, exp.Column):
        return bool(other[expr.name].type == type_)
    return type_ in (pa.int8(), pa.int16(), pa.int32(), pa.date32(), pa.bool_(), TIMESTAMP)


def equalities(node: Join) -> tuple[tuple[Expr, Expr, pa.DataType], ...]:
    """Return the pairs (left, right) of columns of equal type that a join's condition compares by `=` or `<=>`."""
    left, right = node.left.schema, node.right.schema
    pairs = []
    for part in conjuncts(node.condition):
        if not isinstance(part, exp.EQ | exp.NullSafeEQ):
            continue
        a, b = part.this.unnest(), part.expression.unnest()
        if columns_of(a) <= set(right.names) and columns_of(b) <= set(left.names):
            a, b = b, a
        if isinstance(a, exp.Column) and isinstance(b, exp.Column) and a.name in left.names and b.name in right.names:
            type_ = comparable_type(left[a.name].type, right[b.name].type)
            if type_ is not None:
                pairs.append((a, b, type_))
    return tuple(pairs)


def comparable_type(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """Return the type in which equal hashes decide equality of two columns; None if that is not exact."""
    if a == b:
        return a
    if pa.types.is_integer(a) and pa.types.is_integer(b):
        return pa.int64()
    if pa.types.is_floating(a) and pa.types.is_floating(b):
        return pa.float64()
    return None


def _holds_nothing_back(node: Node, known: Known) -> bool:
    return all(known(n.relation) is None for n in node.walk() if isinstance(n, Scan))


def _with_names_apart(node: Join) -> Join:
    """Rename carried key columns that both sides have, so that the sides' names remain disjoint."""
    left = set(node.left.schema.names)
    taken = left | set(node.right.schema.names)
    items = []
    for c in node.right.schema:
        name = unused_name(c.name, taken) if c.name in left else c.name
        taken.add(name)
        items.append(item_of(c, name))
    if all(i.name == c.name for i, c in zip(items, node.right.schema, strict=True)):
        return node
    return replace(node, right=Project(node.right, tuple(items)))


def _with_left_marked(node: Join) -> Join:
    """Add a marker of left rows to a FULL join, if its sides' keys do not distinguish them."""
    keys = [side.schema[k] for side in node.inputs for k in side.schema.key or ()]
    if node.kind is not JoinKind.FULL or node.there is not None or not all(c.nullable for c in keys):
        return node
    return replace(node, there=unused_name(THERE, set(node.schema.names)))
