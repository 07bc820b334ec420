"""Operators of SQL++ as Spark SQL text: literals, arithmetic, comparisons, logic, CASE, LIKE.

In: nodes and environments of `Value`s. Out: `Value`s (see `native`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from math import isfinite

import pyarrow as pa
from sqlglot import exp

from belvedere.functions.calendar import UNITS
from belvedere.functions.sqlpp_functions import DURATION, is_number, unify
from belvedere.schema import TIMESTAMP
from belvedere.sqlpp.query_tree import Expr, QueryExpression
from belvedere.sqlpp.spark_text.native_numbers import computed
from belvedere.sqlpp.spark_text.native_values import Environment, boolean, null, scalar, value_of
from belvedere.sqlpp.spark_text.sql_values import (
    NULL,
    Object,
    SqlValue,
    Untranslatable,
    Value,
    any_of,
    chosen,
    converted,
    merge,
    micros,
    quoted,
    unsortable,
    visible,
)
from belvedere.sqlpp.type_rules import arithmetic_type
from belvedere.values.type_names import type_text


def literal(node: Expr, env: Environment) -> Value:
    if node.is_string:
        return SqlValue(quoted(node.name), pa.string())
    if node.name.isdigit():
        if int(node.name) >= 2**63:
            raise Untranslatable(f"the number {node.name}")
        return SqlValue(f"{node.name}L", pa.int64())
    number = float(node.name)
    return SqlValue(f"{number!r}D" if isfinite(number) else "CAST('inf' AS DOUBLE)", pa.float64())


def interval(node: Expr, env: Environment) -> Value:
    unit = UNITS[str(node.args["unit"]).upper().rstrip("S")]
    if isinstance(node.this, exp.Literal):
        try:
            return SqlValue(f"{round(float(node.this.name) * unit)}L", DURATION)
        except ValueError:
            raise Untranslatable(f"an interval of '{node.this.name}'") from None
    amount = scalar(node.this, env)
    if pa.types.is_null(amount.type):
        return null(DURATION, amount.missing)
    if not is_number(amount.type):
        raise Untranslatable(f"an interval of {type_text(amount.type)}")
    return SqlValue(f"CAST(rint({converted(amount, pa.float64())} * {unit}D) AS BIGINT)", DURATION, amount.missing)


def arithmetic(symbol: str) -> Callable[[Expr, Environment], Value]:
    def handle(node: Expr, env: Environment) -> Value:
        left, right = scalar(node.this, env), scalar(node.expression, env)
        missing = any_of(left.missing, right.missing)
        type_ = arithmetic_type(node, left.type, right.type)
        if type_ is None:
            return SqlValue("NULL", pa.null(), missing)
        if pa.types.is_null(type_):
            return SqlValue("NULL", type_, missing)
        if is_number(left.type) and is_number(right.type):
            return SqlValue(computed(symbol, left, right, type_), type_, missing)
        text = f"({micros(left)} {symbol} {micros(right)})"
        return SqlValue(f"timestamp_micros{text}" if type_ == TIMESTAMP else text, type_, missing)

    return handle


def comparison(symbol: str) -> Callable[[Expr, Environment], Value]:
    return lambda node, env: compared(symbol, scalar(node.this, env), scalar(node.expression, env))


def compared(symbol: str, left: SqlValue, right: SqlValue) -> SqlValue:
    """Return `left op right`; NULL for types that do not compare."""
    missing = any_of(left.missing, right.missing)
    left, right = merge(visible(left)), merge(visible(right))
    common = unify([left.type, right.type])
    if common is None or any(pa.types.is_null(t) for t in (left.type, right.type)):
        return SqlValue("CAST(NULL AS BOOLEAN)", pa.bool_(), missing)
    if unsortable(common):
        raise Untranslatable("a comparison of maps")
    return SqlValue(f"({converted(left, common)} {symbol} {converted(right, common)})", pa.bool_(), missing)


def conjunction(node: Expr, env: Environment) -> Value:
    left, right = boolean(node.this, env), boolean(node.expression, env)
    text, missing = f"({left.sql} AND {right.sql})", any_of(left.missing, right.missing)
    return SqlValue(text, pa.bool_(), None if missing is None else f"({text} IS NULL AND {missing})")


def disjunction(node: Expr, env: Environment) -> Value:
    return either(boolean(node.this, env), boolean(node.expression, env))


def either(left: SqlValue, right: SqlValue) -> SqlValue:
    """Return OR: TRUE if a side is, else NULL if one is, else MISSING if one is."""
    text, missing = f"({left.sql} OR {right.sql})", any_of(left.missing, right.missing)
    if missing is None:
        return SqlValue(text, pa.bool_())
    plain = " AND ".join(f"({s.sql} IS NOT NULL{f' OR {s.missing}' if s.missing else ''})" for s in (left, right))
    return SqlValue(text, pa.bool_(), f"({text} IS NULL AND {plain})")


def negation(node: Expr, env: Environment) -> Value:
    inner = boolean(node.this, env)
    return SqlValue(f"(NOT {inner.sql})", pa.bool_(), inner.missing)


def neg(node: Expr, env: Environment) -> Value:
    if isinstance(node.this, exp.Literal) and not node.this.is_string and node.this.name == str(2**63):
        return SqlValue(f"CAST('-{2**63}' AS BIGINT)", pa.int64())
    inner = scalar(node.this, env)
    if pa.types.is_null(inner.type):
        return inner
    if not is_number(inner.type) and inner.type != DURATION:
        return SqlValue("NULL", pa.null(), inner.missing)
    return SqlValue(f"(- {inner.sql})", inner.type, inner.missing)


def kind_test(node: Expr, env: Environment) -> Value:
    value, kind = value_of(node.this, env), node.expression
    missing = value.missing
    if isinstance(kind, exp.Boolean):
        if not pa.types.is_boolean(value.type):
            return SqlValue("FALSE", pa.bool_())
        return SqlValue(f"({merge(value).sql} <=> {str(bool(kind.this)).upper()})", pa.bool_())
    word = "NULL" if isinstance(kind, exp.Null) else kind.name.upper()
    if word == "MISSING":
        return SqlValue("FALSE" if missing is None else f"({missing})", pa.bool_())
    blank = (f"({missing})" if missing else "FALSE") if isinstance(value, Object) else f"({value.sql} IS NULL)"
    if word == "UNKNOWN":
        return SqlValue(blank, pa.bool_())
    if word == "VALUED":
        return SqlValue(f"(NOT {blank})", pa.bool_())
    return SqlValue(blank if missing is None else f"IF({missing}, NULL, {blank})", pa.bool_(), missing)


def between(node: Expr, env: Environment) -> Value:
    low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
    high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
    return conjunction(exp.And(this=low, expression=high), env)


def like(node: Expr, env: Environment) -> Value:
    """Translate LIKE with % and _. A backslash escapes the next character; at the end it matches itself."""
    left, right = scalar(node.this, env), scalar(node.expression, env)
    missing = any_of(left.missing, right.missing)
    if not pa.types.is_string(left.type) or not pa.types.is_string(right.type):
        return SqlValue("CAST(NULL AS BOOLEAN)", pa.bool_(), missing)
    pattern = (
        quoted(_plain_pattern(node.expression.name))
        if isinstance(node.expression, exp.Literal)
        else _pattern(right.sql)
    )
    negation = "NOT " if node.args.get("negate") else ""
    return SqlValue(f"({left.sql} {negation}LIKE {pattern})", pa.bool_(), missing)


def _plain_pattern(pattern: str) -> str:
    """Return the pattern in Spark's form: a backslash may only precede %, _ or another backslash."""
    return re.sub(
        r"\\(.)|\\$", lambda m: m[0] if m[1] in ("%", "_", "\\") else m[1] or "\\\\", pattern, flags=re.DOTALL
    )


def _pattern(text: str) -> str:
    """Return SQL text that does the same as `_plain_pattern` when the query runs."""
    lonely = quoted(r"(?s)\G((?:[^\\]|\\.)*+)\\$")
    needless = quoted(r"(?s)\G((?:[^\\]|\\[%_\\])*+)\\(?![%_\\])")
    return f"regexp_replace(regexp_replace({text}, {lonely}, {quoted(chr(36) + '1' + chr(92) * 4)}), {needless}, '$1')"


def case(node: Expr, env: Environment) -> Value:
    """Translate CASE, with or without a subject."""
    conditions, values = [], []
    for branch in node.args["ifs"]:
        test = branch.this if node.this is None else exp.EQ(this=node.this.copy(), expression=branch.this.copy())
        conditions.append(boolean(test, env).sql)
        values.append(value_of(branch.args["true"], env))
    default = node.args.get("default")
    values.append(value_of(default, env) if default is not None else NULL)
    return chosen(conditions, values)


def among(node: Expr, env: Environment) -> Value | None:
    """Translate IN with a list of expressions; None for IN with an array."""
    members = node.expressions
    if node.args.get("field") is not None or (len(members) == 1 and isinstance(members[0], QueryExpression)):
        return None
    value = scalar(node.this, env)
    if not members:
        return SqlValue(f"IF({value.sql} IS NULL, NULL, FALSE)", pa.bool_(), value.missing)
    tests = [compared("=", value, scalar(m, env)) for m in members]
    if all(t.missing == value.missing for t in tests):
        return SqlValue("(" + " OR ".join(t.sql for t in tests) + ")", pa.bool_(), value.missing)
    return reduce(either, tests)
