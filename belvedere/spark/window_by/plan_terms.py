"""Conditions on tuples as terms that the kernels evaluate for many tuples at once.

In: WHEN of a boundary, or a part of it. Out: a `Term` whose leaves are columns of the rows: whatever reads one tuple alone is a column that
Spark computes; arithmetic, comparisons and logic between tuples are left. `Untranslatable` for everything else, which the interpreter does.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from functools import cached_property
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.functions.window_by import DURATION, is_number, unify
from belvedere.kernels import specs
from belvedere.kernels.values import MISSING, instant
from belvedere.lang.window_by.classes import ARITHMETIC, ITEM, OPERATORS, Summand
from belvedere.lang.window_by.names import renamed
from belvedere.lang.window_by.tree import Expr, QueryExpression
from belvedere.lang.window_by.type_rules import arithmetic_type
from belvedere.spark.window_by.interpret import compile_expression
from belvedere.spark.window_by.native import boolean, translate
from belvedere.spark.window_by.plan_columns import PlanColumns
from belvedere.spark.window_by.sql_values import (
    Object,
    SqlValue,
    Untranslatable,
    Value,
    converted,
    merge,
    micros,
    quoted,
    sql_type,
)

EPOCH = instant(date(1970, 1, 1))
SYMBOLS = {k: s for k, s in ARITHMETIC.items() if s in "+-*/"}
TypedTerm = tuple[specs.Term, pa.DataType]


class TermPlanner(PlanColumns):
    """Plans conditions on tuples."""

    @cached_property
    def sides(self) -> dict[str, tuple[str, str]]:
        """Of which tuple each variable is: label, start or end; item, previous, next or position."""
        return self.window.variables

    def condition(self, expr: Expr) -> specs.Term:
        """The condition as a term: TRUE, FALSE or unknown."""
        leaf = self.leaf(expr)
        if leaf is not None:
            return self.column_of(leaf, boolean(leaf.expr, self.over_item()))
        found, type_ = self.term(expr)
        if not pa.types.is_boolean(type_):
            raise Untranslatable("no condition")
        return found

    def term(self, node: Expr) -> TypedTerm:
        leaf = self.leaf(node)
        if leaf is not None:
            return self.read(leaf)
        if isinstance(node, exp.Column) and node.name in self.sides:
            return specs.ColumnTerm(*self.sides[node.name], None), pa.int64()
        if not any(c.name in self.sides for c in node.find_all(exp.Column)):
            return self.constant(node)
        if isinstance(node, (exp.And, exp.Or)):
            parts = (self.condition(node.left), self.condition(node.right))
            return specs.OperationTerm("and" if isinstance(node, exp.And) else "or", parts), pa.bool_()
        if isinstance(node, exp.Not):
            return specs.OperationTerm("not", (self.condition(node.this),)), pa.bool_()
        if type(node) in OPERATORS:
            return self.compared(OPERATORS[type(node)], node.this, node.expression)
        if isinstance(node, exp.Between):
            low, high = (self.compared(o, node.this, node.args[k])[0] for o, k in ((">=", "low"), ("<=", "high")))
            return specs.OperationTerm("and", (low, high)), pa.bool_()
        if type(node) in SYMBOLS:
            (left, one), (right, other) = self.term(node.this), self.term(node.expression)
            type_ = arithmetic_type(node, one, other)
            if type_ is None or kind(type_) == "other":
                raise Untranslatable("arithmetic between tuples")
            return specs.OperationTerm(SYMBOLS[type(node)], (left, right)), type_
        raise Untranslatable(f"{type(node).__name__} between tuples")

    def compared(self, operator: str, left: Expr, right: Expr) -> TypedTerm:
        leaves = self.leaf(left), self.leaf(right)
        if leaves[0] is not None and leaves[1] is not None:
            return specs.OperationTerm(operator, self.pair(leaves[0], leaves[1])), pa.bool_()
        (one, type_), (other, second) = self.term(left), self.term(right)
        if kind(type_) != kind(second):
            raise Untranslatable("a comparison of different types")
        return specs.OperationTerm(operator, (one, other)), pa.bool_()

    def constant(self, node: Expr) -> TypedTerm:
        value = plain_constant(compile_expression(node)(dict(self.constants)))
        type_ = translate(node, self.environment()).type
        if pa.types.is_null(type_):
            raise Untranslatable("NULL between tuples")
        if kind(type_) == "other" or not isinstance(value, bool | int | float | None):
            raise Untranslatable("a constant between tuples")
        return specs.ConstantTerm(value), type_

    # -- what reads one tuple alone: columns of the rows --

    def leaf(self, node: Expr) -> Summand | None:
        """The expression over `$item`, where it reads one tuple and not its position."""
        if node.find(QueryExpression):
            raise Untranslatable("a subquery in a condition on tuples")
        own = {self.sides[c.name] for c in node.find_all(exp.Column) if c.name in self.sides}
        side, role = next(iter(own), ("", "position"))
        return (
            None if len(own) > 1 or role == "position" else Summand(side, role, renamed(node, dict.fromkeys(self.sides, ITEM)))
        )

    def over_item(self) -> dict[str, Value]:
        return {**self.environment(), ITEM: self.item}

    def read(self, leaf: Summand) -> TypedTerm:
        """A column of numbers, times, spans or booleans."""
        value = merge(translate(leaf.expr, self.over_item()))
        if kind(value.type) == "other":
            raise Untranslatable(f"{value.type} between tuples")
        return self.column_of(leaf, comparable(value, None)), value.type

    def column_of(self, leaf: Summand, value: SqlValue) -> specs.ColumnTerm:
        missing = plain_constant(compile_expression(leaf.expr)({**self.constants, ITEM: MISSING}))
        if not isinstance(missing, bool | int | float | None):
            raise Untranslatable("a value where a tuple is MISSING")
        return specs.ColumnTerm(leaf.side, leaf.role, self.column(value), missing)

    def pair(self, left: Summand, right: Summand) -> tuple[specs.Term, specs.Term]:
        """Two columns that can be compared."""
        values = [self.whole(x) for x in (left, right)]
        kinds = {kind(v.type) for v in values}
        common = unify([v.type for v in values]) if "other" in kinds else None
        if ("other" in kinds or len(kinds) > 1) and (common is None or pa.types.is_null(common)):
            raise Untranslatable("a comparison of different types")
        one, other = (self.column_of(x, comparable(v, common)) for x, v in zip((left, right), values, strict=True))
        return one, other

    def whole(self, leaf: Summand) -> SqlValue:
        """The value as one SQL text; an object as a text that is equal where the object is."""
        value = translate(leaf.expr, self.over_item())
        if pa.types.is_list(value.type) or pa.types.is_map(value.type):
            raise Untranslatable("a comparison of arrays")
        return value if isinstance(value, SqlValue) and not pa.types.is_struct(value.type) else text_key(value)

    def total(self, parts: Sequence[Summand]) -> specs.Term:
        """A sum of whole numbers, times and spans."""
        found: specs.Term | None = None
        for part in sorted(parts, key=lambda p: -p.sign):
            one = self.summand(part)
            if found is None and part.sign > 0:
                found = one
            else:
                found = specs.OperationTerm("+" if part.sign > 0 else "-", (found or specs.ConstantTerm(0), one))
        return found or specs.ConstantTerm(0)

    def summand(self, part: Summand) -> specs.Term:
        if part.role == "position":
            return specs.ColumnTerm(part.side, "position", None)
        return self.read(part)[0] if part.side else self.constant(part.expr)[0]


def plain_constant(value: Any) -> Any:
    """A constant as the kernels compare it: times and durations as microseconds."""
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if isinstance(value, date):
        return (instant(value) - EPOCH) // timedelta(microseconds=1)
    return None if value is MISSING else value


def kind(type_: pa.DataType) -> str:
    """What a value may be compared with."""
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return "number"
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        return "time"
    return "span" if type_ == DURATION else "boolean" if pa.types.is_boolean(type_) else "other"


def comparable(value: SqlValue, common: pa.DataType | None) -> SqlValue:
    """A value as the kernels compare it."""
    type_ = value.type
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_) or type_ == DURATION:
        return SqlValue(micros(value), pa.int64())
    if common is not None and is_number(common):
        if pa.types.is_decimal(common):
            return SqlValue(f"CAST({value.sql} AS {sql_type(common)})", common)
        return SqlValue(converted(value, common), common)
    return SqlValue(converted(value, pa.int64()), pa.int64()) if pa.types.is_integer(type_) else value


def text_key(value: Value) -> SqlValue:
    """An object as text that is equal exactly where the objects are, for deep equality of objects of one type."""
    if not isinstance(value, Object):
        raise Untranslatable("a comparison of objects")
    parts = []
    for label, inner in value.fields.items():
        leaf = merge(inner)
        if pa.types.is_nested(leaf.type):
            raise Untranslatable("a comparison of nested objects")
        if pa.types.is_date(leaf.type) or pa.types.is_timestamp(leaf.type) or leaf.type == DURATION:
            text = micros(leaf)
        elif pa.types.is_floating(leaf.type):
            text = f"CAST({leaf.sql} + 0.0D AS STRING)"
        else:
            text = leaf.sql
        parts.append(f"{quoted(label)}, {text}")
    text = f"to_json(named_struct({', '.join(parts)}))"
    return SqlValue(text if value.missing is None else f"IF({value.missing}, NULL, {text})", pa.string(), value.missing)
