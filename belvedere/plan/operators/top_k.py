"""Top-k: the first rows of an order."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from belvedere.plan.bound_rules import Bounds, Known, only
from belvedere.plan.cached_values import cached_property
from belvedere.plan.expressions import Expr, column
from belvedere.plan.operators.node import Node, Order, Partition, pruned_below, texts
from belvedere.plan.ties import tie_columns
from belvedere.schema import Column, Schema


@dataclass(frozen=True)
class TopK(Node):
    """The rows `offset` .. `offset + limit` in `order`, of the whole input or of each `partition`; ties are broken by
    the input's key."""

    input: Node
    order: tuple[Order, ...]
    limit: int | None
    offset: int = 0
    partition: tuple[str, ...] = ()
    by_rows: bool = False
    """Whether rows keep the input's key, even with LIMIT 1."""
    alike: tuple[str, ...] = ()
    """Columns that are equal in all rows of a partition: if it is the key of a join's left side, that side's
    columns."""
    number: Column | None = None
    """Column with the position of a row in its partition, from 1 (INT)."""
    most: str = ""
    """Name of the parameter that gives the limit, in a query computed at request time; `limit` is None then."""

    @cached_property
    def schema(self) -> Schema:
        schema = self.input.schema
        if self.number is not None:
            schema = Schema((*schema.columns, self.number), schema.key)
        return schema.with_key(self.partition) if self.limit == 1 and schema.key != () and not self.by_rows else schema

    @property
    def text(self) -> str:
        words = [f"top {self.limit if self.limit is not None else 'all'}"]
        words += [f"after {self.offset}"] if self.offset else []
        words += [f"per [{', '.join(self.partition)}]"] if self.partition else []
        words += [f"by {texts(self.order)}"] if self.order else []
        words += [f"as {self.number.name}"] if self.number is not None else []
        return " ".join(words)

    @property
    def key_by_key(self) -> Partition | None:
        return Partition.by_columns(self.partition, self.input.schema) if self.partition else None

    @property
    def tie_order(self) -> tuple[Order, ...]:
        """Return the sort keys that break ties, ascending unless the last key of the order descends."""
        descending = bool(self.order) and self.order[-1].descending
        return tuple(Order(column(n), descending) for n in tie_columns(self.input.schema))

    def pruned(self, requested: frozenset[str]) -> Node:
        return pruned_below(self, requested.union(self.partition, self.input.schema.key or ()))

    @property
    def never_null(self) -> frozenset[str]:
        return self.input.never_null

    @property
    def holds(self) -> tuple[Expr, ...]:
        return self.input.holds

    def ways(self, known: Known) -> tuple[Bounds, ...]:
        return (only(self.input.bounds(known), (*self.partition, *self.alike, *self._first_times())),)

    def _first_times(self) -> tuple[str, ...]:
        """Return the column by which the earliest rows come first. A row displaced by a later arrival is not
        before it."""
        first = self.order[0] if self.order else None
        if first is None or first.descending or not isinstance(first.expr, exp.Column):
            return ()
        nulls_last = not first.nulls_come_first
        return (first.expr.name,) if nulls_last or not self.input.schema[first.expr.name].nullable else ()
