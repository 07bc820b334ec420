"""A condition between two tuples of no known class, as terms that the kernels evaluate for many pairs at once.

In: WHEN of START or END. Out: a `Term` whose leaves are columns of the rows: whatever reads one tuple alone is a column that Spark
computes; arithmetic, comparisons and logic between tuples are left. `Untranslatable` for everything else, which the interpreter does.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from belvedere.functions.window_by import DURATION
from belvedere.kernels import specs
from belvedere.kernels.values import MISSING
from belvedere.lang.window_by.classes import ARITHMETIC, ITEM, OPERATORS
from belvedere.lang.window_by.names import renamed
from belvedere.lang.window_by.tree import Expr, QueryExpression
from belvedere.lang.window_by.type_rules import arithmetic_type
from belvedere.spark.window_by.interpret import compile_expression
from belvedere.spark.window_by.native import translate
from belvedere.spark.window_by.plan_columns import PlanColumns
from belvedere.spark.window_by.plan_values import plain_constant
from belvedere.spark.window_by.sql_values import SqlValue, Untranslatable, converted, merge, micros

SYMBOLS = {k: s for k, s in ARITHMETIC.items() if s in "+-*/"}
TypedTerm = tuple[specs.Term, pa.DataType]


class PairPlanner(PlanColumns):
    """Plans conditions between tuples."""

    def condition(self, expr: Expr) -> specs.Term:
        """The condition as a term; TRUE, FALSE or unknown for a pair."""
        found, type_ = self.term(expr)
        if not pa.types.is_boolean(type_):
            raise Untranslatable("no condition")
        return found

    def term(self, node: Expr) -> TypedTerm:
        own = {self.window.variables[c.name] for c in node.find_all(exp.Column) if c.name in self.window.variables}
        if node.find(QueryExpression):
            raise Untranslatable("a subquery between tuples")
        if not own:
            return self.constant(node)
        if len(own) == 1:
            side, role = next(iter(own))
            if role == "position":
                if isinstance(node, exp.Column):
                    return specs.ColumnTerm(side, "position", None), pa.int64()
            else:
                return self.read(node, side, role)
        if isinstance(node, (exp.And, exp.Or)):
            parts = (self.condition(node.left), self.condition(node.right))
            return specs.OperationTerm("and" if isinstance(node, exp.And) else "or", parts), pa.bool_()
        if isinstance(node, exp.Not):
            return specs.OperationTerm("not", (self.condition(node.this),)), pa.bool_()
        if type(node) in OPERATORS:
            return self.compared(OPERATORS[type(node)], self.term(node.this), self.term(node.expression))
        if isinstance(node, exp.Between):
            value, low, high = (self.term(node.args[k]) for k in ("this", "low", "high"))
            parts = (self.compared(">=", value, low)[0], self.compared("<=", value, high)[0])
            return specs.OperationTerm("and", parts), pa.bool_()
        if type(node) in SYMBOLS:
            return self.computed(node, self.term(node.this), self.term(node.expression))
        raise Untranslatable(f"{type(node).__name__} between tuples")

    def constant(self, node: Expr) -> TypedTerm:
        if isinstance(node, exp.Null):
            raise Untranslatable("NULL between tuples")
        value = plain_constant(compile_expression(node)(dict(self.constants)))
        type_ = translate(node, self.environment()).type
        if not isinstance(value, bool | int | float) or not known(type_):
            raise Untranslatable("a constant between tuples")
        return specs.ConstantTerm(value), type_

    def read(self, node: Expr, side: str, role: str) -> TypedTerm:
        """What reads one tuple alone: a column of the rows."""
        variable = next(c.name for c in node.find_all(exp.Column) if c.name in self.window.variables)
        value = merge(translate(renamed(node, {variable: ITEM}), {**self.environment(), ITEM: self.item}))
        if not known(value.type):
            raise Untranslatable(f"{value.type} between tuples")
        text = value
        if pa.types.is_date(value.type) or pa.types.is_timestamp(value.type) or value.type == DURATION:
            text = SqlValue(micros(value), pa.int64())
        elif pa.types.is_integer(value.type):
            text = SqlValue(converted(value, pa.int64()), pa.int64())
        missing = compile_expression(node)({**self.constants, variable: MISSING})
        if isinstance(missing, bool) or (missing is not None and missing is not MISSING):
            raise Untranslatable("a value where a tuple is MISSING")
        return specs.ColumnTerm(side, role, self.column(text)), value.type

    def compared(self, operator: str, left: TypedTerm, right: TypedTerm) -> TypedTerm:
        if kind(left[1]) != kind(right[1]):
            raise Untranslatable("a comparison of different types")
        return specs.OperationTerm(operator, (left[0], right[0])), pa.bool_()

    def computed(self, node: Expr, left: TypedTerm, right: TypedTerm) -> TypedTerm:
        type_ = arithmetic_type(node, left[1], right[1])
        if type_ is None or not known(type_):
            raise Untranslatable("arithmetic between tuples")
        return specs.OperationTerm(SYMBOLS[type(node)], (left[0], right[0])), type_


def known(type_: pa.DataType) -> bool:
    """Whether the kernels hold values of the type as numbers."""
    return kind(type_) != "other"


def kind(type_: pa.DataType) -> str:
    """What a value may be compared with."""
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return "number"
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        return "time"
    return "span" if type_ == DURATION else "boolean" if pa.types.is_boolean(type_) else "other"
