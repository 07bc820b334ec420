"""`_ingest_time` is the clock at arrival and `_uid` the arrival number, independent of the division into epochs."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from belvedere.catalog.catalog import Catalog
from belvedere.compiler import compile_script
from belvedere.engine.ingest import in_order
from belvedere.intake.ingest_service import IngestService, Request
from belvedere.intake.journal import JournalPosition
from belvedere.intake.request_rows import read_rows
from belvedere.schema import INGEST_TIME, UID
from belvedere.time.event_time import Clocks
from belvedere.values.instants import microseconds
from belvedere.workbench.workbench import Workbench
from tests.event_time.cases import at

SCRIPT = """
CREATE STREAM A (id INT) KEEP 20 SECONDS;
CREATE STREAM B (id INT);
CREATE TABLE K (k INT, v STRING, PRIMARY KEY (k));
CREATE STREAM D (ts TIMESTAMP, WATERMARK FOR ts AS ts) LATE DROP;
"""
VIEWS = """
Times := SELECT id, _ingest_time AS t FROM A;
Uids := SELECT 'a' AS s, id, _uid AS u FROM A UNION ALL SELECT 'b' AS s, id, _uid AS u FROM B;
Keyed := SELECT k, v, _ingest_time AS t FROM K;
Latest := SELECT id, t FROM (DISTINCT Moved ON id ORDER BY t DESC);
Late := SELECT ts, _ingest_time AS t FROM LATE(D);
Ended := SELECT STREAM collect_list(id) AS ids, firingTime() AS f FROM A WINDOW (tumbling, time(5)) AS x;
Slid := SELECT STREAM count(*) AS n, firingTime() AS f FROM A WINDOW (sliding, time(6), count(1)) AS x;
Met := SELECT STREAM a.id, b.id AS other, firingTime() AS f
       FROM A WINDOW (sliding, time(6)) AS a JOIN B WINDOW (sliding, count(2)) AS b ON a.id < b.id;
"""
LATEST = "Moved := SELECT id % 2 AS id, _ingest_time AS t FROM A;\n"
VIEWS = LATEST + VIEWS.replace(
    "SELECT id, t FROM (DISTINCT Moved ON id ORDER BY t DESC)", "DISTINCT Moved ON id ORDER BY t DESC"
)
NAMES = ("Times", "Keyed", "Latest", "Late", "Ended", "Slid", "Met")


def second(number: float) -> datetime:
    return at("8:00") + timedelta(seconds=number)


def arrive(wb: Workbench, step_each: bool) -> None:
    """Rows of several inputs at several instants, in one epoch or in one each."""
    wb.clock(second(0))
    wb.step()
    for number, (table, row) in enumerate(
        [
            ("A", {"id": 0}),
            ("B", {"id": 1}),
            ("K", {"k": 1, "v": "x"}),
            ("D", {"ts": second(50)}),
            ("B", {"id": 4}),
            ("A", {"id": 1}),
            ("D", {"ts": second(40)}),
            ("K", {"k": 1, "v": "y"}),
            ("A", {"id": 2}),
            ("B", {"id": 3}),
        ]
    ):
        wb.clock(second(1 + 3 * number))
        wb.insert(table, [row])
        if step_each:
            wb.step()
    wb.clock(second(31))
    wb.step()


@pytest.mark.spark
def test_one_epoch_gives_what_an_epoch_for_each_row_gives(spark: Any) -> None:
    one, each = (Workbench(SCRIPT + VIEWS, spark=spark) for _ in range(2))
    try:
        arrive(one, False)
        arrive(each, True)
        for name in NAMES:
            assert one.rows(name) == each.rows(name), name
        assert [(r["id"], r["t"]) for r in one.rows("Times")] == [(0, second(1)), (1, second(16)), (2, second(25))]
        assert one.rows("Keyed") == [{"k": 1, "v": "y", "t": second(22)}]
        assert one.rows("Late") == [{"ts": second(40), "t": second(19)}]
        assert one.rows("Ended") == [
            {"ids": [0], "f": second(5)},
            {"ids": [1], "f": second(20)},
            {"ids": [2], "f": second(30)},
        ]
        order = sorted((r["u"], r["s"], r["id"]) for r in one.rows("Uids"))
        assert [(s, i) for _, s, i in order] == [("a", 0), ("b", 1), ("b", 4), ("a", 1), ("a", 2), ("b", 3)]
        assert sorted((r["u"], r["s"], r["id"]) for r in each.rows("Uids")) == order
        assert [r["id"] for r in one.rows("A")] == [1, 2], "KEEP 20 SECONDS counts from the arrival"
        for name, batch in one.batches(NAMES).items():
            assert batch == one.rows(name), name
    finally:
        one.close()
        each.close()


def catalog() -> Catalog:
    return compile_script(SCRIPT).catalog


def test_rows_of_the_journal_keep_their_clock_over_a_restart(tmp_path: Path) -> None:
    """The epoch's clock is not before them; one that went back does not move them below the last epoch."""
    times = iter([second(1), second(2), second(3)])
    found = catalog()
    ingest_service = IngestService(found, tmp_path, Clocks(), JournalPosition(), now=lambda: next(times))
    for table in ("A", "B", "A"):
        (answer,) = ingest_service.take([Request(table, read_rows(found.inputs[table], [{"id": 1}, {"id": 2}]))])
        assert answer.status == 200, answer
    ingest_service.close()
    again = IngestService(found, tmp_path, Clocks(), JournalPosition(ingest_service.journal.id), now=lambda: second(9))
    waiting = again.waiting()
    again.close()
    assert waiting.latest == microseconds(second(3))
    arrivals, free = in_order(waiting.arrivals(found), 100, second(2), second(9))
    assert arrivals["A"][UID].to_pylist() == [100, 101, 104, 105]
    assert arrivals["B"][UID].to_pylist() == [102, 103]
    assert free == 106
    assert arrivals["A"][INGEST_TIME].to_pylist() == [second(2)] * 2 + [second(3)] * 2
    early, _ = in_order(waiting.arrivals(found), 1, None, second(2))
    assert early["A"][INGEST_TIME].to_pylist() == [second(1)] * 2 + [second(2)] * 2
    other = {"A": pa.table({"id": [1]})}
    assert in_order(other, 7, None, second(2)) == (other, 7), "rows of a feed are numbered as they are taken"
