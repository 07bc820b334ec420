"""The rows that a condition chooses."""

from __future__ import annotations

from dataclasses import dataclass

from belvedere.plan.bound_rules import Bounds, Known, implied_bounds
from belvedere.plan.cached_values import cached_property
from belvedere.plan.expression_text import expression_text
from belvedere.plan.expressions import Expr
from belvedere.plan.operators.node import Node, pruned_below
from belvedere.schema import Schema


@dataclass(frozen=True)
class Filter(Node):
    """The rows whose condition is TRUE."""

    input: Node
    condition: Expr

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema

    @property
    def text(self) -> str:
        return f"filter {expression_text(self.condition)}"

    @property
    def is_linear(self) -> bool:
        return True

    def pruned(self, requested: frozenset[str]) -> Node:
        return pruned_below(self, requested)

    def ways(self, known: Known) -> tuple[Bounds, ...]:
        return tuple(implied_bounds(w, self.condition) for w in self.input.ways(known))
