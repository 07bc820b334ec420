"""The relational operator of SPL's joins: the rows of two streams that meet in each other's sliding windows.

In: two relations of rows that only arrive, with a window each. Out: a relation of results, which only grows. Nothing here says how pairs
are found.
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
"""Hidden columns of what a window makes as rows that only arrive: the time and the number of the firing that made the row."""


@dataclass(frozen=True)
class JoinedWindow:
    """The window of one side: `partition` are columns of it, `order` and `clock` as those of an `SplAggregate`."""

    window: SplWindow
    partition: tuple[str, ...]
    order: str
    clock: str

    @property
    def text(self) -> str:
        """The clause, and by what it is partitioned."""
        by = f" partitioned by {', '.join(self.partition)}" if self.partition else ""
        return f"({self.window.text}{by})"

    @property
    def eviction(self) -> Policy:
        """By what rows leave."""
        assert isinstance(self.window.kind, Sliding)
        return self.window.kind.eviction

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the side that the window reads."""
        return self.window.columns.union(self.partition, (self.order, self.clock))


@dataclass(frozen=True)
class SplJoin(Node):
    """A row that arrives at one side is joined with what the other side's window holds, of all its partitions, and enters its own window.

    Rows that are too old leave before that. On an outer side (that is kept by the kind) a row without a match is a result as it leaves
    its window: at its time, or as the row that takes its place has entered. `count(0)` holds nothing: its rows leave as they arrive.

    Rows of both sides arrive in the order of `order` where `one_order` says that both number their rows by one sequence, at equal numbers
    the left one first; else by their clock, the left side's first. The rows of one epoch come before those of the next.

    The results come in the order of what made them: for a row that arrives first its matches as they arrived, then what leaves for it.
    The hidden columns FIRED and FIRING are the time and the number of the arrival or of the age that made a result; SEQUENCE numbers them.
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
        """Whether rows without a match are results, of the left side and of the right one."""
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
