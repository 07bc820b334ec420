"""INTERSECT and EXCEPT."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from belvedere.plan.bound_rules import Bounds, Known
from belvedere.plan.cached_values import cached_property
from belvedere.plan.expressions import columns
from belvedere.plan.operators.node import Node, Partition, shared_grouping_columns
from belvedere.plan.operators.project import keep_columns, pruned_inside
from belvedere.schema import Schema


class SetKind(StrEnum):
    INTERSECT = "intersect"
    EXCEPT = "except"


@dataclass(frozen=True)
class SetOperation(Node):
    """INTERSECT DISTINCT and EXCEPT DISTINCT. Columns match by position, with the names of the left. (The ALL forms are
    lowered to row numbers.)"""

    left: Node
    right: Node
    kind: SetKind

    @cached_property
    def schema(self) -> Schema:
        return self.left.schema.with_key(self.left.schema.names)

    @property
    def text(self) -> str:
        return self.kind.value

    @property
    def key_by_key(self) -> Partition | None:
        sides = columns(self.left.schema.names), columns(self.right.schema.names)
        return Partition(sides, columns(self.schema.names), tuple(c.type for c in self.schema))

    def pruned(self, requested: frozenset[str]) -> Node:
        return replace(self, left=pruned_inside(self.left), right=pruned_inside(self.right))

    def with_key_columns(self) -> Node:
        """Return the node with the key of all its columns. Key columns of the inputs beside them would change the
        result."""
        return self.with_inputs(tuple(keep_columns(i.with_key_columns(), i.schema.names) for i in self.inputs))

    def ways(self, known: Known) -> tuple[Bounds, ...]:
        left, right = self.left.bounds(known), self.right.bounds(known)
        pairs = zip(self.left.schema.names, self.right.schema.names, strict=True)
        return ({a: min(left[a], right[b]) for a, b in pairs if a in left and b in right},)

    def grouping_columns(self, known: Known) -> frozenset[str]:
        return shared_grouping_columns(self, known)
