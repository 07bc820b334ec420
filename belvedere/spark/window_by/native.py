"""SQL++ expressions as Spark SQL text, with MISSING kept beside the value.

In: an expression and an environment of `Value`s (what Spark columns hold). Out: a `Value`: SQL text with its Arrow type and,
where the value may be MISSING, SQL text that says so; or an object whose fields are values. Raises `Untranslatable` for
what Spark SQL cannot say in the same sense; the caller then evaluates with `interpret`. Durations are BIGINT microseconds
in this text, and dates become midnight UTC, so that no result depends on the session's time zone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.functions.calendar import UNITS
from belvedere.functions.table import WINDOW_BY, canonical
from belvedere.functions.window_by import DURATION, duration_micros, is_number, unify
from belvedere.lang.window_by.classes import ARITHMETIC, OPERATORS
from belvedere.lang.window_by.tree import Expr, Missing
from belvedere.lang.window_by.type_rules import arithmetic_type, cast_type
from belvedere.schema import TIMESTAMP
from belvedere.spark.window_by.sql_values import (
    MISSING_VALUE,
    NULL,
    Object,
    SqlValue,
    Untranslatable,
    Value,
    any_of,
    converted,
    field,
    merge,
    micros,
    quoted,
    sql_type,
)


def translate(node: Expr, env: Mapping[str, Value]) -> Value:
    """The expression as a value over the environment."""
    kind = type(node)
    handler = HANDLERS.get(kind)
    if handler is None:
        raise Untranslatable(kind.__name__)
    return handler(node, env)


def scalar(node: Expr, env: Mapping[str, Value]) -> SqlValue:
    """As `translate`, as one SQL text."""
    return merge(translate(node, env))


def _column(node: Expr, env: Mapping[str, Value]) -> Value:
    if node.name not in env:
        raise Untranslatable(node.name)
    return env[node.name]


def _dot(node: Expr, env: Mapping[str, Value]) -> Value:
    if isinstance(node.this, exp.Bracket) and isinstance(node.this.expressions[0], exp.Star):
        raise Untranslatable("[*]")
    return field(translate(node.this, env), node.expression.name)


def _bracket(node: Expr, env: Mapping[str, Value]) -> Value:
    index = node.expressions[0]
    if isinstance(index, exp.Literal) and index.is_string:
        return field(translate(node.this, env), index.name)
    place = whole_number(index)
    base = scalar(node.this, env)
    if place is None or not pa.types.is_list(base.type):
        raise Untranslatable("[]")
    size = f"size({base.sql})"
    beyond = f"({base.sql} IS NOT NULL AND {size} < {place + 1 if place >= 0 else -place})"
    return SqlValue(
        f"try_element_at({base.sql}, {place + 1 if place >= 0 else place})", base.type.value_type, any_of(base.missing, beyond)
    )


def whole_number(node: Expr) -> int | None:
    if isinstance(node, exp.Neg):
        inner = whole_number(node.this)
        return None if inner is None else -inner
    return int(node.name) if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() else None


def _literal(node: Expr, env: Mapping[str, Value]) -> Value:
    if node.is_string:
        return SqlValue(quoted(node.name), pa.string())
    if node.name.isdigit():
        if int(node.name) >= 2**63:
            raise Untranslatable(node.name)
        return SqlValue(f"{node.name}L", pa.int64())
    return SqlValue(f"{float(node.name)!r}D", pa.float64())


def _interval(node: Expr, env: Mapping[str, Value]) -> Value:
    try:
        amount = float(node.this.name)
    except ValueError:
        raise Untranslatable("interval") from None
    return SqlValue(f"{round(amount * UNITS[str(node.args['unit']).upper().rstrip('S')])}L", DURATION)


def _arithmetic(symbol: str) -> Callable[[Expr, Mapping[str, Value]], Value]:
    def handle(node: Expr, env: Mapping[str, Value]) -> Value:
        left, right = scalar(node.this, env), scalar(node.expression, env)
        missing = any_of(left.missing, right.missing)
        type_ = arithmetic_type(node, left.type, right.type)
        if type_ is None:
            return SqlValue("NULL", pa.null(), missing)
        if pa.types.is_null(type_):
            return SqlValue("NULL", type_, missing)
        if is_number(left.type) and is_number(right.type):
            return SqlValue(_numeric(symbol, left, right, type_), type_, missing)
        text = f"({micros(left)} {symbol} {micros(right)})"
        return SqlValue(f"timestamp_micros{text}" if type_ == TIMESTAMP else text, type_, missing)

    return handle


def _numeric(symbol: str, left: SqlValue, right: SqlValue, type_: pa.DataType) -> str:
    if symbol == "/":
        return f"try_divide({converted(left, pa.float64())}, {converted(right, pa.float64())})"
    if symbol in ("DIV", "%"):
        common = unify([left.type, right.type])
        if pa.types.is_decimal(common):
            raise Untranslatable(symbol)
        a, b = converted(left, common), converted(right, common)
        if symbol == "DIV" and pa.types.is_floating(common):
            return f"try_cast(try_divide({a}, {b}) AS BIGINT)"
        return f"IF({b} = 0, NULL, CAST({a} {symbol} nullif({b}, 0) AS {sql_type(type_)}))"
    if pa.types.is_decimal(type_):
        if _loses_digits(symbol, left, right):
            raise Untranslatable("decimals of more digits than Spark keeps")
        return f"CAST({left.sql} {symbol} {right.sql} AS {sql_type(type_)})"
    return f"({converted(left, type_)} {symbol} {converted(right, type_)})"


def _loses_digits(symbol: str, left: SqlValue, right: SqlValue) -> bool:
    """Whether Spark rounds the result: of more than 38 digits it keeps as few as six after the point."""
    (p, s), (q, t) = _digits(left), _digits(right)
    scale = s + t if symbol == "*" else max(s, t)
    precision = p + q + 1 if symbol == "*" else max(p - s, q - t) + scale + 1
    return precision > 38 and max(38 - (precision - scale), min(scale, 6)) < scale


def _digits(value: SqlValue) -> tuple[int, int]:
    if pa.types.is_decimal(value.type):
        return value.type.precision, value.type.scale
    whole = value.sql.rstrip("L")
    return (len(whole) if whole.isdigit() else 20), 0


def _comparison(symbol: str) -> Callable[[Expr, Mapping[str, Value]], Value]:
    return lambda node, env: compared(symbol, scalar(node.this, env), scalar(node.expression, env))


def compared(symbol: str, left: SqlValue, right: SqlValue) -> SqlValue:
    """`left op right`: NULL for types that do not compare."""
    missing = any_of(left.missing, right.missing)
    common = unify([left.type, right.type])
    if common is None or any(pa.types.is_null(t) for t in (left.type, right.type)):
        return SqlValue("CAST(NULL AS BOOLEAN)", pa.bool_(), missing)
    if pa.types.is_struct(common) and left.type != right.type:
        raise Untranslatable("comparison of objects")
    return SqlValue(f"({converted(left, common)} {symbol} {converted(right, common)})", pa.bool_(), missing)


def boolean(node: Expr, env: Mapping[str, Value]) -> SqlValue:
    """A condition: other values than booleans are NULL."""
    found = scalar(node, env)
    return found if pa.types.is_boolean(found.type) else SqlValue("CAST(NULL AS BOOLEAN)", pa.bool_(), found.missing)


def _and(node: Expr, env: Mapping[str, Value]) -> Value:
    left, right = boolean(node.this, env), boolean(node.expression, env)
    text, missing = f"({left.sql} AND {right.sql})", any_of(left.missing, right.missing)
    return SqlValue(text, pa.bool_(), None if missing is None else f"({text} IS NULL AND {missing})")


def _or(node: Expr, env: Mapping[str, Value]) -> Value:
    left, right = boolean(node.this, env), boolean(node.expression, env)
    text, missing = f"({left.sql} OR {right.sql})", any_of(left.missing, right.missing)
    if missing is None:
        return SqlValue(text, pa.bool_())
    plain = " AND ".join(f"({s.sql} IS NOT NULL{f' OR {s.missing}' if s.missing else ''})" for s in (left, right))
    return SqlValue(text, pa.bool_(), f"({text} IS NULL AND {plain})")


def _not(node: Expr, env: Mapping[str, Value]) -> Value:
    inner = boolean(node.this, env)
    return SqlValue(f"(NOT {inner.sql})", pa.bool_(), inner.missing)


def _neg(node: Expr, env: Mapping[str, Value]) -> Value:
    inner = scalar(node.this, env)
    if pa.types.is_null(inner.type):
        return inner
    if not is_number(inner.type) and inner.type != DURATION:
        return SqlValue("NULL", pa.null(), inner.missing)
    return SqlValue(f"(- {inner.sql})", inner.type, inner.missing)


def _is(node: Expr, env: Mapping[str, Value]) -> Value:
    value, kind = translate(node.this, env), node.expression
    missing = value.missing
    if isinstance(kind, exp.Boolean):
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


def _between(node: Expr, env: Mapping[str, Value]) -> Value:
    low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
    high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
    return _and(exp.And(this=low, expression=high), env)


def _like(node: Expr, env: Mapping[str, Value]) -> Value:
    left, right = scalar(node.this, env), scalar(node.expression, env)
    if not pa.types.is_string(left.type) or not isinstance(node.expression, exp.Literal) or "\\" in node.expression.name:
        raise Untranslatable("LIKE")
    negation = "NOT " if node.args.get("negate") else ""
    return SqlValue(f"({left.sql} {negation}LIKE {right.sql})", pa.bool_(), left.missing)


def _in(node: Expr, env: Mapping[str, Value]) -> Value:
    if node.args.get("field") is not None or any(not isinstance(e, (exp.Literal, exp.Neg)) for e in node.expressions):
        raise Untranslatable("IN")
    value = scalar(node.this, env)
    tests = [compared("=", value, scalar(e, env)).sql for e in node.expressions]
    return SqlValue("(" + " OR ".join(tests) + ")" if tests else "FALSE", pa.bool_(), value.missing)


def _case(node: Expr, env: Mapping[str, Value]) -> Value:
    branches = []
    for branch in node.args["ifs"]:
        test = branch.this if node.this is None else exp.EQ(this=node.this.copy(), expression=branch.this.copy())
        branches.append((boolean(test, env).sql, scalar(branch.args["true"], env)))
    default = node.args.get("default")
    other = scalar(default, env) if default is not None else NULL
    type_ = unify([v.type for _, v in branches] + [other.type])
    if type_ is None:
        raise Untranslatable("CASE of several types")
    if pa.types.is_null(type_):
        raise Untranslatable("CASE without values")
    text = _choice([(c, converted(v, type_)) for c, v in branches], converted(other, type_))
    missing = None
    if any(v.missing for _, v in branches) or other.missing:
        missing = _choice([(c, v.missing or "FALSE") for c, v in branches], other.missing or "FALSE")
    return SqlValue(text, type_, missing)


def _choice(branches: Sequence[tuple[str, str]], other: str) -> str:
    return "CASE " + " ".join(f"WHEN {c} THEN {v}" for c, v in branches) + f" ELSE {other} END"


def _cast(node: Expr, env: Mapping[str, Value]) -> Value:
    value, target = scalar(node.this, env), cast_type(node)
    simple = is_number(value.type) or pa.types.is_string(value.type)
    if target is None or not simple or pa.types.is_timestamp(target) or pa.types.is_boolean(target):
        raise Untranslatable("CAST")
    if not pa.types.is_string(value.type) and not is_number(target):
        raise Untranslatable("CAST")
    return SqlValue(f"try_cast({value.sql} AS {sql_type(target)})", target, value.missing)


def _dpipe(node: Expr, env: Mapping[str, Value]) -> Value:
    left, right = scalar(node.this, env), scalar(node.expression, env)
    if not pa.types.is_string(left.type) or not pa.types.is_string(right.type):
        raise Untranslatable("||")
    return SqlValue(f"concat({left.sql}, {right.sql})", pa.string(), any_of(left.missing, right.missing))


def _struct(node: Expr, env: Mapping[str, Value]) -> Value:
    return Object({m.this.name: translate(m.expression, env) for m in node.expressions})


def _array(node: Expr, env: Mapping[str, Value]) -> Value:
    members = [scalar(e, env) for e in node.expressions]
    type_ = unify([m.type for m in members])
    if type_ is None or pa.types.is_null(type_):
        raise Untranslatable("array")
    return SqlValue("array(" + ", ".join(converted(m, type_) for m in members) + ")", pa.list_(type_))


def _anonymous(node: Expr, env: Mapping[str, Value]) -> Value:
    function = canonical(node.name)
    if function == "DURATION" and isinstance(node.expressions[0], exp.Literal):
        length = duration_micros(node.expressions[0].name)
        if length is not None:
            return SqlValue(f"{length}L", DURATION)
    arguments = [scalar(a, env) for a in node.expressions]
    if function == "COALESCE" or function == "IF_MISSING_OR_NULL":
        return _coalesce(arguments)
    form = WINDOW_BY.get(function)
    rule = None if form is None else form.native
    if rule is None or not all(rule.accepts(a.type) for a in arguments):
        raise Untranslatable(function)
    text = rule.text.format(*(a.sql for a in arguments), all=", ".join(a.sql for a in arguments))
    if len(arguments) > 1:
        blank = " OR ".join(f"{a.sql} IS NULL" for a in arguments)
        text = f"IF({blank}, NULL, {text})"
    return SqlValue(text, rule.type or arguments[0].type, any_of(*(a.missing for a in arguments)))


def _coalesce(arguments: Sequence[SqlValue]) -> Value:
    type_ = unify([a.type for a in arguments])
    if type_ is None or pa.types.is_null(type_):
        raise Untranslatable("COALESCE")
    return SqlValue("coalesce(" + ", ".join(converted(a, type_) for a in arguments) + ")", type_)


HANDLERS: dict[type[Any], Callable[[Any, Mapping[str, Value]], Value]] = {
    exp.Column: _column, exp.Dot: _dot, exp.Bracket: _bracket, exp.Literal: _literal, exp.Interval: _interval,
    exp.Boolean: lambda n, e: SqlValue("TRUE" if n.this else "FALSE", pa.bool_()), exp.Null: lambda n, e: NULL,
    Missing: lambda n, e: MISSING_VALUE, exp.And: _and, exp.Or: _or, exp.Not: _not, exp.Neg: _neg, exp.Is: _is,
    exp.Between: _between, exp.Like: _like, exp.In: _in, exp.Case: _case, exp.Cast: _cast, exp.TryCast: _cast, exp.DPipe: _dpipe,
    exp.Struct: _struct, exp.Array: _array, exp.Anonymous: _anonymous,
    **{k: _arithmetic(s) for k, s in ARITHMETIC.items()},
    **{k: _comparison(s) for k, s in OPERATORS.items()},
}  # fmt: skip
