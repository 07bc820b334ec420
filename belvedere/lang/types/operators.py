"""Types of operators: comparisons, conditions, arithmetic on numbers and times, bits, `||`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.functions import types as t
from belvedere.functions.types import Typed
from belvedere.lang.types.scope import TypeRule, TypeScope, children
from belvedere.schema import TIMESTAMP, has_map

COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
PREDICATES = (exp.Like, exp.ILike, exp.RegexpLike, exp.Escape, exp.SimilarTo)
OPERATORS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}


def _inner(scope: TypeScope, expr: Any) -> Typed:
    return scope.typed(expr.this)


def _boolean(scope: TypeScope, expr: Any) -> Typed:
    """AND, OR, NOT, LIKE ...: NULL where a part may be."""
    parts = [scope.typed(c) for c in children(expr)]
    return Typed(t.BOOLEAN, any(p.nullable for p in parts))


def _logical(scope: TypeScope, expr: Any) -> Typed:
    parts = [(c, scope.typed(c)) for c in children(expr)]
    for child, part in parts:
        if part.type not in (t.BOOLEAN, t.NULL):
            raise scope.fail("B3002", f"a condition is needed here, not {t.a_type(part.type)}", child)
    return Typed(t.BOOLEAN, any(p.nullable for _, p in parts))


def _comparison(scope: TypeScope, expr: Any) -> Typed:
    left, right = scope.typed(expr.this), scope.typed(expr.expression)
    _comparable(scope, left, right, expr)
    return Typed(t.BOOLEAN, left.nullable or right.nullable)


def _comparable(scope: TypeScope, left: Typed, right: Typed, expr: exp.Expr) -> None:
    if not t.same_kind(left.type, right.type):
        message = f"{t.a_type(left.type)} cannot be compared with {t.a_type(right.type)}"
        hint = (
            "compare map_entries(...) or one of its values" if has_map(left.type) else "CAST one side to the type of the other"
        )
        raise scope.fail("B3002", message, expr, hint)


def _never_null(scope: TypeScope, expr: Any) -> Typed:
    for child in children(expr):
        scope.typed(child)
    return Typed(t.BOOLEAN, False)


def _between(scope: TypeScope, expr: Any) -> Typed:
    parts = [scope.typed(expr.args[k]) for k in ("this", "low", "high")]
    for part in parts[1:]:
        _comparable(scope, parts[0], part, expr)
    return Typed(t.BOOLEAN, any(p.nullable for p in parts))


def _in(scope: TypeScope, expr: Any) -> Typed:
    left = scope.typed(expr.this)
    parts = [scope.typed(e) for e in expr.expressions]
    for part, written in zip(parts, expr.expressions, strict=True):
        _comparable(scope, left, part, written)
    return Typed(t.BOOLEAN, left.nullable or any(p.nullable for p in parts))


def _arithmetic(scope: TypeScope, expr: Any) -> Typed:
    left, right = scope.typed(expr.this), scope.typed(expr.expression)
    operator = OPERATORS[type(expr)]
    found = _arithmetic_type(scope, operator, left.type, right.type, expr)
    if found == TIMESTAMP and t.DATE in (left.type, right.type) and _whole_days(expr):
        found = t.DATE
    if found is None:
        message = f"{t.type_text(left.type)} {operator} {t.type_text(right.type)} has no meaning"
        raise scope.fail("B3002", message, expr, "CAST one side to the type of the other")
    return Typed(found, left.nullable or right.nullable)


def tried(scope: TypeScope, expr: Any, operator: type[exp.Expr]) -> Typed:
    """`try_add(a, b)` and the like: the operator, but NULL where it fails."""
    sides = children(expr)
    same = operator(this=sides[0].copy(), expression=sides[1].copy())
    return Typed(_arithmetic(scope, same).type, True)


def _arithmetic_type(scope: TypeScope, operator: str, left: pa.DataType, right: pa.DataType, expr: Any) -> pa.DataType | None:
    if t.NULL in (left, right):
        left, right = (right, right) if left == t.NULL else (left, left)
        if left == t.NULL:
            return t.DOUBLE
    if t.is_number(left) and t.is_number(right):
        return _number_type(operator, left, right, expr)
    if t.STRING in (left, right) and (t.is_number(left) or t.is_number(right) or left == right):
        other = right if left == t.STRING else left
        whole = t.is_integer(other) and operator != "/"
        return t.INT64 if whole else t.DOUBLE
    return _time_arithmetic(operator, left, right)


def _number_type(operator: str, left: pa.DataType, right: pa.DataType, expr: Any) -> pa.DataType:
    decimals = t.is_decimal(left), t.is_decimal(right)
    if any(decimals) and not {left, right} & {t.FLOAT, t.DOUBLE}:
        a = left if decimals[0] else _integer_as_decimal(expr.this, left)
        b = right if decimals[1] else _integer_as_decimal(expr.expression, right)
        return t.arithmetic_decimal(operator, a, b)
    if operator == "/" or any(decimals):
        return t.DOUBLE
    if t.FLOAT in (left, right) and left != right:
        return t.DOUBLE
    return max(left, right, key=t.WIDTHS.index)


def _integer_as_decimal(expr: exp.Expr, type_: pa.DataType) -> pa.DataType:
    """An integer literal beside a decimal has just its own digits."""
    inner = expr.unnest()
    literal = inner.this if isinstance(inner, exp.Neg) else inner
    if isinstance(literal, exp.Literal) and not literal.is_string:
        return pa.decimal128(len(literal.this.lstrip("0")) or 1, 0)
    return t.as_decimal(type_)


def _integer_division(scope: TypeScope, expr: Any) -> Typed:
    left, right = scope.typed(expr.this), scope.typed(expr.expression)
    return Typed(t.INT64, left.nullable or right.nullable)


def _shift(scope: TypeScope, expr: Any) -> Typed:
    value, count = scope.typed(expr.this), scope.typed(expr.expression)
    return Typed(value.type if value.type == t.INT64 else t.INT32, value.nullable or count.nullable)


def _bitwise(scope: TypeScope, expr: Any) -> Typed:
    left, right = scope.typed(expr.this), scope.typed(expr.expression)
    common = t.common_type(left.type, right.type)
    if common is None or not (t.is_integer(common) or common == t.BOOLEAN):
        raise scope.fail("B3002", "bitwise operators need integers", expr)
    return Typed(common, left.nullable or right.nullable)


def _negative(scope: TypeScope, expr: Any) -> Typed:
    inner = scope.typed(expr.this)
    if not (t.is_number(inner.type) or t.is_interval(inner.type) or inner.type == t.NULL):
        raise scope.fail("B3002", f"{t.a_type(inner.type)} has no negative", expr)
    return inner


def _pipe(scope: TypeScope, expr: Any) -> Typed:
    left, right = scope.typed(expr.this), scope.typed(expr.expression)
    arrays = t.is_array(left.type) and t.is_array(right.type)
    type_ = t.common_type(left.type, right.type) if arrays else t.STRING
    return Typed(type_ or t.STRING, left.nullable or right.nullable)


def _whole_days(expr: exp.Expr) -> bool:
    """A date and an interval of days: a date again."""
    intervals = [e.unnest() for e in (expr.this, expr.expression)]
    units = [
        i.args["unit"].name.upper()
        for i in intervals
        if isinstance(i, exp.Interval) and isinstance(i.args.get("unit"), exp.Var)
    ]
    return bool(units) and all(u in ("DAY", "WEEK", "DAYS", "WEEKS") for u in units)


def _time_arithmetic(operator: str, left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if operator == "-" and t.is_time(left) and t.is_time(right):
        return t.DAY_INTERVAL
    if operator == "+" and (t.is_interval(left) or t.is_integer(left)) and t.is_time(right):
        left, right = right, left
    if operator in "+-" and t.is_time(left):
        if left == t.DATE and (t.is_integer(right) or right == t.MONTH_INTERVAL):
            return t.DATE
        if t.is_interval(right):
            return TIMESTAMP if left == t.DATE else left
        return None
    if operator in "+-" and left == right and t.is_interval(left):
        return left
    if operator == "*" and t.is_interval(right) and t.is_number(left):
        return right
    return left if operator in "*/" and t.is_interval(left) and t.is_number(right) else None


RULES: dict[type[exp.Expr], TypeRule] = {
    **dict.fromkeys((exp.Paren, exp.BitwiseNot, exp.IgnoreNulls, exp.RespectNulls, exp.Ordered, exp.Alias), _inner),
    **dict.fromkeys((exp.And, exp.Or, exp.Not), _logical),
    **dict.fromkeys((exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ), _never_null),
    **dict.fromkeys(COMPARISONS, _comparison),
    **dict.fromkeys(PREDICATES, _boolean),
    exp.Between: _between,
    exp.In: _in,
    **dict.fromkeys(OPERATORS, _arithmetic),
    exp.IntDiv: _integer_division,
    **dict.fromkeys((exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor), _bitwise),
    **dict.fromkeys((exp.BitwiseLeftShift, exp.BitwiseRightShift), _shift),
    exp.Neg: _negative,
    exp.DPipe: _pipe,
}
