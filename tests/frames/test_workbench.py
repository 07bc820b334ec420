"""Frames at the Workbench and in `belvedere.sql`: in, out, queries, the page in a notebook."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import belvedere
from belvedere.errors import BelvedereError
from belvedere.workbench.workbench import Workbench

SCRIPT = """
CREATE STREAM Bid (at TIMESTAMP, price DECIMAL(10, 2), `<i>item` STRING, WATERMARK FOR at AS at - INTERVAL 1 DAY);
CREATE TABLE Item (name STRING NOT NULL, seller STRING, PRIMARY KEY (name));
Best := SELECT `<i>item` AS item, max(price) AS top, count(*) AS bids FROM Bid GROUP BY `<i>item`;
_Known := SELECT name FROM Item;
Latest := SELECT at, price FROM Bid ORDER BY at DESC;
Best := SELECT *, now() > TIMESTAMP '2024-02-01' AS later FROM Best;
"""
pytestmark = [pytest.mark.spark]


@pytest.fixture(scope="module")
def wb(spark: Any, module_store: str) -> Any:
    made = Workbench(SCRIPT, module_store, spark=spark)
    made.clock(pd.Timestamp("2024-03-01 13:00", tz="Europe/Berlin"))
    assert made.rows("Best") == []
    assert made.rows("Best").to_pandas().columns.tolist() == ["item", "top", "bids", "later"]
    times = pd.to_datetime(["2024-03-01 10:00", "2024-03-01 11:00", "2024-03-01 11:30"])
    made.insert("Bid", pd.DataFrame({"at": times, "price": [1.5, np.nan, 2], "<i>item": ["é", None, "é"]}))
    made.insert(
        "Bid", pl.DataFrame({"at": [datetime(2024, 3, 1, 9, 30)], "price": [Decimal("7.25")], "<i>item": ["b"]})
    )
    made.insert("Item", pa.table({"name": ["é", "b"], "seller": ["s", None]}))
    made.insert("Item", [{"name": np.str_("gone"), "seller": pd.NA}])
    made.delete("Item", pd.DataFrame({"name": ["gone"], "other": [1]}))
    made.step()
    yield made
    made.close()


def best(item: str | None, top: str | None, bids: int) -> dict[str, Any]:
    return {"item": item, "top": None if top is None else Decimal(top), "bids": bids, "later": True}


@pytest.mark.smoke("way Workbench")
def test_frames_come_in_as_rows_do(wb: Workbench) -> None:
    rows = wb.rows("Best")
    assert isinstance(rows, list)
    assert sorted(rows, key=str) == sorted([best("é", "2.00", 2), best(None, None, 1), best("b", "7.25", 1)], key=str)
    assert sorted(wb.batch("Best"), key=str) == sorted(rows, key=str)
    assert sorted(wb.rows("Item"), key=str) == [{"name": "b", "seller": None}, {"name": "é", "seller": "s"}]


def test_rows_and_changes_go_out_as_frames(wb: Workbench) -> None:
    frame = wb.rows("Best").to_pandas()
    assert frame["top"].sum() == Decimal("9.25")
    assert wb.rows("Best").to_polars()["bids"].sum() == 4
    changes = wb.changes("Best")
    assert [weight for _, weight in changes] == [1, 1, 1]
    assert changes.to_arrow().column_names == ["item", "top", "bids", "later", "_weight"]
    assert wb.rows("Latest")._repr_html_().index("11:30") < wb.rows("Latest")._repr_html_().index("09:30")


def test_a_query_reads_what_is_served(wb: Workbench) -> None:
    rows = wb.query(
        "SELECT b.item, i.seller, now() AS t FROM Best b JOIN Item i ON i.name = b.item ORDER BY b.item DESC"
    )
    noon = datetime(2024, 3, 1, 12, tzinfo=UTC)
    assert rows == [{"item": "é", "seller": "s", "t": noon}, {"item": "b", "seller": None, "t": noon}]
    assert rows.to_pandas()["item"].tolist() == ["é", "b"]
    assert [r["price"] for r in wb.query("SELECT * FROM Latest LIMIT 1")] == [Decimal("2.00")]
    assert wb.query("SELECT 1 AS a WHERE FALSE").to_arrow().num_rows == 0
    for wrong, code in (
        ("SELECT nam FROM Item", "B2002"),
        ("SELECT name FROM Itm", "B2001"),
        ("", "B9120"),
        (None, "B6017"),
    ):
        with pytest.raises(BelvedereError) as error:
            wb.query(wrong)  # type: ignore[arg-type]
        assert error.value.diagnostics[0].code.startswith(code)


def test_the_page_of_a_workbench(wb: Workbench) -> None:
    html = wb._repr_html_()
    for part in (
        "epoch 1;",
        "clock 2024-03-01T12:00:00Z",
        "&lt;i&gt;item",
        "stream",
        "table",
        "ingest",
        "whole",
        "Latest",
    ):
        assert part in html
    assert [int(n) for n in re.findall(r'right">(\d+)</td>', html)] == [4, 2, 4, 3], "rows of Bid, Item, Latest, Best"
    assert "<i>" not in html
    assert "_Known" not in html
    assert "~" not in html.replace(wb.store.url, "")


def test_wrong_arguments_are_told(wb: Workbench) -> None:
    for call, code in (
        (lambda: wb.insert("Bidd", []), "B6012"),
        (lambda: wb.insert(5, []), "B6012"),  # type: ignore[arg-type]
        (lambda: wb.insert("Bid", pd.DataFrame({"at": ["soon"]})), "B6001"),
        (lambda: wb.rows(None), "B2001"),  # type: ignore[arg-type]
        (lambda: wb.clock("soon"), "B6016"),
        (lambda: wb.graphql(5), "B6017"),  # type: ignore[arg-type]
        (lambda: Workbench(Path("a.sqrl")), "B6017"),  # type: ignore[arg-type]
        (lambda: wb.bound("Bid", pd.NaT), "B6016"),
        (lambda: wb.rows("Best", as_of=b"x"), "B6016"),  # type: ignore[arg-type]
    ):
        with pytest.raises(BelvedereError) as error:
            call()
        assert error.value.diagnostics[0].code == code


def test_sql_takes_frames_of_any_kind(spark: Any) -> None:
    times = pd.to_datetime(["2024-03-01 01:00", None]).tz_localize("Europe/Berlin")
    left = pd.DataFrame({"k": ["é", "b"], "t": times})
    right = pl.DataFrame({"k": ["é", "c"], "n": [[1, 2], None]})
    text = "SELECT l.k, unix_seconds(l.t) AS s, r.n, a.x FROM l LEFT JOIN r ON r.k = l.k JOIN a ON TRUE ORDER BY l.k"
    rows = belvedere.sql(spark, text, l=left, r=right, a=pa.table({"x": [True]})).collect()
    assert [tuple(row) for row in rows] == [("b", None, None, True), ("é", 1709251200, [1, 2], True)]
    windows = "FROM r AS x WINDOW BY w ORDER BY x.n TYPE TUMBLING START AS s END WHEN TRUE SELECT s.k AS k"
    assert belvedere.sql(spark, windows, r=pd.DataFrame({"k": ["b", "a"], "n": [2, 1]})).toPandas()["k"].tolist() == [
        "a",
        "b",
    ]
    with pytest.raises(BelvedereError) as error:
        belvedere.sql(spark, "SELECT * FROM l", l=[{"a": 1}])
    assert '"l" needs a frame, not list' in error.value.diagnostics[0].message
