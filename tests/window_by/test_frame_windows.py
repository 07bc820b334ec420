"""`belvedere.window_by`: the query that it builds, and one run of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import belvedere
from belvedere.errors import BelvedereError
from belvedere.queries.frame_windows import FrameWindows

ROWS = [("a", 1, 10, "x"), ("a", 2, 30, "y"), ("a", 3, 12, "x"), ("b", 1, 5, "z"), ("b", 2, 4, None)]
SCHEMA = "station string, day int, val int, `odd name` string"


def windows(frame: Any = None) -> FrameWindows:
    columns = frame or SimpleNamespace(columns=["station", "day", "val", "odd name", "start"])
    return belvedere.window_by(columns).partition_by("station").order_by("day")


HEAD = "FROM frame AS r WINDOW BY w PARTITION BY r.station ORDER BY r.day TYPE "
COLD = windows().start_when("val < 25").end_when("next.val >= 25 or next is missing")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (
            COLD.query("start.day AS first", "avg(val) AS mean"),
            HEAD
            + "SLIDING START AS start_item WHEN start_item.val < 25 END NEXT AS end_next WHEN end_next.val >= 25 or "
            "end_next is missing SELECT start_item.station AS `station`, start_item.day AS first, "
            "ARRAY_AVG(w[*].val) AS mean",
        ),
        (
            windows()
            .tumbling()
            .end_when("end_at - start_at = 1", only=True)
            .query("count(*)", "round(max(val * 2), 1) - min(day) AS x"),
            HEAD + "TUMBLING START AS start_item AT start_at ONLY END AT end_at WHEN end_at - start_at = 1 SELECT "
            "start_item.station AS `station`, ARRAY_COUNT(w) AS `count(*)`, round(ARRAY_MAX((FROM w AS r SELECT "
            "VALUE r.val * 2)), 1) - ARRAY_MIN(w[*].day) AS x",
        ),
        (
            windows()
            .label_when()
            .start_unbounded()
            .end_when("day = label.day")
            .query("collect_list(`odd name`) AS xs"),
            HEAD + "SLIDING LABEL AS label_item WHEN TRUE START UNBOUNDED END AS end_item WHEN end_item.day = "
            "label_item.day SELECT label_item.station AS `station`, ARRAY_AGG(w[*].`odd name`) AS xs",
        ),
        (
            windows()
            .order_by("day", "val", ascending=[False, True])
            .start_unbounded()
            .end_unbounded()
            .query("sum(start) AS s"),
            "FROM frame AS r WINDOW BY w PARTITION BY r.station ORDER BY r.day DESC, r.val TYPE SLIDING START "
            "UNBOUNDED END UNBOUNDED SELECT w[0].station AS `station`, ARRAY_SUM(w[*].start) AS s",
        ),
    ],
)
def test_the_query(query: str, text: str) -> None:
    assert query == text


@pytest.mark.parametrize(
    ("make", "code", "hint"),
    [
        (lambda: COLD.query("val"), "B9122", "max(val)"),
        (lambda: COLD.query("avg(vla)"), "B9123", "`val`"),
        (lambda: windows().start_when("vall < 2").end_when("true").query("count(*)"), "B9123", "`val`"),
        (lambda: windows().query("count(*)"), "B9122", ".end_when("),
        (
            lambda: belvedere.window_by(SimpleNamespace(columns=[])).end_when("true").query("count(*)"),
            "B9122",
            ".order_by(",
        ),
        (lambda: windows().order_by("day", ascending=[True, False]), "B9122", "one for each"),
        (lambda: COLD.query("avg(val"), "B1601", ""),
        (lambda: COLD.query("(SELECT VALUE 1 FROM w AS t)"), "B9122", "belvedere.sql"),
    ],
)
def test_what_is_wrong(make: Any, code: str, hint: str) -> None:
    with pytest.raises(BelvedereError) as error:
        make()
    (found,) = error.value.diagnostics
    assert found.code == code
    assert hint in (found.hint or "")


@pytest.mark.smoke("way belvedere.sql")
@pytest.mark.spark
def test_text_and_columns_give_the_windows_of_the_query(spark: Any) -> None:
    from pyspark.sql import functions as F

    frame = spark.createDataFrame(ROWS, SCHEMA)
    by_text = windows(frame).start_when("val < 25").end_when("next.val >= 25 or next is null or next is missing")
    rows = by_text.agg("start.day AS first", "avg(val) AS mean", "max(val * 2) AS most", "count(*) AS n").collect()
    assert [tuple(r) for r in rows] == [
        ("a", 1, 10.0, 20, 1),
        ("a", 3, 12.0, 24, 1),
        ("b", 1, 4.5, 10, 2),
        ("b", 2, 4.0, 8, 1),
    ]
    near = (F.col("next.val") >= 25) | F.col("next").isNull()
    by_columns = windows(frame).start_when(F.col("val") < 25).end_when(near)
    results = (
        F.col("start.day").alias("first"),
        F.avg("val").alias("mean"),
        F.max(F.col("val") * 2).alias("most"),
        F.count("*").alias("n"),
    )
    assert by_columns.agg(*results).collect() == rows
    with pytest.raises(BelvedereError, match="is not supported here"):
        by_columns.agg(F.count_distinct("val"))
    with pytest.raises(BelvedereError, match="a condition is needed") as error:
        windows(frame).end_when("end.val").agg("count(*) AS n")
    assert "END AS end_item WHEN end_item.val" in error.value.__notes__[0]
