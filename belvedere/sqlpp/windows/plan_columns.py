"""Shared state of a plan for the kernels: the columns of the rows that Spark prepares, and the requested outputs.

In: a block and its pinned variables. Out: names of columns by SQL text. It moves no rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from belvedere.plan.operators import window_specs as specs
from belvedere.sqlpp.bindings import Names, stored_type
from belvedere.sqlpp.query_tree import Expr, QueryBlock, WindowBy
from belvedere.sqlpp.spark_text.native import translate
from belvedere.sqlpp.spark_text.sql_text import is_column
from belvedere.sqlpp.spark_text.sql_values import Object, SqlValue, Value, merge, name


@dataclass
class PlanColumns:
    """The columns of one block's plan. `variables` are pinned; `outside` has the values of outer names."""

    block: QueryBlock
    variables: Mapping[str, Value]
    keys: Sequence[Value]
    outside: Mapping[str, Value] = field(default_factory=dict)
    names: Names = field(default_factory=Names)
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

    def column(self, value: SqlValue) -> str:
        """Return the row column that holds the value."""
        if value.sql not in self.columns:
            plain = value.sql.strip("`") if is_column(value.sql) else self.names.fresh("r")
            self.columns[value.sql] = plain
            self.texts[value.sql] = value.type
        return self.columns[value.sql]

    def text(self, value: SqlValue) -> str:
        """Return the value's text, and record its type."""
        self.texts.setdefault(value.sql, value.type)
        return value.sql

    def translated(self, expr: Expr) -> SqlValue:
        return merge(translate(expr, {**self.outside, **self.variables}))

    def output(self, output: specs.ResultColumn, type_: pa.DataType) -> SqlValue:
        """Return the column of a kernel output."""
        self.candidates[output.output] = output
        self.types[output.output] = stored_type(type_)
        return SqlValue(name(output.output), type_)
