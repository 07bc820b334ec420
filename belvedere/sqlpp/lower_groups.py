"""GROUP BY: the keys, the aggregates of the rest of the block, and GROUP AS.

In: binding tuples and a block with GROUP BY. Out: one tuple per group, and the block with variables in place of its
aggregates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.functions.array_aggregates import GROUP_AGGREGATES
from belvedere.functions.sqlpp_functions import is_number, unify_numbers
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Aggregate, Item
from belvedere.sqlpp.bindings import Bindings, columns_of, stored_type, with_columns
from belvedere.sqlpp.lower_tuples import Tables, TupleLowering, collected_text
from belvedere.sqlpp.query_tree import Expr, QueryBlock, called, reference
from belvedere.sqlpp.repeated_keys import behind_group
from belvedere.sqlpp.spark_text.sql_text import parsed
from belvedere.sqlpp.spark_text.sql_values import Object, SqlValue, Value, converted, merge, name

OF_DOUBLES = {
    "MEDIAN": "median", "STDDEV": "stddev_samp", "STDDEV_SAMP": "stddev_samp", "STDDEV_POP": "stddev_pop",
    "VARIANCE": "var_samp",
    "VAR_SAMP": "var_samp", "VAR_POP": "var_pop", "SKEWNESS": "skewness", "KURTOSIS": "kurtosis",
}  # fmt: skip
SIMPLE: Mapping[str, type[Any]] = {"COUNT": exp.Count, "MIN": exp.Min, "MAX": exp.Max, "SUM": exp.Sum, "AVG": exp.Avg}
"""Aggregates that rules recognize by their class."""


def grouped(
    lowering: TupleLowering, bindings: Bindings, block: QueryBlock, tables: Tables
) -> tuple[Bindings, QueryBlock]:
    """Return one tuple per group, and the block with its aggregates replaced by variables `$n`."""
    assert block.group is not None
    names = lowering.names
    bindings, values = lowering.values(bindings, [k.value for k in block.group.keys], tables)
    found = _Aggregates(lowering, bindings, tables)
    rest = behind_group(block, found.expression)
    node, pinned = names.pin(found.bindings.node, [*values, *found.arguments])
    keys, arguments = pinned[: len(values)], pinned[len(values) :]
    aggregates, after = [], {}
    for number, (function, argument) in enumerate(zip(found.functions, arguments, strict=True)):
        expr, type_ = _aggregate(function, merge(argument))
        aggregates.append(Item(names.fresh("a"), expr, stored_type(type_), nullable=function != "COUNT"))
        after[f"${number}"] = SqlValue(name(aggregates[-1].name), type_)
    variables: dict[str, Value] = {k.name.text: v for k, v in zip(block.group.keys, keys, strict=True)}
    if block.group.group is not None:
        own = {n: v for n, v in bindings.variables.items() if not n.startswith("$")}
        whole = merge(Object(own))
        type_ = pa.list_(whole.type)
        aggregates.append(Item(names.fresh("g"), parsed(collected_text(whole.sql, whole.type)), stored_type(type_)))
        variables[block.group.group.text] = SqlValue(name(aggregates[-1].name), type_)
    if not aggregates and not keys:
        aggregates.append(Item(names.fresh(), exp.Count(this=exp.Star()), pa.int64(), nullable=False))
    schema = node.schema
    columns = dict.fromkeys(bindings.apart, "")
    columns |= {
        c: let.name.text
        for let, k in zip(block.group.keys, keys, strict=True)
        for c in columns_of(k)
        if c not in columns
    }
    items = tuple(
        Item(names.named(n) if n else c, column(c), schema[c].type, schema[c].nullable) for c, n in columns.items()
    )
    own_names = dict(zip(columns, (i.name for i in items), strict=True))
    variables = {n: with_columns(v, own_names) for n, v in variables.items()}
    outside = {n: v for n, v in bindings.outside.items() if set(columns_of(v)) <= set(bindings.apart)}
    return Bindings(
        Aggregate(node, items, tuple(aggregates)), {**variables, **after}, outside=outside, apart=bindings.apart
    ), rest


class _Aggregates:
    """Replaces aggregates such as SUM(x) after GROUP BY by variables, and collects them with their arguments."""

    def __init__(self, lowering: TupleLowering, bindings: Bindings, tables: Tables):
        self.lowering, self.bindings, self.tables = lowering, bindings, tables
        self.calls: list[Expr] = []
        self.functions: list[str] = []
        self.arguments: list[Value] = []

    def expression(self, expr: Expr) -> Expr:
        def change(node: Any) -> Any:
            if called(node) not in GROUP_AGGREGATES:
                return node
            if node not in self.calls:
                self.add(node)
            return reference(f"${self.calls.index(node)}")

        found: Expr = expr.transform(change)
        return found

    def add(self, call: Expr) -> None:
        self.calls.append(call.copy())
        (argument,) = call.expressions
        if isinstance(argument, exp.Star):
            value: Value = SqlValue("1L", pa.int64())
        else:
            self.bindings, (value,) = self.lowering.values(self.bindings, [argument], self.tables)
        self.functions.append(called(call))
        self.arguments.append(merge(value))


def _aggregate(function: str, value: SqlValue) -> tuple[Expr, pa.DataType]:
    """Return an aggregate over a column, and its type."""
    if function == "COUNT":
        return exp.Count(this=parsed(value.sql)), pa.int64()
    if function in ("MIN", "MAX"):
        return SIMPLE[function](this=parsed(value.sql)), value.type
    if not is_number(value.type):
        type_ = pa.int64() if function == "SUM" else pa.float64()
        return exp.Max(this=exp.Null()), type_
    if function == "SUM":
        type_ = unify_numbers([value.type])
        return exp.Sum(this=parsed(converted(value, type_))), type_
    if function == "AVG":
        return exp.Avg(this=parsed(converted(value, pa.float64()))), pa.float64()
    return parsed(f"{OF_DOUBLES[function]}({converted(value, pa.float64())})"), pa.float64()
