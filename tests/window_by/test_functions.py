"""Functions and casts: the interpreter and Spark's own expressions give the same values."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from belvedere.sqlpp.parser import parse_window_query
from tests.window_by.interpreter.interpret_query import compile_query

BIG = "CAST('12345678901234567890123456789.5' AS DECIMAL(38, 1))"
PRICE = "CAST('1.00000001' AS DECIMAL(18, 8))"
NAN, INF = "CAST('NaN' AS DOUBLE)", "EXP(1000)"
VALUES: list[tuple[str, Any]] = [
    ("CAST('1.7' AS BIGINT)", None),
    ("CAST('1e3' AS BIGINT)", None),
    ("CAST('1_0' AS BIGINT)", None),
    ("CAST(' +12 ' AS BIGINT)", 12),
    ("CAST('9223372036854775808' AS BIGINT)", None),
    ("CAST(1e300 AS BIGINT)", None),
    ("CAST(-2.9 AS BIGINT)", -2),
    (f"CAST({NAN} AS BIGINT)", None),
    ("CAST('1_0' AS DOUBLE)", None),
    ("CAST('1.5d' AS DOUBLE)", 1.5),
    ("CAST('-inf' AS DOUBLE)", -math.inf),
    ("CAST('5.' AS DOUBLE)", 5.0),
    ("CAST(123456 AS DECIMAL(4, 2))", None),
    ("CAST('1.005' AS DECIMAL(4, 2))", Decimal("1.01")),
    (f"CAST({INF} AS DECIMAL(4, 2))", None),
    ("CAST('2024-2-8' AS DATE)", date(2024, 2, 8)),
    ("CAST('2024-02' AS DATE)", date(2024, 2, 1)),
    ("CAST('2024-02-29xyz' AS DATE)", None),
    ("CAST('2024-02-29T10:00' AS DATE)", date(2024, 2, 29)),
    ("CAST(1e10 AS STRING)", "1.0E10"),
    ("TO_STRING(0.00012)", "1.2E-4"),
    ("TO_STRING(1234567.25)", "1234567.25"),
    (f"CONCAT({INF}, '/', -0.5)", "Infinity/-0.5"),
    ("CONCAT('a', [1])", None),
    ("POWER(-8, 0.5)", math.nan),
    ("POWER(0, -1)", math.inf),
    ("POWER(10, 400)", math.inf),
    (INF, math.inf),
    (f"{INF} % 2", math.nan),
    (f"{INF} DIV 2", None),
    ("-7.5 DIV 2", -3),
    ("7.5 DIV 0", None),
    ("-7.5 % 2", -1.5),
    (f"SIGN({NAN})", None),
    (f"CEIL({INF})", math.inf),
    ("ROUND(1e300)", 1e300),
    ("CAST(1.1 AS DECIMAL(3, 1)) = 1.1", True),
    ("CAST(1.1 AS DECIMAL(3, 1)) IN [1.1]", True),
    (f"{BIG} + 1", Decimal("12345678901234567890123456790.5")),
    (f"{BIG} % 10", Decimal("9.5")),
    (f"ABS(-{BIG})", Decimal("12345678901234567890123456789.5")),
    (f"ARRAY_SUM([{BIG}, {BIG}])", Decimal("24691357802469135780246913579.0")),
    ("ARRAY_SUM([1e308, 1e308])", math.inf),
    (f"ARRAY_AVG([{INF}, -{INF}])", math.nan),
    ("DAY(DATETIME('2024-02-29T23:00:00-05:00'))", 1),
    ("UNIX_DATE(DATE('1969-12-30'))", -2),
    ("UNIX_DATE(CAST('2024-03-01' AS DATE)) - UNIX_DATE(CAST('2024-02-01' AS DATE))", 29),
    ("UNIX_MICROS(DATETIME('1970-01-01T00:00:01.5Z'))", 1_500_000),
    ("UNIX_MICROS(5)", None),
    (f"{PRICE} + {PRICE} + {PRICE}", Decimal("3.00000003")),
    (f"{PRICE} * {PRICE} * {PRICE}", Decimal("1.000000030000000300000001")),
    (f"{PRICE} * 2 - 1", Decimal("1.00000002")),
    ("EXISTS [1]", True),
    ("EXISTS []", False),
]


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return bool(left == right) and (left is None) == (right is None)


@pytest.mark.parametrize(("text", "expected"), VALUES, ids=[t for t, _ in VALUES])
def test_the_interpreter(text: str, expected: Any) -> None:
    (found,) = compile_query(parse_window_query(f"FROM [1] AS z SELECT VALUE {text}"))({})
    assert same(found, expected)


@pytest.mark.spark
def test_spark(spark: Any) -> None:
    from belvedere.spark.window_by.windows_query import run_window_query

    columns = ", ".join(f"{text} AS c{number}" for number, (text, _) in enumerate(VALUES))
    (row,) = run_window_query(spark, f"FROM [1] AS z SELECT {columns}", {}).toArrow().to_pylist()
    wrong = [(text, row[f"c{n}"]) for n, (text, expected) in enumerate(VALUES) if not same(row[f"c{n}"], expected)]
    assert wrong == []
    whole = "WINDOW BY w ORDER BY z TYPE TUMBLING START AS s END UNBOUNDED"
    text = (
        f"FROM [1, 2] AS z LET d = {BIG}, s = 'a' {whole} SELECT ARRAY_SUM(w[*].d) AS total, ARRAY_AVG(w[*].s) AS mean"
    )
    (row,) = run_window_query(spark, text, {}).toArrow().to_pylist()
    assert row == {"total": Decimal("24691357802469135780246913579.0"), "mean": None}
