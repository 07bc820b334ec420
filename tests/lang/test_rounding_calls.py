"""Calls that round a time here and return a number in Spark get a warning with an equivalent spelling for both."""

from __future__ import annotations

import pytest

from belvedere.errors import Severity
from belvedere.syntax.parse import parse_script

UNITS = ("second", "minute", "hour", "day", "month", "quarter", "year")


def warned(text: str) -> list[tuple[str, str]]:
    """What each warning marks, and the edit that avoids it."""
    found = [d for d in parse_script(text).diagnostics if d.code == "B3055"]
    assert all(d.severity is Severity.WARNING for d in found)
    return [(text[d.span.start : d.span.end], d.fix.text) for d in found if d.span and d.fix]


@pytest.mark.parametrize("unit", UNITS)
def test_each_function_is_warned_about(unit: str) -> None:
    assert warned(f"V := SELECT {unit}(t) AS x FROM T") == [(f"{unit}(t)", f"date_trunc('{unit.upper()}', t)")]


@pytest.mark.parametrize(
    ("statement", "call"),
    [
        ("V := SELECT count(*) AS n FROM T GROUP BY Hour(T.t)", "Hour(T.t)"),
        ("V := SELECT id FROM T WHERE month(t + INTERVAL 1 DAY) = 1", "month(t + INTERVAL 1 DAY)"),
        ("T.h := day(t)", "day(t)"),
        ("T.m := max(r.x) + year(t)", "year(t)"),
        ("V := SELECT * FROM (SELECT minute(t) AS m FROM T) x", "minute(t)"),
        ("V(a TIMESTAMP) := SELECT id FROM T WHERE t = hour(:a)", "hour(:a)"),
        ("T.r(a TIMESTAMP) := JOIN T o ON o.t = hour(:a)", "hour(:a)"),
        ("S := SUBSCRIBE SELECT day(t) AS d FROM T", "day(t)"),
    ],
)
def test_in_every_statement(statement: str, call: str) -> None:
    assert [marked for marked, _ in warned(statement)] == [call]


def test_once_for_each_function_of_a_script() -> None:
    script = "V := SELECT hour(t) AS h FROM T GROUP BY hour(t)\nW := SELECT hour(t) AS h, day(t) AS d FROM T"
    assert [marked for marked, _ in warned(script)] == ["hour(t)", "day(t)"]


@pytest.mark.parametrize(
    "expression",
    [
        "date_trunc('HOUR', t)",
        "extract(HOUR FROM t)",
        "FLOOR(t TO HOUR)",
        "CEIL(t TO HOUR)",
        "week(t)",
        "dayofmonth(t)",
        "last_day(t)",
    ],
)
def test_what_is_the_same_in_spark_is_not(expression: str) -> None:
    assert warned(f"V := SELECT {expression} AS x FROM T") == []
