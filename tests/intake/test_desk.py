"""The ingest service: answered rows are in the journal once; bounds decide lateness; a failed write changes nothing."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.errors import BelvedereError
from belvedere.intake import ingest_service as module
from belvedere.intake import journal as journal_module
from belvedere.intake.ingest_service import IngestService, Reply, Request
from belvedere.intake.journal import JournalPosition
from belvedere.intake.request_rows import find_input, read_rows
from belvedere.store.protocol import EpochRow
from belvedere.time.event_time import Clocks, pass_time
from belvedere.time.intake_entries import Act, ProducerAct
from belvedere.values.instants import microseconds

SCRIPT = """
CREATE STREAM Bid (bidtime TIMESTAMP, price INT, WATERMARK FOR bidtime);
CREATE STREAM Dropping (bidtime TIMESTAMP, price INT, WATERMARK FOR bidtime) LATE DROP;
CREATE STREAM Idling (bidtime TIMESTAMP, price INT, WATERMARK FOR bidtime AS bidtime IDLE AFTER INTERVAL 10 SECONDS);
CREATE STREAM Orders (ticker STRING);
CREATE TABLE Items (item STRING, name STRING, PRIMARY KEY (item));
"""
CATALOG = compile_script(SCRIPT).catalog
DAY = datetime(2020, 1, 1, tzinfo=UTC)


def at(clock: str) -> str:
    hours, minutes = clock.split(":")
    return (DAY + timedelta(hours=int(hours), minutes=int(minutes))).isoformat()


def push(table: str, *rows: Any, producer: str | None = None, key: str | None = None) -> Request:
    found = find_input(CATALOG, table)
    return Request(found.id, read_rows(found, rows), producer, key, repr(rows))


def act(kind: Act, table: str, time: str | None = None, producer: str | None = None) -> Request:
    micros = None if time is None else microseconds(datetime.fromisoformat(at(time)))
    return Request(table, ProducerAct(kind, table, 0, producer, micros), producer)


class Counter:
    """A desk with a clock of its own, and a store that takes in what it is told to."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.now = DAY + timedelta(hours=12)
        self.position, self.clocks = JournalPosition(), Clocks()
        self.stored: list[tuple[str, Any]] = []
        self.ingest_service = self.open()

    def open(self) -> IngestService:
        self.ingest_service = IngestService(CATALOG, self.directory, self.clocks, self.position, now=lambda: self.now)
        return self.ingest_service

    def crash(self) -> IngestService:
        """The process ends without a word."""
        self.ingest_service.journal.close()
        return self.open()

    def take(self, *requests: Request) -> Sequence[Reply]:
        return self.ingest_service.take(requests)

    def epoch(self, desk_hears: bool = True) -> None:
        """An epoch takes what waits, up to the store's commit."""
        waiting = self.ingest_service.waiting()
        for id_, rows in waiting.arrivals(CATALOG).items():
            self.stored += [(id_, tuple(r.values())) for r in rows.to_pylist()]
        self.clocks = waiting.clocks
        self.position = JournalPosition(self.ingest_service.offset(waiting)["journal"], waiting.sequence)
        if desk_hears:
            self.ingest_service.committed(waiting, self.clocks)


@pytest.fixture
def counter(tmp_path: Path) -> Counter:
    return Counter(tmp_path / "j")


def test_late_rows_are_refused_one_by_one_and_recorded(counter: Counter) -> None:
    (first,) = counter.take(push("Bid", {"bidtime": at("8:07"), "price": 2}))
    assert (first.status, first.body) == (
        200,
        {"stream": "Bid", "rows": 1, "taken": 1, "dropped": 0, "refused": 0, "refusals": []},
    )
    (bound,) = counter.take(act(Act.BOUND, "Bid", "8:08"))
    assert bound.body == {"stream": "Bid", "column": "bidtime", "bound": "2020-01-01T08:08:00Z"}
    (mixed,) = counter.take(push("Bid", {"price": "x"}, {"bidtime": at("8:07")}, {"bidtime": at("8:08")}))
    assert mixed.status == 202
    assert {k: mixed.body[k] for k in ("rows", "taken", "refused")} == {"rows": 3, "taken": 1, "refused": 2}
    assert [(r["index"], r["code"], r.get("bound")) for r in mixed.body["refusals"]] == [
        (0, "B6001", None),
        (1, "B5024", "2020-01-01T08:08:00Z"),
    ]
    assert "row 2" in mixed.body["refusals"][1]["reason"]
    counter.epoch()
    assert [t for t, _ in counter.stored] == ["Bid", "Bid", "LATE(Bid)"]
    counts = counter.clocks.counts["Bid"]
    assert (counts.given, counts.used, counts.late, counts.malformed) == (4, 2, 1, 1)


def test_times_far_ahead_of_the_clock_move_no_bound(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A row of the year 9999 is taken; the rows behind it, in the same push and later, are as late as without it."""
    far, now = "9999-12-31T23:59:59.999999+00:00", DAY + timedelta(hours=12)

    def opened() -> IngestService:
        return IngestService(
            CATALOG, tmp_path / "j", Clocks(), JournalPosition(), now=lambda: now, ahead=timedelta(days=1)
        )

    ingest_service = opened()
    (first,) = ingest_service.take(
        [push("Idling", {"bidtime": far, "price": 1}, {"bidtime": at("8:07")}, {"bidtime": at("8:06")})]
    )
    assert (first.body["taken"], first.body["refused"], first.body["ahead"]) == (2, 1, 1)
    assert "more than 1 day ahead of the clock" in caplog.text
    (bound,) = ingest_service.take([act(Act.BOUND, "Idling", "48:00")])
    assert (bound.status, bound.body["code"]) == (422, "B5026")
    ingest_service.journal.close()
    ingest_service = opened()  # what the journal has is judged as it was
    (second,) = ingest_service.take([push("Idling", {"bidtime": at("8:06")}, {"bidtime": at("8:08")})])
    assert (second.body["taken"], second.body["refused"], "ahead" in second.body) == (1, 1, False)
    bidtime = ingest_service.intake.clocks.bound("Idling", "bidtime")
    assert bidtime == microseconds(datetime.fromisoformat(at("8:08")))
    ingest_service.journal.close()


def test_dropped_rows_are_counted_and_nobody_is_refused(counter: Counter) -> None:
    counter.take(act(Act.BOUND, "Dropping", "9:00"))
    (answer,) = counter.take(push("Dropping", {"bidtime": at("8:00")}, {"bidtime": at("9:00")}))
    assert (answer.status, answer.body["taken"], answer.body["dropped"], answer.body["refused"]) == (200, 1, 1, 0)


def test_producers_come_and_go(counter: Counter) -> None:
    counter.take(act(Act.OPEN, "Bid", producer="p1"), act(Act.BOUND, "Bid", "8:00", "p2"))
    (answer,) = counter.take(act(Act.BOUND, "Bid", "9:00", "p2"))
    assert answer.body["bound"] is None  # p1 holds it back
    (closed,) = counter.take(act(Act.CLOSE, "Bid", producer="p1"))
    assert closed.body["bound"] == "2020-01-01T09:00:00Z"
    (again,) = counter.take(act(Act.CLOSE, "Bid", producer="p1"))
    assert (again.status, again.body["code"]) == (409, "B5022")
    (none,) = counter.take(act(Act.BOUND, "Items", "9:00"))
    assert (none.status, none.body["code"]) == (422, "B5021")


def test_rows_that_come_during_an_epoch_are_judged_by_the_bound_that_it_ends_with(counter: Counter) -> None:
    """The epoch passes over a producer that has been silent: rows of that one are late from then on, not only after the
    commit."""
    counter.take(push("Idling", {"bidtime": at("8:00"), "price": 1}, producer="slow"))
    counter.take(push("Idling", {"bidtime": at("9:00"), "price": 2}, producer="fast"))
    counter.now += timedelta(seconds=20)
    counter.take(push("Idling", {"bidtime": at("9:30"), "price": 3}, producer="fast"))
    waiting = counter.ingest_service.waiting(microseconds(counter.now))
    clocks = pass_time(waiting.clocks, CATALOG, microseconds(counter.now))
    bound = clocks.bound("Idling", "bidtime")
    assert bound == microseconds(datetime.fromisoformat(at("9:30")))
    (answer,) = counter.take(push("Idling", {"bidtime": at("8:30"), "price": 4}, producer="slow"))
    counter.ingest_service.committed(waiting, clocks)
    assert (answer.body["taken"], answer.body["refused"]) == (0, 1)
    assert "Idling" not in counter.ingest_service.waiting().arrivals(CATALOG)


def test_rows_without_rowtime_stay_in_order_when_the_clock_goes_back(counter: Counter) -> None:
    counter.take(push("Orders", {"ticker": "a"}))
    counter.epoch()
    counter.now -= timedelta(hours=1)
    assert counter.take(push("Orders", {"ticker": "b"}))[0].status == 200
    counter.crash()
    assert counter.take(push("Orders", {"ticker": "c"}))[0].status == 200


def test_a_key_counts_once_also_after_restarts_and_truncation(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "SEGMENT_BYTES", 500)
    row = {"ticker": "once"}
    first, second = counter.take(push("Orders", row, key="k"), push("Orders", row, key="k"))
    assert first == second
    for number in range(20):
        counter.take(push("Orders", {"ticker": f"n{number}"}))
        if number % 5 == 0:
            counter.epoch()
        assert counter.take(push("Orders", row, key="k"))[0] == first
        counter.crash()
    counter.epoch()
    assert [r[0] for t, r in counter.stored].count("once") == 1
    (other,) = counter.take(push("Orders", {"ticker": "other"}, key="k"))
    assert (other.status, other.body["code"]) == (422, "B8033")
    counter.now += timedelta(days=2)
    counter.take(push("Orders", {"ticker": "later"}, key="k2"))
    assert counter.take(push("Orders", row, key="k"))[0].status == 200  # forgotten: it counts again
    counter.epoch()
    assert [r[0] for t, r in counter.stored].count("once") == 2


@pytest.mark.parametrize("seed", range(8))
def test_answered_rows_are_there_once_after_any_crashes(
    counter: Counter, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Crashes between any two steps, also between the store's commit and the desk's, with full disks in between."""
    dice = random.Random(seed)
    monkeypatch.setattr(journal_module, "SEGMENT_BYTES", 3000)
    write = os.write

    def full(file: int, data: Any) -> int:
        write(file, bytes(data)[: len(data) // 2])
        raise OSError(errno.ENOSPC, "full")

    answered: list[str] = []
    for number in range(150):
        step = dice.random()
        if step < 0.6:
            requests = [
                push("Orders", {"ticker": f"r{number}.{n}"}, producer=dice.choice("ab"))
                for n in range(dice.randint(1, 3))
            ]
            if dice.random() < 0.2:
                monkeypatch.setattr(os, "write", full)
            answers = counter.take(*requests)
            monkeypatch.setattr(os, "write", write)
            for n, answer in enumerate(answers):
                assert answer.status in (200, 507)
                answered += [f"r{number}.{n}"] if answer.status == 200 else []
        elif step < 0.8:
            heard = dice.random() < 0.5
            counter.epoch(desk_hears=heard)
            if not heard and dice.random() < 0.5:
                counter.crash()
            elif not heard:  # the store was away when it committed, and is back
                offsets = {module.OFFSET: {"journal": counter.position.journal, "sequence": counter.position.sequence}}
                counter.ingest_service.resume(
                    EpochRow(1, counter.now, offsets=offsets, bounds=counter.clocks.as_document())
                )
        else:
            counter.crash()
        counter.now += timedelta(seconds=1)
    counter.epoch()
    assert [r[0] for _, r in counter.stored] == answered
    assert counter.clocks.counts["Orders"].given == len(answered)


def test_a_full_disk_changes_nothing(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    counter.take(push("Orders", {"ticker": "a"}))
    before = counter.ingest_service.waiting()

    def full(file: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        answers = counter.take(push("Orders", {"ticker": "b"}, key="k"), act(Act.CLOSE, "Bid", producer="nobody"))
    assert [a.status for a in answers] == [507, 409]
    assert counter.ingest_service.waiting() == before
    assert counter.take(push("Orders", {"ticker": "b"}, key="k"))[0].status == 200
    counter.crash()
    counter.epoch()
    assert [r[0] for _, r in counter.stored] == ["a", "b"]


def test_a_key_whose_rows_were_not_written_is_not_known_after_a_restart(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new segment begins with the known keys: those of the records that follow must not be there before the records
    are."""
    counter.take(push("Orders", {"ticker": "a"}, key="k"))
    monkeypatch.setattr(journal_module, "SEGMENT_BYTES", 10)
    write, calls = os.write, []

    def full_at_the_records(file: int, data: Any) -> int:
        calls.append(len(data))
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "full")
        return write(file, data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full_at_the_records)
        assert counter.take(push("Orders", {"ticker": "b"}, key="l"))[0].status == 507
    counter.crash()
    for ticker, key in (("a", "k"), ("b", "l"), ("b", "l")):
        assert counter.take(push("Orders", {"ticker": ticker}, key=key))[0].status == 200
    counter.epoch()
    assert [r[0] for _, r in counter.stored] == ["a", "b"]


def test_upserts_and_deletes_come_in_order(counter: Counter) -> None:
    counter.take(
        push("Items", {"item": "a", "name": "1"}, {"item": "a", "_delete": True}),
        push("Items", {"item": "a", "name": "2"}),
    )
    (rows,) = counter.ingest_service.waiting().arrivals(CATALOG).values()
    assert rows.select(["name", "_weight"]).to_pylist() == [
        {"name": "1", "_weight": 1},
        {"name": None, "_weight": -1},
        {"name": "2", "_weight": 1},
    ]


def test_a_failing_request_does_not_take_others_along(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = counter.ingest_service.intake.judge

    def failing(table: Any, rows: Any, *more: Any) -> Any:
        if rows["ticker"].to_pylist() == ["bad"]:
            raise RuntimeError("unexpected")
        return judge(table, rows, *more)

    monkeypatch.setattr(counter.ingest_service.intake, "judge", failing)
    answers = counter.take(*(push("Orders", {"ticker": t}) for t in ("a", "bad", "b")))
    assert [a.status for a in answers] == [200, 500, 200]
    counter.crash()
    counter.epoch()
    assert [r[0] for _, r in counter.stored] == ["a", "b"]


def test_what_epochs_cannot_keep_up_with_is_refused(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter.ingest_service, "_most", 0)
    answers = [counter.take(push("Orders", {"ticker": t}))[0].status for t in ("a", "b")]
    assert answers == [200, 503]
    counter.epoch()
    assert counter.take(push("Orders", {"ticker": "b"}))[0].status == 200


def test_requests_of_one_sync_count_as_they_are_decided(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else many that come together would all be taken; what is malformed takes memory as well."""
    counter.take(push("Orders", {"ticker": "a"}))
    monkeypatch.setattr(counter.ingest_service, "_most", 2 * counter.ingest_service._bytes)
    counter.epoch()
    answers = counter.take(*(push("Orders", {"ticker": "a"}) for _ in range(5)))
    assert [a.status for a in answers] == [200, 200, 200, 503, 503]
    counter.epoch()
    assert counter.take(push("Orders", 1, 2))[0].status == 202
    assert counter.ingest_service._bytes > 400
    assert counter.take(push("Orders", {"ticker": "b"}))[0].status == 503
    counter.crash()
    assert counter.ingest_service._bytes > 400


def test_a_failed_write_leaves_no_bytes_waiting(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(counter.ingest_service.journal, "append", full)
        assert counter.take(push("Orders", {"ticker": "b"}))[0].status == 507
    assert counter.ingest_service._bytes == 0


def test_rows_of_an_input_that_is_gone_are_told(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    counter.take(push("Orders", {"ticker": "a"}))
    counter.ingest_service.close()
    changed = compile_script(SCRIPT.replace("CREATE STREAM Orders (ticker STRING);", "")).catalog
    with pytest.raises(BelvedereError, match="B6144"):
        IngestService(changed, counter.directory, Clocks(), JournalPosition())
    counter.open()
    assert module.OFFSET.startswith("~")


@pytest.mark.parametrize("columns", ["ticker INT", "name STRING", "ticker STRING, n INT NOT NULL"])
def test_rows_of_an_input_whose_columns_were_changed_are_told(counter: Counter, columns: str) -> None:
    counter.take(push("Orders", {"ticker": "a"}))
    counter.ingest_service.close()
    changed = SCRIPT.replace("(ticker STRING)", f"({columns})")
    with pytest.raises(BelvedereError, match=r"B6144.*Orders"):
        IngestService(compile_script(changed).catalog, counter.directory, Clocks(), JournalPosition())
    wider = compile_script(SCRIPT.replace("(ticker STRING)", "(ticker STRING, n INT)")).catalog
    ingest_service = IngestService(wider, counter.directory, Clocks(), JournalPosition())
    assert [r["ticker"] for r in ingest_service.waiting().arrivals(wider)["Orders"].to_pylist()] == ["a"]
    ingest_service.close()
