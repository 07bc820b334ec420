"""Types of operators: comparisons, conditions, arithmetic on numbers and times, bits, `||`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.functions import spark_types as t
from belvedere.functions.spark_types import Typed
from belvedere.functions.type_rules import joined
from belvedere.lang.types.typing_scope import TypeRule, TypeScope, children
from belvedere.schema import TIMESTAMP, has_map
from belvedere.spark_sql.operators import WRITTEN

COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
PREDICATES = (exp.Like, exp.ILike, exp.RegexpLike, exp.SimilarTo)
OPERATORS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}


def _inner(scope: TypeScope, expr: Any) -> Typed:
    return scope.typed(expr.this)


def _matched(scope: TypeScope, expr: Any) -> Typed:
    """Return the type of LIKE and RLIKE: nullable if a part is."""
    parts = [scope.typed(c) for c in children(expr)]
    nested = next((p.type for p in parts if pa.types.is_nested(p.type)), None)
    if nested is not None:
        raise scope.fail(
            "B3002",
            f"a string is needed here, not {t.a_type(nested)}",
            expr,
            "write array_contains(list, x), or to_json(x)",
        )
    return Typed(t.BOOLEAN, any(p.nullable for p in parts))


def _escaped(scope: TypeScope, expr: Any) -> Typed:
    """Return the type of LIKE with ESCAPE, which is one constant character."""
    by = expr.expression.unnest()
    if not (isinstance(by, exp.Literal) and by.is_string and len(by.this) == 1):
        raise scope.fail(
            "B3071", "ESCAPE takes one character", expr.expression, "write it in quotes: LIKE '50!%' ESCAPE '!'"
        )
    return _matched(scope, expr)


def _logical(scope: TypeScope, expr: Any) -> Typed:
    parts = [scope.condition(c, untyped=True) for c in children(expr)]
    return Typed(t.BOOLEAN, any(p.nullable for p in parts))


def _compared(scope: TypeScope, expr: Any) -> Typed:
    """Return the type of `=`, BETWEEN, IN: the first part is compared with each of the others."""
    return compared(scope, expr, children(expr))


def compared(scope: TypeScope, expr: exp.Expr, parts: Sequence[exp.Expr]) -> Typed:
    """Return the type of a comparison of the first part with the others. Raises B3002 if one cannot be compared with
    it."""
    first, *others = [(p, scope.typed(p)) for p in parts]
    for written, other in others:
        by_place = isinstance(expr, exp.In) and t.same_kind_by_place(first[1].type, other.type)
        if not by_place and not t.same_kind(first[1].type, other.type):
            message = f"{t.a_type(first[1].type)} cannot be compared with {t.a_type(other.type)}"
            maps = has_map(first[1].type)
            hint = "compare map_entries(...) or one of its values" if maps else _part_of_time(first, (written, other))
            raise scope.fail("B3002", message, written if isinstance(expr, exp.In) else expr, hint)
    return Typed(t.BOOLEAN, any(part.nullable for _, part in (first, *others)))


def _part_of_time(*parts: tuple[Any, Typed]) -> str:
    """Return a hint for values that cannot be compared: in SQRL `hour(t)` is the hour's start, elsewhere its number."""
    rounded = next((e for e, _ in parts if isinstance(e, exp.TimestampTrunc)), None)
    if rounded is not None and any(pa.types.is_integer(typed.type) for _, typed in parts):
        unit = rounded.text("unit").lower()
        return f"`{unit}(t)` rounds a time down to the {unit}: its number is extract({unit.upper()} FROM t)"
    return "CAST one side to the type of the other"


def _same(scope: TypeScope, expr: Any) -> Typed:
    """Return the type of `<=>` and IS DISTINCT FROM: never NULL."""
    return Typed(compared(scope, expr, children(expr)).type, False)


def _is(scope: TypeScope, expr: Any) -> Typed:
    inner = scope.typed(expr.this)
    scope.typed(expr.expression)
    if isinstance(expr.expression, exp.Boolean) and inner.type not in (t.BOOLEAN, t.STRING, t.NULL):
        raise scope.fail(
            "B3002", f"a condition is needed here, not {t.a_type(inner.type)}", expr, "compare it: `x <> 0`"
        )
    return Typed(t.BOOLEAN, False)


def _binary(rule: Callable[[TypeScope, Any, pa.DataType, pa.DataType], pa.DataType]) -> TypeRule:
    """Return the rule of a binary operator from the rule for its type; nullable if a side is."""

    def typed(scope: TypeScope, expr: Any) -> Typed:
        left, right = scope.typed(expr.this), scope.typed(expr.expression)
        return Typed(rule(scope, expr, left.type, right.type), left.nullable or right.nullable)

    return typed


def _arithmetic(scope: TypeScope, expr: Any, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    operator = OPERATORS[type(expr)]
    found = _arithmetic_type(operator, left, right, expr)
    if found == TIMESTAMP and t.DATE in (left, right) and _whole_days(expr):
        return t.DATE
    if found is None:
        message = f"{t.type_text(left)} {operator} {t.type_text(right)} has no meaning"
        raise scope.fail("B3002", message, expr, "CAST one side to the type of the other")
    return found


def tried(scope: TypeScope, expr: Any, operator: type[exp.Expr]) -> Typed:
    """Return the type of `try_add(a, b)` and similar calls: the operator's, but NULL on failure."""
    sides = children(expr)
    same = operator(this=sides[0].copy(), expression=sides[1].copy())
    return Typed(_arithmetic(scope, same, *(scope.type(s) for s in sides)), True)


def _arithmetic_type(operator: str, left: pa.DataType, right: pa.DataType, expr: Any) -> pa.DataType | None:
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
    """Return the decimal type of an integer literal next to a decimal: only its own digits, also for `7S` and `7L`."""
    inner = expr.unnest()
    inner = inner.this if isinstance(inner, exp.Cast) and WRITTEN in inner.args else inner
    literal = inner.this if isinstance(inner, exp.Neg) else inner
    if isinstance(literal, exp.Literal) and not literal.is_string:
        return pa.decimal128(len(literal.this.lstrip("0")) or 1, 0)
    return t.as_decimal(type_)


def _shift(scope: TypeScope, expr: Any, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    bad = next((x for x in (left, right) if not (t.is_number(x) or x in (t.STRING, t.NULL))), None)
    if bad is not None:
        raise scope.fail("B3002", f"a number is shifted by a number, not {t.a_type(bad)}", expr, "CAST it to INT")
    return t.INT64 if left == t.INT64 else t.INT32


def _bitwise(scope: TypeScope, expr: Any, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    common = t.common_type(left, right)
    if common == t.NULL:
        return t.INT32
    if common is None or not (t.is_integer(common) or common == t.BOOLEAN):
        raise scope.fail("B3002", "bitwise operators need integers", expr)
    return common


_LEAST = {str(2**31): t.INT32, str(2**63): t.INT64}
"""Numbers whose type includes them only with a minus sign."""


def _negative(scope: TypeScope, expr: Any) -> Typed:
    if isinstance(expr.this, exp.Literal) and not expr.this.is_string and expr.this.this in _LEAST:
        return Typed(_LEAST[expr.this.this], False)
    inner = scope.typed(expr.this)
    if inner.type in (t.STRING, t.NULL):
        return Typed(t.DOUBLE, inner.nullable)
    if not (t.is_number(inner.type) or t.is_interval(inner.type)):
        raise scope.fail("B3002", f"{t.a_type(inner.type)} cannot be negated", expr)
    return inner


def _inverted(scope: TypeScope, expr: Any) -> Typed:
    inner = scope.typed(expr.this)
    if not t.is_integer(inner.type) and inner.type != t.NULL:
        raise scope.fail("B3002", "bitwise operators need integers", expr, "CAST it to INT or BIGINT")
    return inner if inner.type != t.NULL else Typed(t.INT32)


def _pipe(scope: TypeScope, expr: Any, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    found = joined([left, right])
    if found is None:
        raise scope.fail(
            "B3002", f"{t.type_text(left)} || {t.type_text(right)} has no meaning", expr, "CAST both sides to STRING"
        )
    return found


def _quotient(scope: TypeScope, expr: Any, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the type of `DIV`, which accepts integers, decimals, texts of them, and intervals."""
    for type_ in (left, right):
        if not (t.is_integer(type_) or t.is_decimal(type_) or t.is_interval(type_) or type_ in (t.STRING, t.NULL)):
            raise scope.fail("B3002", f"DIV does not take {t.a_type(type_)}", expr, "write CAST(a / b AS BIGINT)")
    return t.INT64


def _whole_days(expr: exp.Expr) -> bool:
    """Return whether an interval has only days: added to a date it gives a date."""
    intervals = [e.unnest() for e in (expr.this, expr.expression)]
    units = [
        i.args["unit"].name.upper()
        for i in intervals
        if isinstance(i, exp.Interval) and isinstance(i.args.get("unit"), exp.Var)
    ]
    return bool(units) and all(u in ("DAY", "WEEK", "DAYS", "WEEKS") for u in units)


_DAYS = (t.INT8, t.INT16, t.INT32)
"""Types for a number of days added to a date: Spark does not accept BIGINT."""


def _time_arithmetic(operator: str, left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if operator == "-" and t.is_time(left) and t.is_time(right):
        return t.DAY_INTERVAL
    if operator == "+" and (t.is_interval(left) or left in _DAYS) and t.is_time(right):
        left, right = right, left
    if operator in "+-" and t.is_time(left):
        if left == t.DATE and (right in _DAYS or right == t.MONTH_INTERVAL):
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
    **dict.fromkeys((exp.Paren, exp.IgnoreNulls, exp.RespectNulls, exp.Ordered, exp.Alias), _inner),
    **dict.fromkeys((exp.And, exp.Or, exp.Not), _logical),
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ, exp.EqualNull), _same),
    **dict.fromkeys((*COMPARISONS, exp.Between, exp.In), _compared),
    **dict.fromkeys(PREDICATES, _matched),
    exp.Escape: _escaped,
    **dict.fromkeys(OPERATORS, _binary(_arithmetic)),
    exp.IntDiv: _binary(_quotient),
    **dict.fromkeys((exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor), _binary(_bitwise)),
    **dict.fromkeys((exp.BitwiseLeftShift, exp.BitwiseRightShift), _binary(_shift)),
    exp.Is: _is,
    exp.Neg: _negative,
    exp.BitwiseNot: _inverted,
    exp.DPipe: _binary(_pipe),
}
