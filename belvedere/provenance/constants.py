"""Values of rows as literals for every SQL printer, and tests that find a row by them.

In: Python values with Arrow types. Out: sqlglot trees. A value that has no literal gives None and no test.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Expr

types = pa.types


def constant(value: Any, type_: pa.DataType) -> Expr | None:
    """Return the literal of a value; None if its type has no comparable literal."""
    if value is None:
        return exp.Null()
    if types.is_boolean(type_):
        return exp.Boolean(this=bool(value))
    if types.is_integer(type_):
        return _number(str(value))
    if types.is_floating(type_):
        return _double(float(value))
    if types.is_decimal(type_):
        return _decimal(value, type_)
    if types.is_string(type_) or types.is_large_string(type_):
        return exp.Literal.string(value)
    if types.is_timestamp(type_):
        return _time(value, type_)
    if types.is_date(type_):
        return exp.cast(exp.Literal.string(value.isoformat()), "date", dialect="spark")
    return None


def _number(text: str) -> Expr:
    number = exp.Literal(this=text.removeprefix("-"), is_string=False)
    return exp.Neg(this=number) if text.startswith("-") else number


def _double(value: float) -> Expr:
    """Return the literal of a double. NaN and infinities are compared by Spark alone, never by a database."""
    if not math.isfinite(value):
        return exp.cast(exp.Literal.string(str(value)), "double", dialect="spark")
    text = repr(value)
    return _number(text if "e" in text else f"{text}e0")


def _decimal(value: Decimal, type_: pa.Decimal128Type) -> Expr:
    digits = exp.Literal(this=format(value, "f"), is_string=False)
    return exp.Cast(this=digits, to=exp.DataType.build(f"DECIMAL({type_.precision},{type_.scale})", dialect="spark"))


def _time(value: datetime, type_: pa.TimestampType) -> Expr:
    """Return the literal of a time. A timestamp without a zone is compared by its text, which every database parses."""
    text = exp.Literal.string(value.replace(tzinfo=None).isoformat(" ", "microseconds"))
    return text if type_.tz is None else exp.Cast(this=text, to=exp.DataType.build("TIMESTAMP", dialect="spark"))


def row_tests(row: Mapping[str, Any], columns: Mapping[str, pa.DataType]) -> tuple[Expr, ...]:
    """Return tests that these columns have the row's values; NULL equals NULL."""
    tests: list[Expr] = []
    for name, type_ in columns.items():
        value = constant(row[name], type_)
        if isinstance(value, exp.Null):
            tests.append(exp.Is(this=column(name), expression=value))
        elif value is not None:
            tests.append(exp.EQ(this=column(name), expression=value))
    return tuple(tests)


def is_constant(expr: Expr | None) -> bool:
    """Return whether an expression is a literal in the form of `constant`."""
    if isinstance(expr, exp.Cast | exp.Neg | exp.Paren):
        return is_constant(expr.this)
    return isinstance(expr, exp.Literal | exp.Null | exp.Boolean)


def fixed_columns(tests: tuple[Expr, ...]) -> dict[str, Expr]:
    """Return the columns that tests fix to one value, with the value."""
    found: dict[str, Expr] = {}
    for test in tests:
        if (
            isinstance(test, exp.EQ | exp.Is | exp.NullSafeEQ)
            and isinstance(test.this, exp.Column)
            and is_constant(test.expression)
        ):
            found.setdefault(test.this.name, test.expression)
    return found


def is_impossible(test: Expr) -> bool:
    """Return whether a comparison of two literals is never TRUE."""
    if not isinstance(test, exp.EQ | exp.Is | exp.NullSafeEQ):
        return False
    left, right = _bare(test.this), _bare(test.expression)
    if not (is_constant(left) and is_constant(right)):
        return False
    if isinstance(left, exp.Null) or isinstance(right, exp.Null):
        return isinstance(test, exp.EQ) or type(left) is not type(right)
    values = _value(left), _value(right)
    return type(values[0]) is type(values[1]) is not type(None) and values[0] != values[1]


def _value(literal: Expr) -> str | bool | Decimal | None:
    """Return the value of a literal; None for types that only a database can compare."""
    if isinstance(literal, exp.Neg):
        value = _value(_bare(literal.this))
        return -value if isinstance(value, Decimal) else None
    if isinstance(literal, exp.Literal):
        return literal.this if literal.is_string else Decimal(literal.this)
    return bool(literal.this) if isinstance(literal, exp.Boolean) else None


def _bare(expr: Expr) -> Expr:
    """Return a literal without parentheses and redundant casts."""
    while isinstance(expr, exp.Paren) or (isinstance(expr, exp.Cast) and _is_of(expr.this, expr.to)):
        expr = expr.this
    return expr


def _is_of(value: Expr, type_: exp.DataType) -> bool:
    if not isinstance(value, exp.Literal):
        return False
    return (
        type_.is_type(*exp.DataType.TEXT_TYPES) if value.is_string else value.is_int and type_.is_type("int", "bigint")
    )
