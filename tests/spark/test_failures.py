"""Rows on which an expression fails end the epoch cleanly: the view, the expression and the row are named, nothing is kept."""

from __future__ import annotations

from typing import Any

import pytest

from belvedere.errors import BelvedereError, Diagnostic
from belvedere.workbench import Workbench

TABLE = "CREATE TABLE T (k INT PRIMARY KEY, g STRING, a INT, b BIGINT);"
GOOD = [{"k": n, "g": "x", "a": 5, "b": 1} for n in range(40)]
BAD = {"k": 77, "g": "y", "a": 0, "b": 9_223_372_036_854_775_807}
CASES = {
    "a projection": ("SELECT k, 10 / a AS q FROM T", "divide by zero", "10 / `a`"),
    "a key": ("SELECT count(*) AS n, 10 % a AS rest FROM T GROUP BY 10 % a", "remainder by zero", "10 % `a`"),
    "accumulators": ("SELECT g, sum(100 / a) AS s FROM T GROUP BY g", "divide by zero", None),
    "a median": ("SELECT g, median(100 / a) AS s FROM T GROUP BY g", "divide by zero", None),
    "a join": ("SELECT l.k, r.b * 2 AS twice FROM T l JOIN T r ON l.k = r.k", "arithmetic overflow", None),
    "a sum": ("SELECT sum(b) AS total FROM T", "arithmetic overflow", None),
    "a cast": ("SELECT k, CAST(b AS INT) AS small FROM T", "cast overflow", None),
    "first rows": ("SELECT k FROM T ORDER BY 1 / a LIMIT 3", "divide by zero", None),
}


def failure(wb: Workbench) -> Diagnostic:
    with pytest.raises(BelvedereError) as failed:
        wb.step()
    (found,) = failed.value.diagnostics
    return found


@pytest.mark.spark
@pytest.mark.parametrize("case", CASES)
def test_the_view_the_expression_and_the_row_are_named(spark: Any, case: str) -> None:
    query, condition, expression = CASES[case]
    wb = Workbench(f"{TABLE} Q := {query};", spark=spark)
    try:
        wb.insert("T", GOOD)
        wb.step()
        before = wb.rows("Q")
        wb.insert("T", [GOOD[0] | {"k": 50}, BAD, GOOD[0] | {"k": 99}])
        found = failure(wb)
        assert found.code == "B7040"
        assert found.message == f'view "Q" failed: {condition}'
        assert found.span is not None
        assert found.detail is not None
        assert expression is None or expression in found.detail
        assert f"row of \"T\": k = 77, g = 'y', a = 0, b = {BAD['b']}" in found.detail
        wb.restart()
        assert wb.engine.epoch == 1
        assert wb.rows("Q") == before
    finally:
        wb.close()


@pytest.mark.spark
def test_the_least_integer_is_taken_back(spark: Any) -> None:
    wb = Workbench("CREATE TABLE T (k INT PRIMARY KEY, a INT); S := SELECT sum(a) AS s, avg(a) AS m FROM T;", spark=spark)
    try:
        wb.insert("T", [{"k": 1, "a": -(2**31)}, {"k": 2, "a": 4}])
        wb.step()
        wb.delete("T", [{"k": 1}])
        wb.step()
        assert wb.rows("S") == wb.batch("S") == [{"s": 4, "m": 4.0}]
    finally:
        wb.close()
