"""WHERE: filters rows."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from belvedere.plan.bound_rules import Bounds, Known, implied_bounds
from belvedere.plan.cached_values import cached_property
from belvedere.plan.expression_text import expression_text
from belvedere.plan.expressions import Expr, conjuncts
from belvedere.plan.operators.node import Node, pruned_below
from belvedere.schema import Schema


@dataclass(frozen=True)
class Filter(Node):
    """Rows for which the condition is TRUE."""

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

    @property
    def never_null(self) -> frozenset[str]:
        return self.input.never_null | {
            c for part in conjuncts(self.condition) if (c := tested_column(part)) is not None
        }

    @property
    def holds(self) -> tuple[Expr, ...]:
        return (*self.input.holds, *conjuncts(self.condition))

    def ways(self, known: Known) -> tuple[Bounds, ...]:
        return tuple(implied_bounds(w, *self.holds) for w in self.input.ways(known))


def tested_column(part: Expr) -> str | None:
    """Return the column of `c IS NOT NULL`, or None."""
    test = part.this.unnest() if isinstance(part, exp.Not) else None
    if (
        isinstance(test, exp.Is)
        and isinstance(test.expression, exp.Null)
        and isinstance(test.this.unnest(), exp.Column)
    ):
        return str(test.this.unnest().name)
    return None
