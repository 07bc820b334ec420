"""SQL++ expressions as Spark SQL text, with MISSING kept beside the value.

In: an expression and an environment of `Value`s (contents of Spark columns; a table is an array). Out: a `Value`: SQL
text with its Arrow type and, if the value may be MISSING, SQL text of that condition; or an object whose fields are
values. Raises `Untranslatable` if Spark SQL cannot express the same meaning.

In this text durations are BIGINT microseconds, and dates become midnight UTC. So no result depends on the session's
time zone. The same expression always gives the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.sqlpp.query_tree import Expr, Missing, QueryExpression
from belvedere.sqlpp.spark_text import native_arrays as arrays
from belvedere.sqlpp.spark_text import native_operators as operators
from belvedere.sqlpp.spark_text.native_functions import anonymous, cast, concatenated
from belvedere.sqlpp.spark_text.native_queries import query_value
from belvedere.sqlpp.spark_text.native_values import HANDLERS, Environment, value_of
from belvedere.sqlpp.spark_text.native_values import boolean as boolean_of
from belvedere.sqlpp.spark_text.sql_values import MISSING_VALUE, NULL, SqlValue, Untranslatable, Value, flat, merge
from belvedere.sqlpp.windows.boundary_classes import ARITHMETIC, OPERATORS


def translate(node: Expr, env: Mapping[str, Value]) -> Value:
    """Translate an expression into a value over the environment."""
    return flat(value_of(node, env))


def boolean(node: Expr, env: Mapping[str, Value]) -> SqlValue:
    """Translate a condition. Values that are not booleans become NULL."""
    return merge(flat(boolean_of(node, env)))


def _column(node: Expr, env: Environment) -> Value:
    """Return the value of a variable: exact name first, then one that differs in case only."""
    folded = node.name.casefold()
    name = node.name if node.name in env else next((n for n in env if n.casefold() == folded), None)
    if name is None:
        raise Untranslatable(node.name)
    return env[name]


KINDS: dict[type[Any], Callable[[Any, Environment], Value]] = {
        exp.Column: _column, exp.Dot: arrays.dot, exp.Bracket: arrays.bracket, exp.Literal: operators.literal,
        exp.Interval: operators.interval, exp.Boolean: lambda n, e: SqlValue("TRUE" if n.this else "FALSE", pa.bool_()),
        exp.Null: lambda n, e: NULL, Missing: lambda n, e: MISSING_VALUE, exp.And: operators.conjunction,
        exp.Or: operators.disjunction,
        exp.Not: operators.negation, exp.Neg: operators.neg, exp.Is: operators.kind_test,
        exp.Between: operators.between,
        exp.Like: operators.like, exp.In: arrays.contained, exp.Exists: arrays.exists, exp.Case: operators.case,
        exp.Cast: cast,
        exp.TryCast: cast, exp.DPipe: lambda n, e: concatenated([value_of(n.this, e), value_of(n.expression, e)]),
        exp.Struct: arrays.struct, exp.Array: arrays.array, exp.Anonymous: anonymous, QueryExpression: query_value,
        **{k: operators.arithmetic(s) for k, s in ARITHMETIC.items()},
        **{k: operators.comparison(s) for k, s in OPERATORS.items()},
}  # fmt: skip
HANDLERS.update(KINDS)
