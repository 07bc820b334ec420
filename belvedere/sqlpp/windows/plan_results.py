"""Outputs of the kernels for a query's expressions over its window: aggregates, members, single tuples.

In: the expressions after WINDOW BY. Out: the same with variables over the kernels' output, or `Untranslatable` with the
reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.functions.function_table import WINDOW_AGGREGATES
from belvedere.functions.sqlpp_functions import is_number, unify_numbers
from belvedere.plan.operators import window_specs as specs
from belvedere.sqlpp.query_names import free_in
from belvedere.sqlpp.query_tree import Expr, FromTerm, Query, QueryBlock, QueryExpression, Select, called, reference
from belvedere.sqlpp.spark_text.native import boolean, translate
from belvedere.sqlpp.spark_text.native_arrays import whole_number
from belvedere.sqlpp.spark_text.sql_text import Open, constant_of
from belvedere.sqlpp.spark_text.sql_values import (
    MISSING_VALUE,
    NOTHING,
    Array,
    Object,
    SqlValue,
    Untranslatable,
    Value,
    converted,
    may_miss,
    merge,
    name,
    with_missing,
)
from belvedere.sqlpp.spark_text.sql_values import field as field_of
from belvedere.sqlpp.windows.plan_terms import TermPlanner


class ResultPlanner(TermPlanner):
    """Replaces a query's expressions on the window by variables over the kernel's output."""

    def rewrite(self, expr: Expr) -> Expr:
        span = expr.meta.get("span")
        found: Expr = expr.transform(lambda node: node if (new := self.replaced(node)) is None else new)
        own = self.window.name.text
        if own in free_in(found):
            self.after.setdefault(own, self.rows())
        if span is not None:
            found.meta["span"] = span
        return found

    def is_window(self, node: Any) -> bool:
        return isinstance(node, exp.Column) and node.name == self.window.name.text

    def starred(self, node: Any) -> str | None:
        """Return the name of the field in `w[*].field`; None for other nodes."""
        if not isinstance(node, exp.Dot) or not isinstance(node.this, exp.Bracket):
            return None
        bracket = node.this
        return (
            node.expression.name
            if self.is_window(bracket.this) and isinstance(bracket.expressions[0], exp.Star)
            else None
        )

    def variable(self, value: Value) -> Expr:
        label = f"${len(self.after)}"
        self.after[label] = value
        return reference(label)

    def replaced(self, node: Any) -> Expr | None:
        function = called(node)
        if function in ("LEN", "ARRAY_LENGTH") and self.is_window(node.expressions[0]):
            return self.variable(self.output(specs.Length(self.names.fresh("o")), pa.int64()))
        if function in WINDOW_AGGREGATES:
            value = self.aggregate(function, node)
            return None if value is None else self.variable(value)
        if isinstance(node, exp.Bracket) and self.is_window(node.this):
            place = whole_number(node.expressions[0])
            if place is not None:
                return self.variable(self.nth(self.item, place))
        starred = self.starred(node)
        if starred is not None:
            return self.variable(self.members(field_of(self.item, starred)))
        return None

    def rows(self) -> Value:
        """Return the window as an array of items. MISSING items and fields stay MISSING."""
        item, window = self.item, self.window
        closed = window.end is not None and (window.only or window.end.unbounded)
        exact = closed and (window.label is None or window.start.unbounded)
        if not may_miss(item) and (exact or isinstance(item, Object)):
            plain = self.members(item)
            if exact:
                return plain
            return Array(plain.sql, plain.type, None, plain.sql, lambda t: _object(t, item.type))
        leaves: list[tuple[str, SqlValue]] = []
        read = _leaves(item, leaves)
        output = specs.Members(self.names.fresh("o"), tuple((n, self.text(v)) for n, v in leaves), False)
        array = self.output(output, pa.list_(pa.struct([(n, v.type) for n, v in leaves])))
        missing = (lambda t: None) if exact else (lambda t: f"({t} IS NULL)")
        return Array(array.sql, pa.list_(item.type), None, None, lambda t: with_missing(read(t), missing(t)))

    def nth(self, value: Value, place: int) -> Value:
        """Return `w[place]`, leaf by leaf."""
        if isinstance(value, Object):
            leaves = {n: self.nth(f, place) for n, f in value.fields.items()}
            if not leaves:
                raise Untranslatable("an empty object")
            return Object(leaves, next(iter(leaves.values())).missing)
        output = specs.Nth(self.names.fresh("o"), self.names.fresh("f"), place, self.text(value))
        self.candidates[output.flag] = output
        self.types[output.flag] = pa.bool_()
        return replace(self.output(output, value.type), missing=name(output.flag))

    def members(self, value: Value) -> SqlValue:
        """Return the window's rows as an array, with NULL for MISSING elements."""
        if isinstance(value, Object):
            leaves = [(n, merge(f)) for n, f in value.fields.items()]
            output = specs.Members(self.names.fresh("o"), tuple((n, self.text(s)) for n, s in leaves), False)
        else:
            text = self.text(SqlValue(NOTHING, value.type) if pa.types.is_null(value.type) else value)
            output = specs.Members(self.names.fresh("o"), (("", text),), True)
        return self.output(output, pa.list_(value.type))

    def aggregate(self, function: str, node: Expr) -> Value | None:
        """Return an aggregate of the window's rows; None if its argument has another form."""
        prefix, kind = function.split("_", 1)
        fraction = 0.5
        if kind == "PERCENTILE":
            given = constant_of(self.translated(node.expressions[1]).sql)
            if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
                return None
            fraction = float(given)
        argument = node.expressions[0]
        if kind == "COUNT" and prefix == "ARRAY" and called(argument) == "ARRAY_DISTINCT":
            argument, kind = argument.expressions[0], "DISTINCT"
        source = self.source(argument)
        return None if source is None else self.aggregated(kind, prefix == "STRICT", fraction, *source)

    def source(self, argument: Expr) -> tuple[SqlValue, SqlValue | None, bool] | None:
        """Return the aggregated expression of the item: value, filter, and whether the MISSING of an unclosed window
        counts."""
        starred = self.starred(argument)
        if starred is not None:
            return merge(field_of(self.item, starred)), None, True
        if self.is_window(argument):
            return merge(self.item), None, True
        if not isinstance(argument, QueryExpression):
            return None
        found = _simple_subquery(argument, self.window.name.text)
        if found is None:
            return None
        variable, value, where = found
        if {c.name for e in (value, where) if e is not None for c in e.find_all(exp.Column)} - {
            variable,
            *self.outside,
        }:
            return None
        env: dict[str, Value] = {**self.outside, variable: self.item}
        nowhere: dict[str, Value] = {**env, variable: MISSING_VALUE}
        kept = True if where is None else constant_of(boolean(where, nowhere).sql)
        if kept is Open or (kept is True and constant_of(merge(translate(value, nowhere)).sql) is not None):
            return None
        condition = None if where is None else boolean(where, env)
        return merge(translate(value, env)), condition, kept is True

    def aggregated(
        self, kind: str, strict: bool, fraction: float, value: SqlValue, where: SqlValue | None, extra: bool
    ) -> Value | None:
        """Return the aggregate of a value of the rows; None if the array of the values must be aggregated instead."""
        numeric = kind not in ("COUNT", "MIN", "MAX", "DISTINCT")
        kind = {"MEDIAN": "PERCENTILE", "STDDEV": "STDDEV_SAMP", "VARIANCE": "VAR_SAMP"}.get(kind, kind)
        decimal = pa.types.is_decimal(value.type)
        wide = kind == "SUM" and decimal and value.type.precision > specs.MAX_DECIMAL_DIGITS
        if wide or (numeric and not is_number(value.type)):
            return None
        column = value
        if numeric and decimal and kind != "SUM":
            column = SqlValue(converted(value, pa.float64()), pa.float64())
        elif numeric and not decimal:
            column = SqlValue(converted(value, unify_numbers([value.type])), unify_numbers([value.type]))
        elif pa.types.is_nested(value.type):
            if kind != "COUNT":
                raise Untranslatable(f"{kind} of objects or arrays")
            column = SqlValue(f"IF({merge(value).sql} IS NULL, NULL, 1L)", pa.int64())
        type_ = {"COUNT": pa.int64(), "DISTINCT": pa.int64(), "MIN": value.type, "MAX": value.type}.get(
            kind, pa.float64()
        )
        if kind == "SUM":
            type_ = pa.decimal128(38, value.type.scale) if decimal else column.type
        included = self.text(where) if where is not None else None
        output = specs.WindowAggregate(
            self.names.fresh("o"), kind, self.text(column), included, strict, extra, fraction
        )
        return self.output(output, type_)


def _object(text: str, type_: pa.DataType) -> Object:
    """Return an object that is MISSING if its text is NULL."""
    whole = SqlValue(text, type_)
    return Object({f.name: field_of(whole, f.name) for f in type_}, f"({text} IS NULL)")


def _leaves(value: Value, leaves: list[tuple[str, SqlValue]]) -> Callable[[str], Value]:
    """Append the columns of a value and of its flags.

    Return a function that reads the value from an object of these.
    """

    def leaf(found: SqlValue) -> str:
        leaves.append((f"l{len(leaves)}", found))
        return leaves[-1][0]

    flag = None if value.missing is None else leaf(SqlValue(value.missing, pa.bool_()))
    if isinstance(value, Object):
        fields = {n: _leaves(f, leaves) for n, f in value.fields.items()}
        return lambda t: Object({n: read(t) for n, read in fields.items()}, None if flag is None else f"{t}.`{flag}`")
    column, type_ = leaf(SqlValue(value.sql, value.type)), value.type
    return lambda t: SqlValue(f"{t}.`{column}`", type_, None if flag is None else f"{t}.`{flag}`")


def _simple_subquery(node: QueryExpression, window: str) -> tuple[str, Expr, Expr | None] | None:
    """Return `(SELECT VALUE e FROM w AS x WHERE c)` as (x, e, c); None for other queries."""
    block = node.query.blocks[0]
    if not block.sources or block.select.value is None:
        return None
    source, value, where = block.sources[0], block.select.value, block.where
    plain = QueryBlock(Select(value), (FromTerm(source.variable, source.expr),), where=where, span=block.span)
    reads_window = isinstance(source.expr, exp.Column) and source.expr.name == window
    if (
        node.query != Query((plain,))
        or not reads_window
        or any(e.find(QueryExpression) for e in (value, where) if e is not None)
    ):
        return None
    return source.variable.text, value, where
