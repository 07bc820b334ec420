"""The refusals that no other test meets: in the text of a query, and when its rows are read."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from belvedere.errors import BelvedereError
from belvedere.schema import Column, Schema
from belvedere.sqlpp.check import check_window_query

T = Schema((Column("k", pa.int64()), Column("s", pa.string()), Column("m", pa.map_(pa.string(), pa.int64()))))
IN_TEXT = [
    ("FROM t AS x SELECT 'never closed AS y", "B1602"),
    ('FROM t AS x SELECT VALUE {"a": x.k, "a": x.s}', "B2603"),
    ("FROM t AS x SELECT x.k & 1 AS y", "B3601"),
    ("FROM t AS x SELECT CAST(x.k AS BINARY) AS y", "B3603"),
    ("FROM t AS x SELECT round() AS y", "B3604"),
    ("FROM t AS x SELECT x.k = x.s AS y", "B3607"),
    ("FROM t AS x SELECT VALUE x.k UNION ALL FROM t AS x SELECT VALUE [x.k]", "B3609"),
    ("FROM t AS x SELECT x.k LIMIT 'many'", "B3610"),
    ("FROM t AS x WINDOW BY w PARTITION BY x.k ORDER BY x.m TYPE TUMBLING START END SELECT w", "B3612"),
    ("FROM t AS x SELECT x.k.*", "B3613"),
]


@pytest.mark.parametrize(("text", "code"), IN_TEXT)
def test_in_the_text(text: str, code: str) -> None:
    try:
        found = [d.code for d in check_window_query(text, {"t": T})]
    except BelvedereError as error:
        found = [d.code for d in error.diagnostics]
    assert code in found


AT_THE_ROWS = [
    ("FROM u AS x SELECT x.k", "B3620"),
    ("FROM t AS x, (FROM t AS y WHERE y.k = x.k SELECT y.k) AS z SELECT z", "B3621"),
    ("FROM t AS x AT p SELECT x.k", "B3622"),
    ("FROM t AS x LEFT JOIN t AS y ON (FROM t AS z SELECT VALUE z.k) IS NULL SELECT x.k", "B3623"),
]


@pytest.mark.spark
@pytest.mark.parametrize(("text", "code"), AT_THE_ROWS)
def test_at_the_rows(spark: Any, text: str, code: str) -> None:
    from belvedere.spark.window_by.windows_query import run_window_query

    plain = spark.createDataFrame([(1, "a")], "k bigint, s string")
    durations = spark.createDataFrame([(1, [timedelta(1)])], "k bigint, d array<interval day to second>")
    with pytest.raises(BelvedereError, match=code):
        run_window_query(spark, text, {"t": plain, "u": durations})
