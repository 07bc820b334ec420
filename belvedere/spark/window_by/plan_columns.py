"""What the parts of a plan for the kernels share: the columns of the rows that Spark prepares, and the outputs that are asked for.

In: a block and its pinned variables. Out: names of columns by SQL text. It moves no rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from belvedere.kernels import specs
from belvedere.lang.window_by.tree import Block, Expr, WindowBy
from belvedere.spark.window_by.layout import stored_type
from belvedere.spark.window_by.native import translate
from belvedere.spark.window_by.relation import fresh, is_column
from belvedere.spark.window_by.sql_values import Object, SqlValue, Untranslatable, Value, merge, name, quoted


def literal(value: Any) -> Value:
    """A Python constant as SQL text."""
    if isinstance(value, bool):
        return SqlValue(str(value).upper(), pa.bool_())
    if isinstance(value, int):
        return SqlValue(f"{value}L", pa.int64())
    if isinstance(value, float):
        return SqlValue(f"CAST('{value!r}' AS DOUBLE)", pa.float64())
    if isinstance(value, str):
        return SqlValue(quoted(value), pa.string())
    raise Untranslatable("constant")


def literal_or_none(value: Any) -> Value | None:
    """As `literal`; None where there is no such text."""
    try:
        return literal(value)
    except Untranslatable:
        return None


@dataclass
class PlanColumns:
    """The columns of one block's plan. `variables` are pinned; `constants` the values of names outside the block.

    `identity` are columns of the rows beside the variables.
    """

    block: Block
    variables: Mapping[str, Value]
    keys: Sequence[Value]
    constants: Mapping[str, Any]
    identity: tuple[str, ...] = ()
    columns: dict[str, str] = field(default_factory=dict)
    texts: dict[str, pa.DataType] = field(default_factory=dict)
    types: dict[str, pa.DataType] = field(default_factory=dict)
    candidates: dict[str, specs.ResultColumn] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    after: dict[str, Value] = field(default_factory=dict)

    @property
    def window(self) -> WindowBy:
        assert self.block.window is not None
        return self.block.window

    @property
    def item(self) -> Value:
        if len(self.variables) == 1:
            return next(iter(self.variables.values()))
        return Object(dict(self.variables))

    def environment(self) -> dict[str, Value]:
        """Names outside the block that have simple values."""
        found: dict[str, Value] = {}
        for known, value in self.constants.items():
            try:
                found[known] = literal(value)
            except Untranslatable:
                continue
        return found

    def column(self, value: SqlValue) -> str:
        """The row column that holds the value."""
        if value.sql not in self.columns:
            plain = value.sql.strip("`") if is_column(value.sql) else fresh("r")
            self.columns[value.sql] = plain
            self.texts[value.sql] = value.type
        return self.columns[value.sql]

    def text(self, value: SqlValue) -> str:
        """The value's text, with its type noted."""
        self.texts.setdefault(value.sql, value.type)
        return value.sql

    def translated(self, expr: Expr) -> SqlValue:
        return merge(translate(expr, {**self.environment(), **self.variables}))

    def output(self, output: specs.ResultColumn, type_: pa.DataType) -> str:
        self.candidates[output.output] = output
        self.types[output.output] = stored_type(type_)
        return name(output.output)
