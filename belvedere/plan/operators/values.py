"""Literal rows."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from belvedere.plan.bound_rules import Bounds, Known
from belvedere.plan.cached_values import cached_property
from belvedere.plan.expressions import Expr
from belvedere.plan.monotone import FOREVER
from belvedere.plan.operators.node import Node
from belvedere.plan.unused_names import unused_name
from belvedere.schema import Column, Schema

POSITION = "_position"


@dataclass(frozen=True)
class Values(Node):
    """Literal rows; every row has one expression per column. `position` is the optional name of a column that numbers
    them."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Expr, ...], ...]
    position: str | None = None

    @cached_property
    def schema(self) -> Schema:
        if self.position is not None:
            return Schema(self.columns, (self.position,))
        return Schema(self.columns, () if len(self.rows) <= 1 else None)

    @property
    def text(self) -> str:
        return f"values {len(self.rows)} rows ({', '.join(c.name for c in self.columns)})"

    def pruned(self, requested: frozenset[str]) -> Node:
        return self

    def with_key_columns(self) -> Node:
        """Return the rows with a number column, if there are several."""
        if self.schema.key is not None:
            return self
        name = unused_name(POSITION, {c.name for c in self.columns})
        index = Column(name, pa.int32(), nullable=False, hidden=True)
        rows = tuple((*row, exp.Literal.number(n)) for n, row in enumerate(self.rows))
        return Values((*self.columns, index), rows, position=name)

    def ways(self, known: Known) -> tuple[Bounds, ...]:
        return (dict.fromkeys(self.schema.names, FOREVER),)
