"""Epoch rows form a chain under one lease; documents live beside them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from threading import Event, Thread

import pyarrow as pa
import pytest

from belvedere.errors import BelvedereError
from belvedere.store import EpochRow, Store, open_store
from tests.store.samples import COUNTS, code, delta, epoch, filled, row, stored


def commit(store: Store, number: int) -> None:
    store.begin().commit(epoch(number))


def refused(store: Store, number: int) -> str:
    transaction = store.begin()
    with pytest.raises(BelvedereError) as error:
        transaction.commit(epoch(number))
    transaction.rollback()
    return code(error.value)


def test_an_epoch_row_comes_back_whole(store: Store) -> None:
    assert store.last_epoch() is None
    clock = datetime(2020, 1, 1, 8, 7, 0, 123456, tzinfo=UTC)
    requested = EpochRow(
        1, clock, {"Bid": {"file": 3}, "ü\0": [1, None]}, {"Bid": {"bidtime": 2**62}}, {"x": "\N{SNOWMAN}"}
    )
    before = datetime.now(UTC) - timedelta(seconds=5)
    store.begin().commit(requested)
    found = store.last_epoch()
    assert found is not None
    assert found.committed_at is not None
    assert before < found.committed_at < datetime.now(UTC) + timedelta(seconds=5)
    assert found == EpochRow(1, clock, requested.offsets, requested.bounds, requested.extra, found.committed_at)


def test_epochs_follow_each_other(store: Store) -> None:
    assert refused(store, 2) == "B7008"
    commit(store, 0)
    assert refused(store, 0) == "B7008"
    assert refused(store, 2) == "B7008"
    commit(store, 1)
    last = store.last_epoch()
    assert last is not None
    assert last.epoch == 1


def test_a_refused_epoch_leaves_nothing(store: Store) -> None:
    filled(store, [row("a", at=datetime(2029, 1, 1, tzinfo=UTC))], 1)
    transaction = store.begin()
    assert transaction.delete_range("Counts", "at", datetime(2030, 1, 1, tzinfo=UTC)) == 1
    with pytest.raises(BelvedereError):
        transaction.commit(epoch(7))
    transaction.rollback()
    transaction = store.begin()
    assert transaction.count("Counts") == 1
    transaction.rollback()


def test_only_one_epoch_at_a_time(store: Store) -> None:
    transaction = store.begin()
    with pytest.raises(BelvedereError) as error:
        store.begin()
    assert code(error.value) == "B7024"
    transaction.rollback()


def test_documents_that_are_no_json_are_refused(store: Store) -> None:
    transaction = store.begin()
    with pytest.raises(BelvedereError) as error:
        transaction.commit(epoch(1, extra={"when": datetime.now(UTC)}))
    assert code(error.value) == "B7012"
    transaction.rollback()


def test_old_epoch_rows_go_and_the_chain_stays(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("belvedere.store.write.database.EPOCHS_KEPT", 3)
    for number in range(1, 9):
        commit(store, number)
    found = store.reader()
    assert found.execute("SELECT epoch FROM _belvedere_epoch ORDER BY epoch") == [(6,), (7,), (8,)]
    found.close()


def test_a_second_runner_is_refused_with_holder_and_time(store: Store, url: str) -> None:
    lease = store.acquire("first", 60)
    assert timedelta(0) < lease.expires_at - datetime.now(UTC) <= timedelta(seconds=61)
    second = open_store(url)
    with pytest.raises(BelvedereError) as error:
        second.acquire("second", 60)
    assert code(error.value) == "B7006"
    assert 'runner "first" until 20' in str(error.value)
    store.release("first")
    assert second.acquire("second", 60).owner == "second"
    second.close()


def test_a_lease_is_renewed_by_its_owner_also_during_an_epoch(store: Store, url: str) -> None:
    first = store.acquire("me", 10)
    transaction = store.begin()
    renewed = store.acquire("me", 100)
    assert renewed.expires_at > first.expires_at
    transaction.commit(epoch(1))
    other = open_store(url)
    with pytest.raises(BelvedereError):
        other.acquire("other", 1)
    other.close()


def test_a_renewal_survives_the_rollback_of_its_epoch(store: Store, url: str) -> None:
    store.acquire("me", 0.2)
    transaction = store.begin()
    store.acquire("me", 100)
    transaction.rollback()
    time.sleep(0.3)
    other = open_store(url)
    with pytest.raises(BelvedereError) as error:
        other.acquire("other", 1)
    assert code(error.value) == "B7006"
    other.close()


def test_a_thread_may_renew_the_lease_while_epochs_are_written(store: Store) -> None:
    store.create([COUNTS])
    store.acquire("me", 60)
    done, failures = Event(), []

    def renew() -> None:
        while not done.is_set():
            try:
                store.acquire("me", 60)
            except BelvedereError as error:
                failures.append(error)

    thread = Thread(target=renew)
    thread.start()
    try:
        for number in range(1, 30):
            transaction = store.begin()
            rows = [(row(f"k{i}", number=number), 1) for i in range(300)]
            transaction.apply("Counts", delta([(r, -1) for r in stored(transaction).values()] + rows))
            assert transaction.lookup("Counts", pa.array(["k7"])).read_all()["number"].to_pylist() == [number]
            transaction.commit(epoch(number))
            assert store.document("nothing") is None
    finally:
        done.set()
        thread.join()
    assert failures == []
    last = store.last_epoch()
    assert last is not None
    assert last.epoch == 29


def test_who_lost_the_lease_cannot_commit(store: Store, url: str) -> None:
    store.acquire("slow", 0.05)
    time.sleep(0.1)
    other = open_store(url)
    other.acquire("quick", 60)
    assert refused(store, 1) == "B7007"
    commit(other, 1)
    other.close()
    assert refused(store, 2) == "B7007"


def test_who_lost_the_lease_writes_nothing(store: Store, url: str) -> None:
    """A process that was suspended goes on where it was: in an epoch, before a document, before it renews the lease."""
    store.acquire("slow", 0.05)
    store.set_document("place", "1")
    store.verify_lease()
    time.sleep(0.1)
    other = open_store(url)
    assert other.holder() is None
    assert other.acquire("quick", 60).before == "slow"
    assert store.holder() == other.holder() == "quick"
    for late in (
        lambda: store.set_document("place", "0"),
        store.renew,
        store.verify_lease,
        lambda: store.create([COUNTS]),
    ):
        with pytest.raises(BelvedereError) as error:
            late()
        assert code(error.value) == "B7007"
    assert store.document("place") == "1"
    other.release("quick")
    with pytest.raises(BelvedereError, match="lost its lease"):
        store.regain("slow", 60)
    other.close()


def test_a_lease_that_is_regained_is_the_same(url: str) -> None:
    store = open_store(url)
    store.acquire("me", 60)
    store.close(gives_back=False)
    again = open_store(url)
    again.regain("me", 60)
    commit(again, 1)
    again.close()
    free = open_store(url)
    assert free.holder() is None
    free.close()


def test_a_commit_prolongs_the_lease_where_nothing_else_can(store: Store, url: str) -> None:
    """An epoch that takes longer than the lease counts: with SQLite nobody can take the store meanwhile."""
    store.acquire("me", 0.2)
    transaction = store.begin()
    if store.renews_alone:
        store.renew()
    time.sleep(0.25)
    if store.renews_alone:
        store.renew()
    transaction.commit(epoch(1))
    assert store.holder() == "me"


def test_without_a_lease_nobody_commits_beside_a_runner(store: Store, url: str) -> None:
    store.acquire("runner", 60)
    other = open_store(url)
    assert refused(other, 1) == "B7006"
    other.close()


def test_the_lease_of_a_dead_process_does_not_hold(url: str) -> None:
    program = (
        f"from belvedere.store import open_store; s = open_store({url!r}); s.acquire('dead', 600); print('held',"
        " flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        store = open_store(url)
        with pytest.raises(BelvedereError) as error:
            store.acquire("next", 60)
        assert code(error.value) == "B7006"
        os.kill(child.pid, 9)
        child.wait()
        deadline = time.monotonic() + 10  # Postgres notices a dead client when it reads from it
        while True:
            try:
                assert store.acquire("next", 60).owner == "next"
                break
            except BelvedereError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        store.close()


def test_closing_gives_the_lease_back(url: str) -> None:
    store = open_store(url)
    store.acquire("one", 600)
    store.close()
    store.close()
    again = open_store(url)
    again.acquire("two", 600)
    again.close()


def test_documents(store: Store, url: str) -> None:
    assert store.document("catalog") is None
    text = json.dumps({"ü": 1}) + "\0 'x' \"y\" ? \x01\n"
    store.set_document("catalog", "old")
    store.set_document("catalog", text)
    assert store.document("catalog") == text
    found = store.reader()
    assert found.document("catalog") == text
    assert found.document("nothing") is None
    found.close()
    transaction = store.begin()
    store.set_document("catalog", "undone")
    transaction.rollback()
    assert store.document("catalog") == text
    store.set_documents({})
    store.set_documents({"catalog": "new", "ü": text})
    assert (store.document("catalog"), store.document("ü")) == ("new", text)


def test_a_database_on_this_machine_has_no_other_clock(store: Store) -> None:
    assert store.other_clock() is None
