"""A recursion inside a plan as the Spark SQL of its parts: the first rows, the step to the next level, and the
comparison of levels.

In: a `Recursion`. Out: texts over temporary views that stay the same from level to level. `belvedere.engine.fixpoint`
runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from belvedere.engine.sql.plan_sql import render
from belvedere.functions.spark_types import quote
from belvedere.plan.expressions import column, row_number
from belvedere.plan.operators.nodes import Item, Node, Scan, Window
from belvedere.plan.operators.recursion import LAST, Recursion, side_name
from belvedere.plan.plan_properties import base_scan
from belvedere.plan.rewrites.rewrite import replace_scans
from belvedere.schema import Schema


@dataclass(frozen=True)
class RecursionOperator:
    """The recursion behind the scan `name`. Its rows are those of all levels."""

    name: str
    node: Recursion
    base: str
    step: str
    """SQL of a level, over the view of the scan `last`; for UNION without the rows of the view of the scan `seen`."""
    sides: tuple[tuple[str, str, pa.Schema], ...]
    """Inputs of the step that are computed once: the scan, its text, its schema."""

    @property
    def last(self) -> str:
        """Return the scan of the previous level."""
        return f"{self.name}_{LAST}"

    @property
    def seen(self) -> str:
        """Return the scan of all levels so far."""
        return f"{self.name}_seen"

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of a level."""
        return Schema(self.node.columns).arrow


def recursion_operator(name: str, node: Recursion, view_of: Callable[[str], str], clock: str) -> RecursionOperator:
    """Return the texts of a recursion whose scan is `name`. `view_of` and `clock` are as for `render`."""
    names = ", ".join(quote(c.name) for c in node.columns)
    word = "SELECT DISTINCT" if node.distinct else "SELECT"
    sides, scans = [], {LAST: Scan(f"{name}_{LAST}", Schema(node.columns))}
    inputs: dict[str, Node] = dict(scans)
    for number, side in enumerate(node.sides):
        own = f"{name}_{side_name(number)}"
        is_stored = base_scan(side) is not None
        inputs[side_name(number)] = side if is_stored else Scan(own, side.schema)
        if not is_stored:
            sides.append((own, render(side, view_of, clock), side.schema.arrow))
    step = render(replace_scans(node.step, lambda scan: inputs[scan.relation]), view_of, clock)
    level = f"{word} {names} FROM ({step}) AS t"
    if node.distinct:
        level += f" EXCEPT SELECT {names} FROM {quote(view_of(f'{name}_seen'))}"
    base = f"{word} {names} FROM ({render(node.base, view_of, clock)}) AS t"
    return RecursionOperator(name, node, base, level, tuple(sides))


def numbered(name: str, node: Recursion) -> Node:
    """Return the rows of the scan `name`, with numbers for equal rows if these are allowed."""
    levels = Scan(name, Schema(node.columns))
    if node.copy is None:
        return levels
    by = [column(c.name) for c in node.columns]
    order = exp.Order(expressions=[exp.Ordered(this=exp.Literal.number(1))])  # they are equal
    return Window(levels, (Item(node.copy, row_number(by, order), pa.int32(), nullable=False, hidden=True),))
