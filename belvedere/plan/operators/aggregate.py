"""GROUP BY."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from belvedere.plan.arrival_order import with_arrival
from belvedere.plan.bound_rules import Bounds, Known, given
from belvedere.plan.cached_values import cached_property
from belvedere.plan.expressions import Expr, column, columns
from belvedere.plan.monotone import combine, monotone
from belvedere.plan.operators.node import Item, Node, Partition, texts
from belvedere.plan.operators.project import pruned_through, renamed
from belvedere.plan.ties import tie_columns
from belvedere.schema import Column, Schema


@dataclass(frozen=True)
class Aggregate(Node):
    """GROUP BY `keys` with `aggregates`. Without keys: exactly one row, also over no rows.

    `grouping_sets` lists, per set, the names of its keys; the others are NULL. Then the hidden key column `grouping_id`
    (BIGINT, as Spark's `grouping_id()`) distinguishes the sets and is part of the key.
    """

    input: Node
    keys: tuple[Item, ...]
    aggregates: tuple[Item, ...]
    grouping_sets: tuple[tuple[str, ...], ...] | None = None
    grouping_id: str | None = None
    final_time: str | None = field(default=None, repr=False)
    """Name of the hidden aggregate with the latest time at which the rows of a group are final, if there is one.

    A change with a bound on this time replaces a row whose time was not below it. Bounds on the keys cover new rows.
    """

    @cached_property
    def schema(self) -> Schema:
        columns = tuple(i.column for i in self.keys + self.aggregates)
        key = tuple(i.name for i in self.keys)
        if self.grouping_sets is not None:
            columns = tuple(replace(c, nullable=True) if c.name in key else c for c in columns)
        if self.grouping_id is not None:
            columns += (Column(self.grouping_id, pa.int64(), nullable=False, hidden=True),)
            key += (self.grouping_id,)
        return Schema(columns, key)

    @property
    def text(self) -> str:
        sets = ""
        if self.grouping_sets is not None:
            sets = " sets " + ", ".join("(" + ", ".join(s) + ")" for s in self.grouping_sets)
        return f"aggregate by [{texts(self.keys)}]{sets} {texts(self.aggregates)}".rstrip()

    @property
    def key_by_key(self) -> Partition | None:
        if self.grouping_sets is not None:
            return None
        own = columns(i.name for i in self.keys)
        return Partition((tuple(i.expr for i in self.keys),), own, tuple(i.type for i in self.keys))

    def pruned(self, requested: frozenset[str]) -> Node:
        aggregates = tuple(i for i in self.aggregates if i.name in requested)
        if not aggregates and not self.keys:
            aggregates = self.aggregates[:1]
        below, items = pruned_through(self.input, (*self.keys, *aggregates))
        count = len(self.keys)
        return replace(self, input=below, keys=items[:count], aggregates=items[count:])

    def in_arrival_order(self) -> Node:
        ties = [column(n) for n in tie_columns(self.input.schema)]
        if not ties:
            return self
        return replace(
            self, aggregates=tuple(replace(i, expr=with_arrival(i.expr, ties, i.type)) for i in self.aggregates)
        )

    @property
    def holds(self) -> tuple[Expr, ...]:
        if self.grouping_sets is not None:
            return ()
        return renamed({i.expr.name: i.name for i in self.keys if isinstance(i.expr, exp.Column)}, self.input.holds)

    def ways(self, known: Known) -> tuple[Bounds, ...]:
        sure = self.input.never_null
        items = [(i.name, i.expr) for i in self.keys]
        items += [(i.name, i.expr.this) for i in self.aggregates if i.name == self.final_time]
        return tuple(given((n, combine(w, e, sure)) for n, e in items) for w in self.input.ways(known))

    def grouping_columns(self, known: Known) -> frozenset[str]:
        below = self.input.grouping_columns(known) | self.input.event_times(known)
        read = ((i.name, monotone(i.expr)) for i in self.keys)
        return frozenset(name for name, found in read if found is not None and found.column in below)
