"""Relational operator of SPL's joins: pairs of rows of two streams, found through each other's sliding windows.

In: two append-only relations, each with a window. Out: an append-only relation of results. The module does not compute
the pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa

from belvedere.plan.cached_values import cached_property
from belvedere.plan.expression_text import expression_text
from belvedere.plan.expressions import Expr, columns_of
from belvedere.plan.operators.emit import SEQUENCE
from belvedere.plan.operators.join import JoinKind
from belvedere.plan.operators.node import Node
from belvedere.plan.operators.spl_windows import Policy, Sliding, SplWindow
from belvedere.schema import TIMESTAMP, Column, Schema

FIRED, FIRING = "_fired", "_firing"
"""Hidden columns of append-only window results: the time and the number of the firing that created the row."""


@dataclass(frozen=True)
class JoinedWindow:
    """The window of one side: `partition` are columns of it; `order` and `clock` are as in `SplAggregate`."""

    window: SplWindow
    partition: tuple[str, ...]
    order: str
    clock: str

    @property
    def text(self) -> str:
        """Return the clause and its partitioning as text."""
        by = f" partitioned by {', '.join(self.partition)}" if self.partition else ""
        return f"({self.window.text}{by})"

    @property
    def eviction(self) -> Policy:
        """Return the eviction policy."""
        assert isinstance(self.window.kind, Sliding)
        return self.window.kind.eviction

    @property
    def columns(self) -> frozenset[str]:
        """Return the side's columns that the window reads."""
        return self.window.columns.union(self.partition, (self.order, self.clock))


@dataclass(frozen=True)
class SplJoin(Node):
    """A row that arrives at one side is joined with the contents of the other side's window, over all its partitions.
    Then it enters its own window.

    Rows that are too old leave before that. On an outer side (preserved by the kind) an unmatched row is a result when
    it leaves its window: at its time, or after the row that replaces it has entered. `count(0)` holds nothing: its rows
    leave as they arrive.

    With `one_order` both sides number their rows by one sequence: rows arrive in the order of `order`, the left one
    first at equal numbers. Otherwise they arrive by their clock, the left side's first. The rows of one epoch come
    before those of the next.

    The results are in the order of their causes: for an arriving row first its matches as they arrived, then the rows
    that it evicts. The hidden columns FIRED and FIRING are the time and the number of the arrival or timeout that
    created a result; SEQUENCE numbers the results.
    """

    left: Node
    right: Node
    kind: JoinKind
    condition: Expr | None
    windows: tuple[JoinedWindow, JoinedWindow]
    one_order: bool = True

    is_historic: ClassVar[bool] = True

    @property
    def text(self) -> str:
        left, right = (w.text for w in self.windows)
        on = "" if self.condition is None else f" on {expression_text(self.condition)}"
        return f"spl {self.kind} join of {left} and {right}{on}" + (
            "" if self.one_order else " in order of their clocks"
        )

    def pruned(self, requested: frozenset[str]) -> Node:
        read = columns_of(self.condition) if self.condition is not None else frozenset()
        sides = zip(self.inputs, self.windows, strict=True)
        return self.with_inputs(
            tuple(
                i.pruned(frozenset(i.schema.names) & (requested | read | w.columns) | frozenset(i.schema.key or ()))
                for i, w in sides
            )
        )

    @property
    def outer(self) -> tuple[bool, bool]:
        """Return for the left and the right side whether unmatched rows are results."""
        full = self.kind is JoinKind.FULL
        return full or self.kind is JoinKind.LEFT, full or self.kind is JoinKind.RIGHT

    @cached_property
    def schema(self) -> Schema:
        outer = self.outer
        columns = tuple(
            replace(c, nullable=c.nullable or other)
            for side, other in zip(self.inputs, reversed(outer), strict=True)
            for c in side.schema
        )
        made = (
            Column(FIRED, TIMESTAMP, nullable=False, hidden=True),
            Column(FIRING, pa.int64(), nullable=False, hidden=True),
            Column(SEQUENCE, pa.int64(), nullable=False, hidden=True),
        )
        return Schema((*columns, *made), (SEQUENCE,))
