"""Rows on which an expression fails: the error names view, expression and row, and the epoch is rolled back."""

from __future__ import annotations

from typing import Any

import pytest

from belvedere.errors import BelvedereError, Diagnostic
from belvedere.workbench.workbench import Workbench

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
    "a pattern": (
        "SELECT k, 'x' RLIKE concat('(', if(a = 0, '', ')')) AS found FROM T",
        "invalid regular expression",
        None,
    ),
    "a time": ("SELECT k, to_timestamp(if(a = 0, g, '2024'), 'yyyy') AS t FROM T", "cannot parse timestamp", None),
    "a date": ("SELECT k, make_date(2024, a, 1) AS d FROM T", "datetime field out of bounds", None),
    "an element": (
        "SELECT k, element_at(array(1), a - 4) AS e FROM T",
        "invalid array index in element at",
        "ELEMENT_AT",
    ),
    "first rows": ("SELECT k FROM T ORDER BY 1 / a LIMIT 3", "divide by zero", None),
}


def failure(wb: Workbench) -> Diagnostic:
    with pytest.raises(BelvedereError) as failed:
        wb.step()
    (found,) = failed.value.diagnostics
    return found


@pytest.mark.spark
def test_an_earlier_definition_that_fails_has_its_name_in_the_script(spark: Any) -> None:
    wb = Workbench(
        f"{TABLE} Q := SELECT a, sum(10 / a) AS s FROM T GROUP BY a; Q := SELECT max(s) AS s FROM Q;", spark=spark
    )
    wb.insert("T", [BAD])
    found = failure(wb)
    assert found.message == 'view "Q" failed: divide by zero'
    assert "~" not in f"{found.detail}{found.hint}"
    wb.close()


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
        assert "ansi.enabled" not in found.detail
        assert f"row of \"T\": k = 77, g = 'y', a = 0, b = {BAD['b']}" in found.detail
        wb.restart()
        assert wb.engine.last.number == 1
        assert wb.rows("Q") == before
    finally:
        wb.close()


@pytest.mark.spark
def test_the_least_integer_is_taken_back(spark: Any) -> None:
    wb = Workbench(
        "CREATE TABLE T (k INT PRIMARY KEY, a INT); S := SELECT sum(a) AS s, avg(a) AS m FROM T;", spark=spark
    )
    try:
        wb.insert("T", [{"k": 1, "a": -(2**31)}, {"k": 2, "a": 4}])
        wb.step()
        wb.delete("T", [{"k": 1}])
        wb.step()
        assert wb.rows("S") == wb.batch("S") == [{"s": 4, "m": 4.0}]
    finally:
        wb.close()


@pytest.mark.spark
def test_a_sum_overflows_only_where_the_sum_of_its_rows_does(spark: Any) -> None:
    least, most = -(2**63), 2**63 - 1
    script = "CREATE TABLE T (k INT PRIMARY KEY, g INT, b BIGINT); S := SELECT g, sum(b) AS s FROM T GROUP BY g;"
    wb = Workbench(script, spark=spark)
    steps: list[tuple[list[tuple[int, int, int]], list[int]]] = [
        ([(1, 1, least), (2, 1, most), (3, 2, -5), (4, 2, most - 1)], []),
        ([(5, 1, 7), (6, 2, least)], [1, 3]),  # the least goes: what is left fits
        ([(2, 1, -1), (7, 1, 2**62), (8, 1, 2**62 - 8)], [4]),
        ([], [5, 6]),
    ]
    sums: dict[int, tuple[int, int]] = {}
    try:
        for number, (rows, gone) in enumerate(steps):
            if number == 1:
                wb.insert("T", [{"k": 2, "g": 1, "b": -9}])
                sums[2] = (1, -9)
            wb.insert("T", [{"k": k, "g": g, "b": b} for k, g, b in rows])
            wb.delete("T", [{"k": k} for k in gone])
            wb.step()
            sums |= {k: (g, b) for k, g, b in rows}
            sums = {k: v for k, v in sums.items() if k not in gone}
            groups = {g: [b for h, b in sums.values() if h == g] for g, _ in sums.values()}
            expected = [{"g": g, "s": sum(bs)} for g, bs in groups.items()]
            assert sorted(wb.rows("S"), key=str) == sorted(expected, key=str), number
        wb.insert("T", [{"k": 9, "g": 1, "b": 8}, {"k": 10, "g": 1, "b": 2**62}])
        assert failure(wb).message == 'view "S" failed: arithmetic overflow'
    finally:
        wb.close()
