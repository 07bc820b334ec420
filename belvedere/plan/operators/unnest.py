"""UNNEST: elements of arrays and entries of maps."""

from __future__ import annotations

from dataclasses import dataclass

from belvedere.plan.bound_rules import Bounds, Known
from belvedere.plan.cached_values import cached_property
from belvedere.plan.expression_text import expression_text
from belvedere.plan.expressions import Expr
from belvedere.plan.operators.node import Node, pruned_below
from belvedere.schema import Column, Schema


@dataclass(frozen=True)
class Unnest(Node):
    """The input's columns with each element of an array (or entry of a map).

    `columns`: for an array of T one column of T, or with `inline` one per field of the struct T; for a map key and
    value. `position` is a column with the index from 0; it is hidden if the script did not request it. `outer` keeps
    rows without elements, with NULLs.
    """

    input: Node
    expr: Expr
    columns: tuple[Column, ...]
    position: Column
    inline: bool = False
    outer: bool = False

    @cached_property
    def schema(self) -> Schema:
        key = self.input.schema.key
        return Schema(
            self.input.schema.columns + self.columns + (self.position,),
            None if key is None else (*key, self.position.name),
        )

    @property
    def text(self) -> str:
        columns = ", ".join(c.name for c in (*self.columns, self.position))
        return f"unnest{' outer' if self.outer else ''} {expression_text(self.expr)} as {columns}"

    @property
    def is_linear(self) -> bool:
        return True

    def pruned(self, requested: frozenset[str]) -> Node:
        return pruned_below(self, requested)

    def ways(self, known: Known) -> tuple[Bounds, ...]:
        return self.input.ways(known)

    @property
    def never_null(self) -> frozenset[str]:
        return self.input.never_null.intersection(self.schema.names)

    @property
    def holds(self) -> tuple[Expr, ...]:
        return self.input.holds
