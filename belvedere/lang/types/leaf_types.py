"""Types of the leaves of an expression: columns, fields, literals, parameters, intervals."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.functions import spark_types as t
from belvedere.functions.spark_types import Typed
from belvedere.lang.types.typing_scope import TypeRule, TypeScope
from belvedere.schema import find_named
from belvedere.syntax.wording import did_you_mean


def _column(scope: TypeScope, expr: Any) -> Typed:
    found = scope.columns.get(expr.name) or scope.variables.get(expr.name.casefold())
    if found is None:
        raise scope.fail(
            "B2002", f"column `{expr.name}` is not known here", expr, did_you_mean(expr.name, scope.columns)
        )
    return found


def _variable(scope: TypeScope, expr: Any) -> Typed:
    found = scope.variables.get(expr.name.casefold())
    if found is None:
        raise scope.fail("B2002", f"name `{expr.name}` is not known here", expr)
    return found


def _literal(scope: TypeScope, expr: Any) -> Typed:
    if expr.is_string:
        return Typed(t.STRING, False)
    text: str = expr.this
    if "e" in text.lower():
        return Typed(t.DOUBLE, False)
    if "." in text:
        return Typed(t.literal_decimal(text), False)
    value = int(text)
    if value < 2**31:
        return Typed(t.INT32, False)
    return Typed(t.INT64 if value < 2**63 else pa.decimal128(min(len(text), t.MAX_PRECISION), 0), False)


def _parameter(scope: TypeScope, expr: Any) -> Typed:
    name = parameter_name(expr)
    found = scope.parameters.get(name)
    if found is None:
        raise scope.fail(
            "B3004", f"parameter `{name}` has no type", expr, "compare it with a column, or declare its type"
        )
    return found


def _interval(scope: TypeScope, expr: Any) -> Typed:
    unit = expr.args.get("unit")
    words = unit.sql().upper() if unit is not None else str(expr.this).upper()
    inner = (
        scope.typed(expr.this) if isinstance(expr.this, exp.Expr) and not isinstance(expr.this, exp.Literal) else None
    )
    months = any(u in words for u in t.MONTH_UNITS)
    return Typed(t.MONTH_INTERVAL if months else t.DAY_INTERVAL, inner.nullable if inner else False)


def _dot(scope: TypeScope, expr: Any) -> Typed:
    owner = scope.typed(expr.this)
    return field_of(scope, owner, expr.expression.name, expr)


def field_of(scope: TypeScope, owner: Typed, name: str, expr: exp.Expr) -> Typed:
    """Return the type of a field of a struct, or of all structs of an array."""
    type_, wrap = owner.type, False
    if t.is_array_of_struct(type_):
        type_, wrap = type_.value_type, True
    if not pa.types.is_struct(type_):
        raise scope.fail("B3002", f"{t.a_type(owner.type)} has no field `{name}`", expr)
    field = find_named(list(type_), name)
    if field is None:
        raise scope.fail("B2002", f"there is no field `{name}`", expr, did_you_mean(name, [f.name for f in type_]))
    return Typed(pa.list_(field.type) if wrap else field.type, owner.nullable or field.nullable)


def parameter_name(expr: exp.Expr) -> str:
    """Return the name of a template's parameter: as written, or `p1`, `p2`, ... for question marks."""
    written = expr.args.get("this")
    return expr.name if written else f"p{int(expr.meta.get('index', 0)) + 1}"


RULES: dict[type[exp.Expr], TypeRule] = {
    exp.Column: _column,
    exp.Identifier: _variable,
    exp.Literal: _literal,
    exp.Null: lambda scope, e: Typed(t.NULL, True),
    exp.Boolean: lambda scope, e: Typed(t.BOOLEAN, False),
    exp.HexString: lambda scope, e: Typed(t.BINARY, False),
    exp.RawString: lambda scope, e: Typed(t.STRING, False),
    exp.Placeholder: _parameter,
    exp.Parameter: _parameter,
    exp.Interval: _interval,
    exp.Dot: _dot,
}
