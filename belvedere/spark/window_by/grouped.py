"""GROUP BY in Spark: the keys, the aggregates of the rest of the block, and GROUP AS.

In: binding tuples and a block with GROUP BY. Out: one tuple per group, and the block with variables in place of its aggregates.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F
from sqlglot import exp

from belvedere.functions.arrays import GROUP_AGGREGATES
from belvedere.functions.table import canonical
from belvedere.functions.window_by import is_number, unify_numbers
from belvedere.lang.window_by.group import behind_group
from belvedere.lang.window_by.tree import Block, Expr
from belvedere.spark.window_by.layout import columns_of, layout_of
from belvedere.spark.window_by.relation import (
    Bindings,
    fresh,
    pin,
)
from belvedere.spark.window_by.sql_values import Object, SqlValue, Value, converted, merge, name, sql_type, unsortable
from belvedere.spark.window_by.tuples import TablesInScope, Tuples

GROUP_FUNCTIONS = {
    "COUNT": "count({0})", "SUM": "sum({0})", "AVG": "avg(CAST({0} AS DOUBLE))", "MIN": "min({0})", "MAX": "max({0})",
    "MEDIAN": "median(CAST({0} AS DOUBLE))", "STDDEV": "stddev_samp({0})", "STDDEV_SAMP": "stddev_samp({0})",
    "STDDEV_POP": "stddev_pop({0})", "VARIANCE": "var_samp({0})", "VAR_SAMP": "var_samp({0})", "VAR_POP": "var_pop({0})",
    "SKEWNESS": "skewness({0})", "KURTOSIS": "kurtosis({0})",
}  # fmt: skip


def grouped(tuples: Tuples, bindings: Bindings, block: Block, names: TablesInScope) -> tuple[Bindings, Block]:
    """GROUP BY in Spark; aggregates in the rest of the block become variables `$n`."""
    assert block.group is not None
    bindings, values = tuples.values(bindings, [k.value for k in block.group.keys], names)
    frame, keys = pin(bindings.frame, values)
    bindings = replace(bindings, frame=frame)
    rewriter = _Aggregates(tuples, bindings, names)
    block = behind_group(block, rewriter.expression)
    bindings = rewriter.bindings
    columns = list(dict.fromkeys(c for k in keys for c in columns_of(layout_of(k))))
    aggregates = list(rewriter.columns)
    variables: dict[str, Value] = {k.name.text: v for k, v in zip(block.group.keys, keys, strict=True)}  # type: ignore[union-attr]
    if block.group is not None and block.group.group is not None:
        own = {n: v for n, v in bindings.variables.items() if not n.startswith("$")}
        whole, column = merge(Object(own)), fresh("g")
        collected = f"collect_list({whole.sql})"  # in an order that does not depend on how the rows arrive
        aggregates.append(F.expr(collected if unsortable(whole.type) else f"array_sort({collected})").alias(column))
        variables[block.group.group.text] = SqlValue(name(column), pa.list_(whole.type))
    if not aggregates:
        aggregates.append(F.count(F.lit(1)).alias(fresh()))
    return Bindings(bindings.frame.groupBy(*columns).agg(*aggregates), {**variables, **rewriter.variables}), block


class _Aggregates:
    """Replaces SUM(x) and the like after GROUP BY by variables, and collects their columns."""

    def __init__(self, tuples: Tuples, bindings: Bindings, names: TablesInScope):
        self.tuples, self.bindings, self.names = tuples, bindings, names
        self.columns: list[Any] = []
        self.variables: dict[str, Value] = {}

    def expression(self, expr: Expr) -> Expr:
        def change(node: Any) -> Any:
            if isinstance(node, exp.Anonymous) and canonical(node.name) in GROUP_AGGREGATES:
                return exp.Column(this=exp.to_identifier(self.variable(canonical(node.name), node.expressions[0])))
            return node

        found: Expr = expr.transform(change)
        return found

    def variable(self, function: str, argument: Expr) -> str:
        label, column = f"${len(self.variables)}", fresh("a")
        if isinstance(argument, exp.Star):
            text, type_ = "count(1)", pa.int64()
        else:
            self.bindings, (value,) = self.tuples.values(self.bindings, [argument], self.names)
            text, type_ = self.text(function, merge(value))
        self.columns.append(F.expr(text).alias(column))
        self.variables[label] = SqlValue(name(column), type_)
        return label

    def text(self, function: str, value: SqlValue) -> tuple[str, pa.DataType]:
        if function == "COUNT":
            return f"count({value.sql})", pa.int64()
        if function in ("MIN", "MAX"):
            return GROUP_FUNCTIONS[function].format(value.sql), value.type
        if not is_number(value.type):
            return (
                "CAST(NULL AS DOUBLE)" if function != "SUM" else "CAST(NULL AS BIGINT)",
                pa.float64() if function != "SUM" else pa.int64(),
            )
        if function == "SUM":
            type_ = unify_numbers([value.type])
            return f"CAST(sum({converted(value, type_)}) AS {sql_type(type_)})", type_
        return GROUP_FUNCTIONS[function].format(value.sql), pa.float64()
