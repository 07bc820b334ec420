"""Operator of WITH RECURSIVE: a query whose rows are the input of a step, repeated until the step returns no new row.

In: plans. Out: a plan node that knows its schema, its key and the relations that it reads; nothing is executed here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from belvedere.plan.cached_values import cached_property
from belvedere.plan.expressions import Expr
from belvedere.plan.operators.node import Node, Part
from belvedere.plan.operators.scan import Scan
from belvedere.schema import Column, Schema

LEVELS = 100
"""Default maximum number of steps: Spark's `spark.sql.cteRecursionLevelLimit`."""
ROWS = 1_000_000
"""Maximum number of rows: Spark's `spark.sql.cteRecursionRowLimit`."""
LAST = "last"
"""Name of the scan in the step that reads the rows of the last level."""


@dataclass(frozen=True)
class Last(Node):
    """The rows of the last level while a step is lowered; `parted` separates it from the rest of the step."""

    columns: tuple[Column, ...]
    alias: str
    """Name that distinguishes the recursions of a statement."""

    @cached_property
    def schema(self) -> Schema:
        return Schema(self.columns)

    @property
    def text(self) -> str:
        return "last"


@dataclass(frozen=True)
class Recursion(Node):
    """The rows of `base`, those of `step` over them, those of `step` over these, and so on.

    `step` is a plan over scans: of `last`, and of `side0`, `side1`, ... for the `sides`, which do not read the
    recursion. With `distinct` (UNION) a level has only rows that no earlier level had, so cycles end. Otherwise (UNION
    ALL) it has all rows of the step, and the hidden column `copy` numbers equal rows from 1. After `levels` steps the
    last one must be empty.
    """

    name: str
    columns: tuple[Column, ...]
    base: Node
    sides: tuple[Node, ...]
    step: Node
    distinct: bool
    levels: int = LEVELS
    copy: str | None = None

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.base, *self.sides)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, base=inputs[0], sides=inputs[1:])

    @property
    def expressions(self) -> tuple[Expr, ...]:
        return tuple(e for node in self.step.walk() for e in node.expressions)

    def with_parts(self, change: Callable[[Part], Part]) -> Node:
        def changed(node: Node) -> Node:
            return node.with_inputs(tuple(map(changed, node.inputs))).with_parts(change)

        return replace(self, step=changed(self.step))

    @cached_property
    def schema(self) -> Schema:
        names = tuple(c.name for c in self.columns)
        if self.copy is None:
            return Schema(self.columns, names)
        number = Column(self.copy, pa.int32(), nullable=False, hidden=True)
        return Schema((*self.columns, number), (*names, self.copy))

    @property
    def text(self) -> str:
        kind = "union" if self.distinct else "union all"
        return f"recursion {self.name} by {kind}, at most {self.levels} levels"

    @property
    def inner_plans(self) -> tuple[tuple[str, Node], ...]:
        return (("step", self.step),)

    def forgiving(self, views: Mapping[str, Schema], expressions: bool) -> Node:
        base, *sides = (i.forgiving(views, expressions) for i in self.inputs)
        return replace(self, base=base, sides=tuple(sides), step=self.step.forgiving({}, expressions))


def parted(step: Node, last: Last) -> tuple[Node, tuple[Node, ...]]:
    """Return a step over scans of `last` and of its sides, and the sides: the largest parts that do not read the
    recursion."""
    sides: list[Node] = []

    def part(node: Node) -> Node:
        if node == last:
            return Scan(LAST, node.schema)
        if last not in node.walk():
            sides.append(node)
            return Scan(side_name(len(sides) - 1), node.schema)
        return node.with_inputs(tuple(map(part, node.inputs)))

    return part(step), tuple(sides)


def side_name(number: int) -> str:
    """Return the name of the scan in the step that reads a side."""
    return f"side{number}"
