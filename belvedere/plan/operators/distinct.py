"""DISTINCT: removes duplicate rows."""

from __future__ import annotations

from dataclasses import dataclass

from belvedere.plan.bound_rules import Bounds, Known
from belvedere.plan.cached_values import cached_property
from belvedere.plan.expressions import Expr
from belvedere.plan.operators.node import Node, Partition
from belvedere.plan.operators.project import keep_columns, pruned_inside
from belvedere.schema import Schema


@dataclass(frozen=True)
class Distinct(Node):
    """Removes duplicate rows. All input columns, including hidden ones, are compared and kept; the language removes
    hidden ones before."""

    input: Node

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema.with_key(self.input.schema.names)

    @property
    def text(self) -> str:
        return "distinct"

    @property
    def key_by_key(self) -> Partition | None:
        return Partition.by_columns(self.schema.names, self.input.schema)

    def pruned(self, requested: frozenset[str]) -> Node:
        return Distinct(pruned_inside(self.input))

    def with_key_columns(self) -> Node:
        """Return the node with the key of all its columns. A key column of the input beside them would change the
        result."""
        return Distinct(keep_columns(self.input.with_key_columns(), self.input.schema.names))

    def ways(self, known: Known) -> tuple[Bounds, ...]:
        return self.input.ways(known)

    @property
    def never_null(self) -> frozenset[str]:
        return self.input.never_null.intersection(self.schema.names)

    @property
    def holds(self) -> tuple[Expr, ...]:
        return self.input.holds
