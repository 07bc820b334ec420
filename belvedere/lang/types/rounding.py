"""Types of `round`, `ceil` and `floor`: the number of remaining digits of a decimal."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

from belvedere.functions import spark_types as t
from belvedere.functions.spark_types import Typed
from belvedere.functions.type_rules import whole
from belvedere.lang.types.constant_checks import is_constant
from belvedere.lang.types.typing_scope import TypeRule, TypeScope
from belvedere.spark_sql.operators import without_plus


def _round(scope: TypeScope, expr: Any) -> Typed:
    return rounded(scope, _number(scope, expr.this), expr.args.get("decimals"))


def _ceiling(scope: TypeScope, expr: Any) -> Typed:
    inner, places = _number(scope, expr.this), expr.args.get("decimals")
    if places is None:
        found = whole([inner.type])
        return Typed(found or t.INT64, inner.nullable)
    if scope.type(places) != t.INT32:
        message = f"an INT is needed here, not {t.a_type(scope.type(places))}"
        raise scope.fail("B3071", message, places, "write the number of digits: `ceil(x, 2)`")
    type_ = inner.type if t.is_decimal(inner.type) else None
    if type_ is None:
        digits = t.INTEGER_DIGITS.get(inner.type)
        type_ = (
            pa.decimal128(digits, 0)
            if digits
            else pa.decimal128(30, 15)
            if inner.type == t.DOUBLE
            else pa.decimal128(14, 7)
        )
    return rounded(scope, Typed(type_, inner.nullable), places)


def _number(scope: TypeScope, expr: exp.Expr) -> Typed:
    found = scope.typed(expr)
    if t.is_number(found.type) or found.type in (t.STRING, t.NULL):
        return found
    raise scope.fail("B3002", f"a number is needed here, not {t.a_type(found.type)}", expr, "CAST it to a number")


def rounded(scope: TypeScope, inner: Typed, places: exp.Expr | None) -> Typed:
    """Return the type of `round(x, places)` and `bround`.

    Raises B3071 if the type depends on places that only Spark can compute.
    """
    if not t.is_decimal(inner.type):
        return Typed(inner.type if t.is_number(inner.type) else t.DOUBLE, inner.nullable)
    count = _count(scope, places) if places is not None else 0
    scale = min(inner.type.scale, max(count, 0))
    whole = inner.type.precision - inner.type.scale + 1
    if count < 0:
        return Typed(pa.decimal128(min(t.MAX_PRECISION, max(whole, -count + 1)), 0), inner.nullable)
    return Typed(t.bounded_decimal(whole + scale, scale), inner.nullable)


def _count(scope: TypeScope, places: exp.Expr) -> int:
    """Return the number of places in a constant expression; 0 for NULL or a value that depends on the row.

    Raises B3071 if only Spark can compute it.
    """
    inner = simplify(places.copy().transform(_unwrapped))
    sign, literal = (-1, inner.this) if isinstance(inner, exp.Neg) else (1, inner)
    if isinstance(literal, exp.Null) or not is_constant(places):
        return 0
    if isinstance(literal, exp.Literal) and _NUMBER.fullmatch(literal.name):
        return sign * int(Decimal(literal.name))
    raise scope.fail("B3071", "the number of digits must be a literal", places, "write a literal, as in round(x, 2)")


def _unwrapped(node: exp.Expr) -> exp.Expr:
    """Return the expression inside a cast, brackets or a plus sign that does not change it."""
    return node.this if isinstance(node, (exp.Cast, exp.Paren)) else without_plus(node)


_NUMBER = re.compile(r"\d+(\.\d*)?")


RULES: dict[type[exp.Expr], TypeRule] = {
    exp.Round: _round,
    **dict.fromkeys((exp.Ceil, exp.Floor), _ceiling),
}
