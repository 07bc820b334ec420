"""Arithmetic of numbers as Spark SQL text, exact for decimals.

In: an operator and two numbers as SQL text. Out: text of the result's type.
"""

from __future__ import annotations

import pyarrow as pa

from belvedere.functions.sqlpp_functions import unify
from belvedere.sqlpp.spark_text.sql_values import SqlValue, Untranslatable, converted, sql_type

DIGITS = 38
"""Maximum number of digits of a Spark decimal."""


def computed(symbol: str, left: SqlValue, right: SqlValue, type_: pa.DataType) -> str:
    """Return `left symbol right` as a value of `type_`; NULL for division by zero."""
    if symbol == "/":
        return f"try_divide({converted(left, pa.float64())}, {converted(right, pa.float64())})"
    if symbol in ("DIV", "%"):
        return _divided(symbol, left, right, type_)
    if pa.types.is_decimal(type_):
        return _decimal(symbol, left, right, type_)
    return f"({converted(left, type_)} {symbol} {converted(right, type_)})"


def _divided(symbol: str, left: SqlValue, right: SqlValue, type_: pa.DataType) -> str:
    common = unify([left.type, right.type])
    if pa.types.is_decimal(common):
        rest = f"{left.sql} % nullif({right.sql}, 0)"
        if symbol == "%":
            return f"CAST({rest} AS {sql_type(type_)})"
        return f"try_cast(try_divide({left.sql} - {rest}, {right.sql}) AS BIGINT)"
    a, b = converted(left, common), converted(right, common)
    if symbol == "DIV" and pa.types.is_floating(common):
        return f"try_cast(try_divide({a}, {b}) AS BIGINT)"
    return f"IF({b} = 0, NULL, CAST({a} {symbol} nullif({b}, 0) AS {sql_type(type_)}))"


def _decimal(symbol: str, left: SqlValue, right: SqlValue, type_: pa.DataType) -> str:
    (p, s), (q, t) = _digits(left), _digits(right)
    scale = s + t if symbol == "*" else max(s, t)
    precision = p + q + 1 if symbol == "*" else max(p - s, q - t) + scale + 1
    if precision <= DIGITS or max(DIGITS - (precision - scale), min(scale, 6)) >= scale:
        return f"CAST({left.sql} {symbol} {right.sql} AS {sql_type(type_)})"
    # Spark would round: with more digits it keeps as few as six decimals
    if symbol != "*":
        return f"({_narrow(left, DIGITS - 1, scale)} {symbol} {_narrow(right, DIGITS - 1, scale)})"
    whole = DIGITS - 1 - scale  # digits before the point, of both together
    if whole < 1:
        raise Untranslatable("a product of decimals with more digits than Spark keeps")
    cases = []
    for own in range(0 if s else 1, whole + 1 if t else whole):
        test = f"abs({left.sql}) < {_power(own)} AND abs({right.sql}) < {_power(whole - own)}"
        cases.append(f"WHEN {test} THEN {_narrow(left, own + s, s)} * {_narrow(right, whole - own + t, t)}")
    last = f"{_narrow(left, 1 + s, s)} * {_narrow(right, whole - 1 + t or 1, t)}"
    return f"CAST(CASE {' '.join(cases)} ELSE {last} END AS {sql_type(type_)})"


def _narrow(value: SqlValue, precision: int, scale: int) -> str:
    return f"CAST({value.sql} AS DECIMAL({precision}, {scale}))"


def _digits(value: SqlValue) -> tuple[int, int]:
    if pa.types.is_decimal(value.type):
        return value.type.precision, value.type.scale
    whole = value.sql.rstrip("L")
    return (len(whole) if whole.isdigit() else 20), 0


def _power(digits: int) -> str:
    """Return a power of 10 as a decimal."""
    return f"CAST('1{'0' * digits}' AS DECIMAL({digits + 1}, 0))"
