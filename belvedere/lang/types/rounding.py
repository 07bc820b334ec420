"""Types of `round`, `ceil` and `floor`: how many digits of a decimal are left."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.functions import spark_types as t
from belvedere.functions.spark_types import Typed
from belvedere.functions.type_rules import whole
from belvedere.lang.types.typing_scope import TypeRule, TypeScope


def _round(scope: TypeScope, expr: Any) -> Typed:
    return rounded(_number(scope, expr.this), expr.args.get("decimals"))


def _ceiling(scope: TypeScope, expr: Any) -> Typed:
    inner, places = _number(scope, expr.this), expr.args.get("decimals")
    if places is None:
        found = whole([inner.type])
        return Typed(found or t.INT64, inner.nullable)
    type_ = inner.type if t.is_decimal(inner.type) else None
    if type_ is None:
        digits = t.INTEGER_DIGITS.get(inner.type)
        type_ = (
            pa.decimal128(digits, 0) if digits else pa.decimal128(30, 15) if inner.type == t.DOUBLE else pa.decimal128(14, 7)
        )
    return rounded(Typed(type_, inner.nullable), places)


def _number(scope: TypeScope, expr: exp.Expr) -> Typed:
    found = scope.typed(expr)
    if t.is_number(found.type) or found.type in (t.STRING, t.NULL):
        return found
    raise scope.fail("B3002", f"a number is needed here, not {t.a_type(found.type)}", expr, "CAST it to a number")


def rounded(inner: Typed, places: exp.Expr | None) -> Typed:
    """What `round(x, places)` gives, and `bround`."""
    if not t.is_decimal(inner.type):
        return Typed(inner.type if t.is_number(inner.type) else t.DOUBLE, inner.nullable)
    count = _integer_value(places) if places is not None else 0
    scale = min(inner.type.scale, max(count, 0))
    whole = inner.type.precision - inner.type.scale + 1
    if count < 0:
        return Typed(pa.decimal128(min(t.MAX_PRECISION, max(whole, -count + 1)), 0), inner.nullable)
    return Typed(t.bounded_decimal(whole + scale, scale), inner.nullable)


def _integer_value(expr: exp.Expr) -> int:
    inner = expr.unnest()
    if isinstance(inner, exp.Neg):
        return -_integer_value(inner.this)
    return int(inner.this) if isinstance(inner, exp.Literal) and str(inner.this).isdigit() else 0


RULES: dict[type[exp.Expr], TypeRule] = {
    exp.Round: _round,
    **dict.fromkeys((exp.Ceil, exp.Floor), _ceiling),
}
