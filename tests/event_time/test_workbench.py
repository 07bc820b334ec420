"""Bounds, producers and late rows at the Workbench: judged at once, kept with the epoch, the same after a restart."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from belvedere.errors import BelvedereError
from belvedere.schema import TIMESTAMP
from belvedere.values.instants import microseconds
from belvedere.workbench.workbench import Workbench
from tests.event_time.cases import at

BIDS = """
CREATE STREAM Bid (bidtime TIMESTAMP, price INT, item STRING, WATERMARK FOR bidtime);
CREATE STREAM Kept (bidtime TIMESTAMP, price INT, WATERMARK FOR bidtime) LATE KEEP;
CREATE STREAM Dropped (ts TIMESTAMP, price INT, WATERMARK FOR ts AS ts - INTERVAL 1 MINUTE) LATE DROP;
CREATE STREAM Orders (ticker STRING);
Total := SELECT count(*) AS n, sum(price) AS price FROM Bid;
Times := SELECT ticker, rowtime AS t FROM Orders;
Missed := SELECT item, reason, bound FROM LATE(Bid);
"""


@pytest.fixture(scope="module")
def wb(spark: Any, module_store: str) -> Any:
    made = Workbench(BIDS, module_store, spark=spark)
    yield made
    made.close()


def bid(time: str, price: int, item: str = "A") -> dict[str, Any]:
    return {"bidtime": at(time), "price": price, "item": item}


@pytest.mark.spark
def test_late_rows_raise_at_once_and_the_others_are_taken(wb: Workbench) -> None:
    wb.clock(at("8:00"))
    wb.bound("Bid", at("8:05"))
    with pytest.raises(BelvedereError) as error:
        wb.insert("Bid", [bid("8:05", 1), bid("8:04", 2, "late"), bid("8:06", 4)])
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.code == "B5024"
    assert 'row 2 of "Bid" is late' in diagnostic.message
    assert "8:04" in diagnostic.message
    assert "8:05" in diagnostic.message
    wb.step()
    assert wb.rows("Total") == [{"n": 2, "price": 5}]
    assert wb.rows("Missed") == [
        {"item": "late", "reason": "rejected: bidtime is below the bound", "bound": at("8:05")}
    ]
    (row,) = wb.rows("LATE(Bid)")
    assert row["price"] == 2
    assert wb.batch("Missed") == wb.rows("Missed")


@pytest.mark.spark
def test_rows_in_are_rows_used_and_rows_late(wb: Workbench) -> None:
    wb.insert("Dropped", [{"ts": at(t), "price": 1} for t in ("9:00", "8:59", "8:58:59", "9:02", "9:00:30", "9:01")])
    wb.bound("Kept", at("9:00"))
    wb.insert("Kept", [{"bidtime": at("8:00"), "price": 1}])
    wb.step()
    assert len(wb.rows("Dropped")) == 4
    assert [r["ts"] for r in wb.rows("LATE(Dropped)")] == [at("8:58:59"), at("9:00:30")]
    assert len(wb.rows("Kept")) == 1
    assert wb.rows("LATE(Kept)") == []
    for name, counts in wb.engine.last.clocks.counts.items():
        assert counts.given == len(wb.rows(name)) + len(wb.rows(f"LATE({name})"))


@pytest.mark.spark
def test_bounds_and_producers_survive_a_restart_with_what_waits_for_an_epoch(wb: Workbench) -> None:
    wb.clock(at("10:00"))
    wb.open("Orders", producer="p1", bound=at("10:00"))
    wb.insert("Orders", [{"ticker": "r1", "rowtime": at("10:00")}], producer="p1")
    wb.step()
    wb.open("Orders", producer="p2")
    wb.insert("Orders", [{"ticker": "r2", "rowtime": at("10:05")}], producer="p1")
    before = wb._intake.clocks
    wb.restart()
    assert wb._intake.clocks == before
    wb.step()
    wb.restart()
    assert wb._intake.clocks == before
    with pytest.raises(BelvedereError, match="is late"):
        wb.insert("Orders", [{"ticker": "r3", "rowtime": at("9:59")}], producer="p2")
    with pytest.raises(BelvedereError, match="is late"):
        wb.insert("Orders", [{"ticker": "r3", "rowtime": at("10:04")}], producer="p1")
    wb.insert("Orders", [{"ticker": "r4", "rowtime": at("10:04")}], producer="p2")
    wb.close("Orders", producer="p1")
    wb.close("Orders", producer="p2")
    wb.step()
    assert [r["ticker"] for r in wb.rows("Orders")] == ["r1", "r2", "r4"]
    assert len(wb.rows("LATE(Orders)")) == 2


@pytest.mark.spark
def test_a_row_without_rowtime_has_the_clock_at_its_arrival(wb: Workbench) -> None:
    wb.clock(at("11:00"))
    wb.insert("Orders", [{"ticker": "now"}])
    wb.clock(at("11:30"))
    wb.step()
    assert {r["ticker"]: r["t"] for r in wb.rows("Times")}["now"] == at("11:00")


@pytest.mark.spark
def test_what_has_no_event_time_takes_no_bounds(spark: Any) -> None:
    wb = Workbench(
        "CREATE TABLE T (a INT, PRIMARY KEY (a)); CREATE STREAM S (t TIMESTAMP, WATERMARK FOR t);", spark=spark
    )
    try:
        for call in (
            lambda: wb.bound("T", 0),
            lambda: wb.open("T", "p"),
            lambda: wb.insert("T", [{"a": 1}], producer="p"),
        ):
            with pytest.raises(BelvedereError, match="B5021"):
                call()
        with pytest.raises(BelvedereError, match="B5022"):
            wb.close("S", producer="nobody")
        with pytest.raises(BelvedereError, match="B5021"):
            wb.bound("S", 0, column="u")
    finally:
        wb.close()


@pytest.mark.spark
def test_rows_of_sources_are_judged_by_the_epoch_that_takes_them_in(spark: Any) -> None:
    script = """
    CREATE STREAM Dropped (ts TIMESTAMP, n INT, WATERMARK FOR ts AS ts - INTERVAL 1 MINUTE) LATE DROP;
    CREATE STREAM Kept (ts TIMESTAMP, n INT, WATERMARK FOR ts AS ts) LATE KEEP;
    Hours := SELECT FLOOR(ts TO HOUR) AS h, count(*) AS n FROM Kept GROUP BY FLOOR(ts TO HOUR) EMIT AFTER WATERMARK;
    """
    wb = Workbench(script, spark=spark)
    try:
        times = ["9:00", "9:05", "9:04", "9:03:59"]
        table = pa.table({"ts": pa.array([at(t) for t in times], TIMESTAMP), "n": pa.array([1, 2, 3, 4], pa.int32())})
        frame = spark.createDataFrame(table)
        wb.engine.run_epoch({"Dropped": table, "Kept": frame}, at("12:00"))
        assert [r["n"] for r in wb.rows("Dropped")] == [1, 2, 3]
        assert [r["n"] for r in wb.rows("LATE(Dropped)")] == [4]
        assert len(wb.rows("Kept")) == 4
        assert wb.engine.last.clocks.bound("Kept", "ts") == microseconds(at("9:05"))
        assert wb.engine.last.clocks.counts["Kept"].given == 4
        assert wb.rows("Hours") == []
        wb.restart()
        wb.engine.run_epoch({"Dropped": frame, "Kept": spark.createDataFrame(table.slice(0, 0))}, at("12:01"))
        assert [r["n"] for r in wb.rows("LATE(Dropped)")] == [4, 1, 4]
        later = pa.table({"ts": pa.array([at("10:00")], TIMESTAMP), "n": pa.array([5], pa.int32())})
        wb.engine.run_epoch({"Kept": later}, at("12:02"))
        assert wb.rows("Hours") == [{"h": at("9:00"), "n": 4}]
        wb.engine.run_epoch({"Kept": table.slice(0, 1)}, at("12:03"))  # late, and kept: the emitted rows is corrected
        assert wb.rows("Hours") == [{"h": at("9:00"), "n": 5}]
    finally:
        wb.close()


@pytest.mark.spark
def test_rows_before_the_first_clock_have_its_time(spark: Any) -> None:
    wb = Workbench("CREATE STREAM s (a INT); V := SELECT STREAM rowtime AS t, a FROM s;", spark=spark)
    try:
        wb.insert("s", [{"a": 1}])
        wb.clock(at("8:00"))
        wb.insert("s", [{"a": 2}])
        wb.step()
        assert wb.rows("V") == [{"t": at("8:00"), "a": 1}, {"t": at("8:00"), "a": 2}]
    finally:
        wb.close()
