"""Windows of SPL in one query by itself, over DataFrames and files: rows come in their order, and end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import belvedere
from belvedere.commands.query import columns_of
from belvedere.errors import BelvedereError
from belvedere.queries.single_query import compile_query

pytestmark = pytest.mark.spark
ROWS = [
    ("a", 1, "2020-01-01 00:00:01"),
    ("b", 2, "2020-01-01 00:00:02"),
    ("a", 3, "2020-01-01 00:00:11"),
    ("a", 4, "2020-01-01 00:00:12"),
]


def frame(spark: Any) -> Any:
    return spark.createDataFrame(ROWS, "sym STRING, qty INT, at STRING").selectExpr(
        "sym", "qty", "CAST(at AS TIMESTAMP) AS at"
    )


def answers(spark: Any, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in belvedere.sql(spark, text, trades=frame(spark)).collect()]


def test_every_firing_in_its_order(spark: Any) -> None:
    text = "SELECT STREAM sym, Collect(qty) AS held FROM trades WINDOW (sliding, count(2), partitioned BY sym)"
    assert answers(spark, text) == [("a", [1, 3]), ("a", [3, 4])]


def test_the_last_firing_and_the_end_of_the_rows(spark: Any) -> None:
    text = "SELECT sym, Sum(qty) AS q FROM trades WINDOW (tumbling, count(2), partitioned BY sym) ORDER BY sym"
    assert answers(spark, text) == [("a", 4)]
    text = (
        "SELECT sym, Sum(qty) AS q FROM trades WINDOW (tumbling, count(2), partitioned BY sym, flushOnFinal) ORDER "
        "BY sym"
    )
    assert answers(spark, text) == [("a", 4), ("b", 2)]


def test_rows_sorted_as_the_window_fires(spark: Any) -> None:
    text = (
        "SELECT STREAM sym, qty, firing() AS n FROM trades WINDOW (tumbling, count(3), flushOnFinal) ORDER BY qty DESC"
    )
    assert answers(spark, text) == [("a", 3, 1), ("b", 2, 1), ("a", 1, 1), ("a", 4, 2)]


def test_progressive_sort(spark: Any) -> None:
    text = "SELECT STREAM qty FROM trades WINDOW (sliding, count(2)) ORDER BY sym DESC"
    assert answers(spark, text) == [(2,), (1,), (3,), (4,)]


def test_panes_by_the_first_timestamp(spark: Any) -> None:
    text = (
        "SELECT second(intervalStart()) AS s, Sum(qty) AS q FROM trades WINDOW (timeInterval, "
        "intervalDuration(10)) ORDER BY s"
    )
    assert [q for _, q in answers(spark, text)] == [3, 7]


def test_a_wrong_window_is_refused_at_its_place(tmp_path: Path) -> None:
    (tmp_path / "trades.csv").write_text("sym,qty\na,1\n")
    text = "SELECT count(*) AS n FROM trades WINDOW (sliding, punct())"
    with pytest.raises(BelvedereError) as refused:
        compile_query(text, columns_of({"trades": tmp_path / "trades.csv"}))
    (found,) = refused.value.diagnostics
    assert found.code == "B5203"
    assert found.span is not None
    assert text[found.span.start : found.span.end] == "punct()"
