"""`_ingest_time` of a file's rows is the arrival time of the file, between the clocks of two epochs."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from belvedere.catalog.inputs import SourceTable
from belvedere.compiler import compile_script
from belvedere.connectors.connector import FeedRequest
from belvedere.connectors.files import open_feed
from belvedere.connectors.kafka.feed import message_times
from belvedere.connectors.kafka.message_chunks import gathered
from belvedere.connectors.kafka.message_rows import Chunk, MessageShape
from belvedere.engine.late_rows import judge
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.engine.rows.scratch_rows import scratch_rows
from belvedere.project.settings import Source
from belvedere.schema import Column
from belvedere.time.arrival_columns import NO_TIMES, ArrivalTimes, earliest
from belvedere.time.event_time import Clocks
from belvedere.values.instants import microseconds
from tests.event_time.cases import at
from tests.run.loops import Loop

SECOND = 1_000_000
SCRIPT = """
IMPORT s.A AS A;
IMPORT s.B AS B;
IMPORT s.Kept AS Kept KEEP 1 HOUR;
Came := SELECT 'a' AS s, id, _ingest_time AS t, _uid AS u FROM A UNION ALL
    SELECT 'b' AS s, id, _ingest_time AS t, _uid AS u FROM B;
Ended := SELECT STREAM collect_list(id) AS ids FROM A WINDOW (tumbling, time(5)) AS x;
Met := SELECT STREAM a.id, b.id AS other FROM A WINDOW (sliding, time(6)) AS a JOIN B
    WINDOW (sliding, count(1)) AS b ON a.id < b.id;
"""
PROJECT = """
[sources.s]
path = "data"
[sources.s.tables]
A = { columns = { id = "INT" } }
B = { columns = { id = "INT" } }
Kept = { columns = { id = "INT" } }
"""


def put(folder: Path, table: str, name: str, ids: list[int], moment: float) -> None:
    """A file of rows that came at a time, in seconds since 1970."""
    path = folder / "data" / table / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"id": n}) + "\n" for n in ids))
    os.utime(path, (moment, moment))


@pytest.mark.spark
def test_files_of_one_epoch_arrive_one_after_the_other(spark: Any, tmp_path: Path) -> None:
    start = float(int(time.time()) // 60 * 60 - 120)
    loop = Loop(spark, tmp_path, SCRIPT, PROJECT)
    put(tmp_path, "A", "0.json", [0, 1], start + 1)
    put(tmp_path, "A", "1.json", [2], start + 7)
    put(tmp_path, "A", "2.json", [3], start + 12)
    put(tmp_path, "B", "0.json", [5], start + 2)
    put(tmp_path, "B", "1.json", [1], start + 8)
    put(tmp_path, "Kept", "old.json", [1], start - 7 * 86_400)
    loop.once()
    moments = {0: 1, 1: 1, 2: 7, 3: 12}
    came = {(r["s"], r["id"]): r["t"].timestamp() - start for r in loop.rows("Came")}
    assert came == {**{("a", n): m for n, m in moments.items()}, ("b", 5): 2, ("b", 1): 8}
    assert [r["ids"] for r in loop.rows("Ended")] == [[0, 1], [2], [3]]
    met = sorted((r["id"], r["other"]) for r in loop.rows("Met"))
    assert met == [(0, 5), (1, 5), (2, 5)], (
        "the second row of B takes the place of the first before A's last, and finds none"
    )
    assert loop.rows("Kept")[0]["id"] == 1, "KEEP counts from the first epoch"
    put(tmp_path, "A", "late.json", [9], start + 3)
    loop.once()
    (late,) = (r["t"].timestamp() for r in loop.rows("Came") if r["id"] == 9)
    assert late > start + 60, "not before the clock of the epoch before"


def test_times_stay_between_two_clocks_and_never_fall() -> None:
    times = ArrivalTimes.of([(2, 5), (0, 6), (1, 50), (3, 20), (1, 99)])
    assert len(times) == 7
    found = times.within(10, 60)
    assert list(found) == [(2, 10), (4, 50), (1, 60)]
    assert found.of_rows(1, 3).cast(pa.int64()).to_pylist() == [10, 50, 50]
    assert list(found.without([0, 1, 6])) == [(4, 50)]
    assert list(found.without([])) == list(found)
    assert not found.without(range(7))
    assert not NO_TIMES.without([1])
    assert list(NO_TIMES.within(1, 2)) == []
    assert list(times.within(70, 60))[-1] == (7, 70), "a clock that went back moves nothing below the last epoch"


def test_rows_of_the_first_epoch_are_at_most_a_day_older() -> None:
    catalog = compile_script("CREATE STREAM S (id INT);\nCREATE STREAM K (id INT) KEEP 1 HOUR;").catalog
    plain, kept = (next(t for t in catalog.inputs.values() if t.name == n) for n in "SK")
    now = at("12:00")
    assert earliest(plain, None, now) == microseconds(now - timedelta(days=1))
    assert earliest(kept, None, now) == microseconds(now)
    assert {earliest(t, at("11:00"), now) for t in (plain, kept)} == {microseconds(at("11:00"))}


@pytest.mark.parametrize("in_file", [False, True])
def test_late_rows_leave_their_times_to_the_late_table(in_file: bool) -> None:
    catalog = compile_script(
        "CREATE STREAM s (ts TIMESTAMP, WATERMARK FOR ts AS ts) LATE DROP;\nL := SELECT * FROM LATE(s);"
    ).catalog
    given = pa.table({"ts": [at("10:00"), at("9:00"), at("10:10"), at("9:30"), at("10:20")]})
    rows = scratch_rows(given.to_reader()) if in_file else given
    times = ArrivalTimes.of([(1, 1 * SECOND), (2, 2 * SECOND), (2, 3 * SECOND)])
    used, _, found = judge(catalog, Clocks(), {"s": rows}, at("12:00"), times={"s": times})
    assert isinstance(used["s"], Rows) == in_file
    assert list(found["s"].within(0, 9 * SECOND)) == [(1, 1 * SECOND), (1, 2 * SECOND), (1, 3 * SECOND)]
    assert list(found["LATE(s)"].within(0, 9 * SECOND)) == [(1, 2 * SECOND), (1, 3 * SECOND)]


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_each_file_has_its_time(form: str, tmp_path: Path) -> None:
    """Also where a line is rejected, and of files without a row."""
    folder = tmp_path / "T"
    folder.mkdir()
    for number, ids in enumerate([[1, 2], [], [3], [4, 5, 6]]):
        path = folder / f"{9 - number}.{form}"
        if form == "parquet":
            parquet.write_table(pa.table({"id": pa.array(ids, pa.int64())}), path)
        else:
            lines = ["id"] * (form == "csv") + [f'{{"id": {n}}}' if form == "json" else str(n) for n in ids]
            path.write_text("\n".join(lines) + "\n" * bool(lines))
        os.utime(path, (1_000 + number, 1_000 + number))
    catalog = compile_script("CREATE STREAM T (id BIGINT);").catalog
    table = next(t for t in catalog.inputs.values() if t.name == "T")
    columns = tuple(c for c in table.schema if not c.hidden)
    source = Source("files", path=tmp_path)
    feed = open_feed(FeedRequest(_imported(table), source, "T", columns))
    span = feed.look(datetime.now(UTC), once=True)
    assert span is not None
    arrived = feed.read(None, span)  # type: ignore[arg-type]
    rows = arrived.rows.table if isinstance(arrived.rows, Rows) else arrived.rows
    assert isinstance(rows, pa.Table)
    assert rows["id"].to_pylist() == [1, 2, 3, 4, 5, 6]
    assert [(n, t // SECOND) for n, t in arrived.times if n] == [(2, 1_000), (1, 1_002), (3, 1_003)]


def _imported(table: Any) -> Any:
    return replace(table, source=SourceTable("files", table.name, "files"))


def test_messages_have_their_times_to_the_second() -> None:
    found = message_times(np.array([1_000, 1_999, 2_000, 5_500, 5_600]))
    assert list(found) == [(2, 1 * SECOND), (1, 2 * SECOND), (2, 5 * SECOND)]
    assert not message_times(None)
    assert not message_times(np.array([], np.int64))


@pytest.mark.parametrize("by_time", [True, False])
def test_messages_of_several_partitions_arrive_in_the_order_in_which_they_were_sent(by_time: bool) -> None:
    """Where partitions stand for producers their rows stay together; the times then never fall."""
    shape = MessageShape("json", (Column("id", pa.int64()),))
    chunks = [
        Chunk(label, pa.table({"id": pa.array(ids, pa.int64())}, schema=shape.schema), times=np.array(times))
        for label, ids, times in (("T[0]", [1, 2], [1_000, 5_000]), ("T[1]", [3], [3_000]))
    ]
    found = gathered(None, "T", shape, chunks, by_time=by_time)
    assert isinstance(found.rows, pa.Table)
    assert found.rows["id"].to_pylist() == ([1, 3, 2] if by_time else [1, 2, 3])
    runs = list(message_times(found.times).within(0, 9 * SECOND))
    assert runs == [(1, SECOND), *([(1, 3 * SECOND), (1, 5 * SECOND)] if by_time else [(2, 5 * SECOND)])]
