"""A Postgres store while an epoch is computed and committed: no transaction is open, and readers of changed views read
the old ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from belvedere.engine.errors.attempts import Quarantine
from belvedere.errors import BelvedereError
from belvedere.schema import Column
from belvedere.schema import Schema as Columns
from belvedere.store import Store, StoredTable, Transaction, open_store
from belvedere.store.copies import snapshot
from belvedere.store.dialects.postgres import postgres_session
from belvedere.store.public_views import ShownView
from belvedere.store.write.transaction import EpochTransaction
from belvedere.workbench.workbench import Workbench
from tests.store.samples import COUNTS, delta, epoch, filled, reader, row, stored

pytestmark = pytest.mark.postgres

IDLE = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND (state LIKE 'idle in%' OR (backend_xid IS NOT NULL))
"""
SCRIPT = """
CREATE STREAM Came (id BIGINT, n INT, t TIMESTAMP) KEEP 1 HOUR;
CREATE TABLE T (k INT NOT NULL, n INT, PRIMARY KEY (k));
Total := SELECT n, count(*) AS many FROM T GROUP BY n;
Last := SELECT k, n FROM T ORDER BY k LIMIT 2;
CREATE SUBSCRIPTION Got ON ADD AS SELECT k, n FROM T;
"""


@pytest.fixture
def other(postgres_url: str) -> Iterator[Any]:
    """Somebody else's connection."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


def test_no_transaction_is_open_before_the_first_change(postgres_url: str, other: Any) -> None:
    with closing(open_store(postgres_url)) as store:
        filled(store, [row("a"), row("b")])
        transaction = store.begin()
        assert stored(transaction).keys() == {"a", "b"}
        assert transaction.count("Counts") == 2
        assert next(iter(transaction.lookup("Counts", None))).num_rows == 2
        assert store.last_epoch() is not None
        transaction.count("Counts")
        assert other.execute(IDLE).fetchone() == (0,)
        unread = transaction.lookup("Counts", None)
        assert unread.read_next_batch().num_rows
        store.set_document("beside", "the rows that are read, and part of the epoch")
        transaction.apply("Counts", delta([(row("a"), -1)]))
        assert other.execute(IDLE).fetchone() == (1,)
        assert stored(transaction).keys() == {"b"}
        transaction.commit(epoch(2))
        assert store.document("beside") is not None
        store.begin().rollback()
        assert other.execute(IDLE).fetchone() == (0,)


def test_no_transaction_is_open_while_epochs_are_computed(
    executor: Any, postgres_url: str, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a first epoch, a later one, one of a changed script; each has all rows before the first is written."""
    seen: list[tuple[int, bool]] = []
    noted, opened = Quarantine.note_missed, EpochTransaction.open

    def computed(self: Quarantine, attempt: Any, context: Any, explaining: Any) -> Any:
        seen.append((other.execute(IDLE).fetchone()[0], bool(context.deltas)))
        return noted(self, attempt, context, explaining)

    def open_(self: EpochTransaction) -> None:
        assert self.is_begun or len(seen) == steps, "nothing is written before all is computed"
        opened(self)

    monkeypatch.setattr(Quarantine, "note_missed", computed)
    wb, steps = Workbench(SCRIPT, store=postgres_url, spark=executor), 1
    monkeypatch.setattr(EpochTransaction, "open", open_)
    wb.clock("2024-01-01 00:00:00")
    for n in range(3):
        steps = n + 1
        wb.insert("T", [{"k": 10 * n + i, "n": i % 3} for i in range(10)])
        wb.insert("Came", [{"id": n, "n": n, "t": "2024-01-01 00:00:00"}])
        wb.clock(f"2024-01-01 0{n}:30:00")
        wb.step()
        for name in ("Total", "Last", "T", "Came"):
            assert sorted(map(str, wb.rows(name))) == sorted(map(str, wb.batch(name))), name
    assert seen == [(0, True)] * 3
    wb.close()


def more(name: str) -> StoredTable:
    """The table with a column more."""
    columns = (*COUNTS.schema.columns, Column(name, COUNTS.schema["number"].type))
    return StoredTable("Counts", Columns(columns), indexes=(("number",), (name,)), fingerprint=name)


@pytest.fixture
def longest(postgres_url: str) -> Iterator[list[float]]:
    """Seconds of each read of somebody who reads the view again and again."""
    found, done = [0.0], threading.Event()

    def read() -> None:
        with psycopg.connect(postgres_url, autocommit=True, prepare_threshold=None) as connection:
            while not done.is_set():
                started = time.monotonic()
                if connection.execute("SELECT to_regclass('views.\"Counts\"')").fetchone() != (None,):
                    assert len(connection.execute('SELECT * FROM views."Counts"').fetchall()) in (2, 3)
                found.append(time.monotonic() - started)

    reading = threading.Thread(target=read)
    reading.start()
    yield found
    done.set()
    reading.join()


def replaced(store: Store, table: StoredTable) -> Transaction:
    """An epoch that has filled a changed table, and is not committed."""
    transaction = store.begin()
    store.drop(["Counts"])
    store.create([table])
    store.show([ShownView("Counts", table)])
    for key in "abc":
        transaction.append("Counts", reader([{**row(key), table.schema.names[-1]: 1}], table))
    assert stored(transaction).keys() == {"a", "b", "c"}
    return transaction


def test_readers_of_a_changed_view_read_the_old_one_until_the_commit(
    postgres_url: str, other: Any, longest: list[float]
) -> None:
    indexes = "SELECT indexname::text FROM pg_indexes WHERE tablename = 'Counts' ORDER BY 1"
    with closing(open_store(postgres_url)) as store:
        filled(store, [row("a"), row("b")])
        store.show([ShownView("Counts", COUNTS)])
        replaced(store, more("undone")).rollback()
        for number, name in ((2, "more"), (3, "again")):
            transaction = replaced(store, more(name))
            time.sleep(0.6)  # a large one is filled
            assert other.execute('SELECT count(*) FROM views."Counts"').fetchone() == (number,)
            transaction.commit(epoch(number))
        transaction = store.begin()
        transaction.apply(
            "Counts", delta([({**row("a"), "again": 1}, -1), ({**row("a"), "again": 3}, 1)], more("again"))
        )
        transaction.commit(epoch(4))
        assert max(longest) < 0.5, "nobody waits for the rows"
        assert other.execute('SELECT sum(again) FROM views."Counts"').fetchone() == (5,)
        names = other.execute(indexes).fetchall()
        assert len(names) == 3
    with closing(open_store(postgres_url)) as store:
        store.create([more("again")])  # as it is: nothing is made a second time
        assert other.execute(indexes).fetchall() == names
        left = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename <> 'Counts'"
        assert other.execute(left).fetchone() == (4,), "the store's own"


def test_what_was_granted_on_a_table_is_granted_on_the_one_that_replaces_it(postgres_url: str, other: Any) -> None:
    (database,) = other.execute("SELECT current_database()").fetchone()
    role = f"{database} reader"
    with closing(open_store(postgres_url)) as store:
        filled(store, [row("a")])
        other.execute(f'CREATE ROLE "{role}"')
        other.execute(f'GRANT SELECT (word) ON "Counts" TO "{role}"; GRANT UPDATE ON "Counts" TO "{role}"')
        replaced(store, more("more")).commit(epoch(2))
        rights = (
            "SELECT has_table_privilege(%s, '\"Counts\"', 'UPDATE'), has_column_privilege(%s, '\"Counts\"', "
            "'word', 'SELECT')"
        )
        assert other.execute(rights, (role, role)).fetchone() == (True, True)
        other.execute(f'DROP OWNED BY "{role}"; DROP ROLE "{role}"')


def test_a_table_is_not_replaced_below_who_reads_several_tables_or_copies_the_store(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that took its name would be seen without its rows."""
    monkeypatch.setattr(postgres_session, "PATIENCE_SECONDS", 0.1)
    others = replace(COUNTS, name="Others", fingerprint="others")
    found: list[int] = []
    with closing(open_store(postgres_url)) as store:
        filled(store, [row("a"), row("b")])
        filled(store, [row("a")], 2, others)

        def take(rows: pa.RecordBatchReader) -> None:
            found.append(rows.read_all().num_rows)
            transaction = replaced(store, more("more"))
            with pytest.raises(BelvedereError, match="B7004"):
                transaction.commit(epoch(3))
            transaction.rollback()

        with closing(store.reader()) as reading:
            last, _ = reading.rows_together(
                [], streams=[(others, take), (COUNTS, lambda r: found.append(r.read_all().num_rows))]
            )
        assert last is not None
        assert (last.epoch, found) == (2, [1, 2])
        with closing(snapshot(postgres_url)) as taken:
            transaction = replaced(store, more("more"))
            with pytest.raises(BelvedereError, match="B7004"):
                transaction.commit(epoch(3))
            transaction.rollback()
            taken.write(tmp_path)
        assert sorted(p.read_bytes().count(b"\n") for p in tmp_path.glob("table-*")) == [1, 2]
        replaced(store, more("more")).commit(epoch(3))
