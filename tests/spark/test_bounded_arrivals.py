"""Arrivals beyond the driver's memory limit: processed in pieces, with the same result as in one piece."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from belvedere.catalog.catalog import Catalog
from belvedere.compiler import compile_script
from belvedere.engine.ingest import receive
from belvedere.engine.late_rows import judge
from belvedere.engine.rows import epoch_rows as held
from belvedere.engine.rows import scratch_rows as scratch
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.engine.rows.scratch_rows import Scratch, scratch_rows
from belvedere.intake.ingest_service import Reply, Request
from belvedere.intake.wire import FRAME, IngestServer, encode_request
from belvedere.schema import TIMESTAMP
from belvedere.time.event_time import Clocks, admit, late_rows
from belvedere.time.intake_entries import Act, BoundMark, ProducerAct
from belvedere.values.instants import microseconds
from belvedere.workbench.workbench import Workbench
from tests.rules.test_recomputation import same_rows

START = datetime(2024, 1, 1, 8, tzinfo=UTC)
PUSHED = """
CREATE TABLE Keyed (id INT PRIMARY KEY, name STRING);
CREATE STREAM Log (id INT, name STRING);
Both := SELECT k.id, l.name FROM Keyed k JOIN Log l ON k.id = l.id AND k.name = l.name;
"""
NOW = START + timedelta(days=1)


@pytest.fixture
def tiny_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of seven rows, and a file for whatever has more than a few."""
    monkeypatch.setattr(held, "BATCH_ROWS", 7)
    monkeypatch.setattr(scratch, "FEW_BYTES", 100)
    monkeypatch.setattr(Scratch.__init__, "__defaults__", (100, None))


def catalog_of(late: str) -> Catalog:
    return compile_script(
        "CREATE STREAM s (n INT, at TIMESTAMP, too TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 1 MINUTE, WATERMARK "
        f"FOR too) {late};"
    ).catalog


def random_rows(random: Random, size: int) -> pa.Table:
    def time(n: int) -> datetime | None:
        return random.choice([None, *[START + timedelta(seconds=n + random.randint(-90, 90)) for _ in range(9)]])

    columns = {"at": [time(n) for n in range(size)], "too": [time(n) for n in range(size)]}
    return pa.table({"n": pa.array(range(size), pa.int32()), **{n: pa.array(c, TIMESTAMP) for n, c in columns.items()}})


def random_marks(random: Random, size: int) -> list[BoundMark]:
    places = sorted(random.choice([0, size, random.randint(0, size)]) for _ in range(random.randint(0, 8)))

    def act(place: int) -> ProducerAct:
        time = microseconds(START) + (place + random.randint(-60, 30)) * 1_000_000
        return ProducerAct(Act.BOUND, "s", 0, None, time, random.choice(["at", "too"]), random.random() < 0.5)

    return [BoundMark(p, act(p)) for p in places]


def judged_at_once(catalog: Catalog, rows: pa.Table, marks: list[BoundMark]) -> tuple[list[Any], list[Any], Clocks]:
    """What is used and what is late by definition: whole stretches of rows between bounds."""
    table, late_table = catalog.inputs["s"], catalog.late_of("s")
    clocks, start = Clocks(), 0
    used: list[Any] = []
    late: list[Any] = []
    for mark in [*marks, None]:
        end = rows.num_rows if mark is None else mark.position
        part = rows.slice(start, end - start)
        admission = admit(clocks, table, part, microseconds(NOW))
        used += admission.taken.to_pylist()
        if late_table is not None and admission.late:
            late += late_rows(table, late_table, part, admission.late).to_pylist()
        clocks, start = admission.clocks, end
        if mark is not None:
            act = mark.act
            clocks = ProducerAct(act.act, "s", microseconds(NOW), None, act.time, act.column, act.strict).advanced(
                clocks, catalog
            )
    return used, late, clocks


@pytest.mark.usefixtures("tiny_files")
@pytest.mark.parametrize("late", ["LATE DROP", "LATE REJECT", "LATE KEEP"])
def test_rows_and_bounds_in_pieces_are_judged_as_at_once(late: str) -> None:
    random, catalog, apart = Random(late), catalog_of(late), 0
    for size in (0, 1, 6, 7, 8, 40, 200, 200, 200):
        rows = random_rows(random, size)
        marks = random_marks(random, size)
        expected = judged_at_once(catalog, rows, marks)
        for given in (rows, scratch_rows(rows.to_reader(max_chunksize=3))):
            used, clocks, _ = judge(catalog, Clocks(), {"s": given}, NOW, {"s": marks})
            found = used.get("LATE(s)", pa.table({}))
            apart += isinstance(found, Rows)
            assert isinstance(used["s"], Rows) == isinstance(given, Rows)
            assert (_list(used["s"]), _list(found), clocks) == expected
    assert apart == 0 if late == "LATE KEEP" else apart > 3


def _list(rows: Any) -> list[Any]:
    found: list[Any] = (rows.table if isinstance(rows, Rows) else rows).to_pylist()
    return found


@pytest.mark.spark
@pytest.mark.usefixtures("tiny_files")
def test_late_rows_of_a_data_frame_are_judged_in_its_order(spark: Any) -> None:
    catalog, rows = catalog_of("LATE DROP"), random_rows(Random(1), 300)
    used, late, clocks = judged_at_once(catalog, rows, [])
    frame = spark.createDataFrame(rows).repartitionByRange(4, "n").sortWithinPartitions("n")
    found, moved, _ = judge(catalog, Clocks(), {"s": frame}, NOW)
    assert isinstance(found["s"], Rows)
    assert isinstance(found["LATE(s)"], Rows)
    assert (_list(found["s"]), _list(found["LATE(s)"]), moved) == (used, late, clocks)


@pytest.mark.spark
def test_an_epoch_of_many_pushes_is_stamped_piece_by_piece(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[tuple[bool, int]] = []

    def watched(*given: Any) -> Any:
        arrived = receive(*given)
        assert arrived is not None
        taken.append((arrived.stamped.is_collected, arrived.next_uid))
        return arrived

    monkeypatch.setattr("belvedere.engine.epoch.receive", watched)
    answers = []
    for memory in (1 << 30, 4096):
        random = Random(2)
        wb = Workbench.of_catalog(compile_script(PUSHED).catalog, spark=spark, driver_memory=memory)
        try:
            wb.clock(START)
            for epoch in range(2):
                for _ in range(60):
                    rows = [{"id": random.randint(0, 90), "name": random.choice([None, "a", "b"])} for _ in range(3)]
                    wb.insert("Keyed", rows)
                    wb.insert("Log", rows)
                wb.delete("Keyed", [{"id": epoch}])
                wb.step()
            assert same_rows(wb.rows("Both"), wb.batch("Both"))
            answers.append([sorted(map(repr, wb.rows(name))) for name in ("Keyed", "Log", "Both")])
        finally:
            wb.close()
    assert answers[0] == answers[1]
    assert [is_whole for is_whole, _ in taken] == [True] * 4 + [False] * 4
    assert [uid for _, uid in taken[:4]] == [uid for _, uid in taken[4:]]


def test_what_is_under_way_to_the_desk_is_bounded() -> None:
    asked, go = threading.Event(), threading.Event()
    seen: list[int] = []

    class SlowDesk:
        def take(self, requests: Any) -> list[Reply]:
            seen.append(len(requests))
            asked.set()
            assert go.wait(60)
            return [Reply(200, {})] * len(requests)

    server = IngestServer(SlowDesk(), in_flight=1)  # type: ignore[arg-type]
    ends = [server.connect() for _ in range(3)]
    try:
        data = encode_request(Request("s", ProducerAct(Act.CLOSE, "s", 0, "p")))
        for number, end in enumerate(ends):
            end.sendall(FRAME.pack(len(data), number) + data)
        assert asked.wait(60)
        time.sleep(0.2)
        assert server._requests.empty()  # the others wait in their sockets
        go.set()
        assert all(end.recv(FRAME.size) for end in ends)
        assert seen == [1, 1, 1]
    finally:
        go.set()
        server.close()
        for end in ends:
            end.close()


def test_scratch_files_go_with_their_rows() -> None:
    rows = scratch_rows(pa.table({"x": [1, None, 3]}).to_reader(max_chunksize=1))
    assert rows.files is not None
    (path,) = rows.files
    assert rows.table["x"].to_pylist() == [1, None, 3]
    del rows
    assert not path.parent.exists()
    begun = Scratch(pa.schema([("x", pa.int64())]), few=0)
    begun.add(pa.table({"x": list(range(held.BATCH_ROWS))}))
    assert begun._folder is not None
    folder = begun._folder
    del begun
    assert not folder.exists()


def test_batches_of_wide_rows_have_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "BATCH_BYTES", 100_000)
    random = Random(5)
    texts = [random.randbytes(5_000).hex() for _ in range(100)]
    rows = scratch_rows(pa.table({"n": list(range(100)), "text": texts}).to_reader())
    sizes = [b.num_rows for b in rows.batches()]
    assert sum(sizes) == 100
    assert 5 <= max(sizes) <= 20
    assert rows.table["text"].to_pylist() == texts


def test_a_result_is_a_part_of_what_the_driver_may_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    from belvedere.spark.jvm import quiet_session

    given: list[dict[str, str]] = []
    monkeypatch.setattr(quiet_session, "local_session", lambda cores, memory, extra: given.append(extra))
    monkeypatch.setattr(quiet_session, "_own_folder", dict)
    for memory in (None, 1 << 20, 1 << 30):
        quiet_session.quiet_session({}, memory)
    assert [g.get("spark.driver.maxResultSize") for g in given] == [None, str(16 << 20), str(256 << 20)]
