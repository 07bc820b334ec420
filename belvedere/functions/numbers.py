"""Functions of numbers: one row each.

In: nothing. Out: rows for `belvedere.functions.function_table`. `belvedere.functions.function` defines the fields of a
row.
"""

from __future__ import annotations

import pyarrow as pa

from belvedere.functions import sqlpp_functions as wb
from belvedere.functions.function import Function, function, stored
from belvedere.functions.spark_types import DOUBLE, INT8, INT32, INT64, STRING, is_integer
from belvedere.functions.sqlpp_functions import Native, window_by
from belvedere.functions.type_rules import (
    modulo,
    nth,
    number,
    number_interval_or_text,
    number_or_text,
    plain,
    rounded,
    text_or_bytes,
    whole,
)


def _to_whole(function: str) -> tuple[Native, ...]:
    """Return the SQL of a rounding function. A DOUBLE stays a DOUBLE, because a BIGINT holds no infinity; one too large
    to have a fraction remains unchanged."""
    real = f"IF(abs({{0}}) < 4503599627370496D, CAST({function}({{0}}) AS DOUBLE), {{0}})"
    return Native("{0}", is_integer), Native(real, pa.types.is_floating), Native(f"{function}({{0}})", wb.is_number)


NUMBERS: tuple[Function, ...] = (
    function(
        "Abs",
        "abs:1",
        number,
        window_by("ABS:1", wb.number, Native("abs({0})", lambda t: wb.is_number(t) or t == wb.DURATION)),
        first=number_interval_or_text,
        total=True,
        stored=stored(is_integer, sqlite="abs({0})", postgres="abs({0})"),
    ),
    function("Acos", "acos:1", DOUBLE, first=number_or_text),
    function("Acosh", "acosh:1", DOUBLE, first=number_or_text),
    function("Asin", "asin:1", DOUBLE, first=number_or_text),
    function("Asinh", "asinh:1", DOUBLE, first=number_or_text),
    function("Atan", "atan:1", DOUBLE, first=number_or_text),
    function("Atan2", "atan2:2", DOUBLE),
    function("Atanh", "atanh:1", DOUBLE, first=number_or_text),
    function("bin", "bin:1", STRING, first=number_or_text),
    function("BitLength", "bit_length:1", INT32, first=plain),
    function("BitwiseCount", "bit_count:1", INT32),
    function("BitwiseLeftShift", "shiftleft:2", nth(0), total=True),
    function("BitwiseNot", "", nth(0), total=True),
    function("BitwiseRightShift", "shiftright:2", nth(0), total=True),
    function("bround", "bround:1-2", rounded, first=number_or_text),
    function("Cbrt", "cbrt:1", DOUBLE, first=number_or_text),
    function(
        "Ceil",
        "ceil:1-2 ceiling:1-2",
        whole,
        window_by("CEIL:1", wb.number, _to_whole("ceil"), also="CEILING"),
        first=number_or_text,
        total=True,
    ),
    function("conv", "conv:3", STRING),
    function("Cos", "cos:1", DOUBLE, first=number_or_text, total=True),
    function("Cosh", "cosh:1", DOUBLE, first=number_or_text),
    function("Cot", "cot:1", DOUBLE, first=number_or_text),
    function("crc32", "crc32:1", INT64, first=text_or_bytes),
    function("Csc", "csc:1", DOUBLE, first=number_or_text),
    function("Degrees", "degrees:1", DOUBLE, first=number_or_text),
    function("e", "e:0", DOUBLE),
    function(
        "Exp",
        "exp:1",
        DOUBLE,
        window_by("EXP:1", DOUBLE, Native("exp(CAST({0} AS DOUBLE))", wb.is_number, DOUBLE)),
        first=number_or_text,
        total=True,
    ),
    function("expm1", "expm1:1", DOUBLE, first=number_or_text),
    function("Factorial", "factorial:1", INT64, first=number_or_text),
    function(
        "Floor",
        "floor:1-2",
        whole,
        window_by("FLOOR:1", wb.number, _to_whole("floor")),
        first=number_or_text,
        total=True,
    ),
    function("Getbit", "bit_get:2 getbit:2", INT8),
    function("hypot", "hypot:2", DOUBLE),
    function(
        "Ln",
        "ln:1 log:1-2",
        DOUBLE,
        window_by("LN:1", DOUBLE, Native("ln(CAST({0} AS DOUBLE))", wb.is_number, DOUBLE)),
        first=number_or_text,
    ),
    function("Log", "log10:1 log2:1", DOUBLE, first=number_or_text),
    function("log1p", "log1p:1", DOUBLE, first=number_or_text),
    function("Nanvl", "nanvl:2", DOUBLE),
    function("Negative", "negative:1", number, first=number_interval_or_text, total=True),
    function("Pi", "pi:0", DOUBLE, total=True),
    function("pmod", "pmod:2", modulo),
    function("positive", "positive:1", number, first=number_interval_or_text),
    function(
        "Pow",
        "pow:2 power:2",
        DOUBLE,
        window_by(
            "POWER:2",
            DOUBLE,
            Native("power(CAST({0} AS DOUBLE), CAST({1} AS DOUBLE))", wb.is_number, DOUBLE),
            also="POW",
        ),
        total=True,
    ),
    function("Radians", "radians:1", DOUBLE, first=number_or_text),
    function("Rint", "rint:1", DOUBLE, first=number_or_text),
    function("Round", "round:1-2", rounded, window_by("ROUND:1-2", wb.number), first=number_or_text, total=True),
    function("SafeAdd", "try_add:2"),
    function("SafeDivide", "try_divide:2"),
    function("SafeMultiply", "try_multiply:2"),
    function("SafeSubtract", "try_subtract:2"),
    function("Sec", "sec:1", DOUBLE, first=number_or_text),
    function("shiftrightunsigned", "shiftrightunsigned:2", lambda args: INT64 if args and args[0] == INT64 else INT32),
    function(
        "Sign",
        "sign:1 signum:1",
        DOUBLE,
        window_by("SIGN:1", INT64, Native("try_cast(sign({0}) AS BIGINT)", wb.is_number, INT64)),
        first=number_interval_or_text,
        total=True,
    ),
    function("Sin", "sin:1", DOUBLE, first=number_or_text, total=True),
    function("Sinh", "sinh:1", DOUBLE, first=number_or_text),
    function(
        "Sqrt",
        "sqrt:1",
        DOUBLE,
        window_by("SQRT:1", DOUBLE, Native("sqrt(CAST({0} AS DOUBLE))", wb.is_number, DOUBLE)),
        first=number_or_text,
        total=True,
    ),
    function("Tan", "tan:1", DOUBLE, first=number_or_text),
    function("Tanh", "tanh:1", DOUBLE, first=number_or_text),
    function("try_mod", "try_mod:2"),
    function("WidthBucket", "width_bucket:4", INT64),
)
