"""Readers, in this process and in others, see whole epochs only."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest

from belvedere.errors import BelvedereError
from belvedere.store import Store, discard, open_reader, open_store
from tests.store.samples import COUNTS, code, delta, epoch, filled, reader, row

OTHER = replace(COUNTS, name="Other")


@contextmanager
def child(action: str, url: str) -> Iterator[Any]:
    """A process that answers lines; ended by the end of its input."""
    command = [sys.executable, "-m", "tests.store.child", action, url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def ask() -> Any:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield ask
        assert process.stdin is not None
        process.stdin.close()


def test_another_process_sees_only_whole_epochs(store: Store, url: str) -> None:
    store.create([COUNTS, OTHER])
    store.begin().commit(epoch(0))
    with child("read", url) as ask:
        assert ask() == [0, 0, 0, 0]
        for number in range(1, 4):
            transaction = store.begin()
            rows = [row(f"{number}/{i}", number=number) for i in range(2000)]
            transaction.append("Counts", reader(rows))
            assert ask() == [number - 1, 2000 * (number - 1), 2000 * (number - 1), number - 1]
            transaction.append("Other", reader(rows, OTHER))
            assert ask() == [number - 1, 2000 * (number - 1), 2000 * (number - 1), number - 1]
            transaction.commit(epoch(number))
            assert ask() == [number, 2000 * number, 2000 * number, number]


def test_another_process_reads_every_type_of_row(store: Store, url: str) -> None:
    at = datetime(2020, 1, 1, 8, 7, 0, 5, tzinfo=UTC)
    rows = [row("a", word="ü\0", number=-5, share=float("nan"), at=at), row("b")]
    filled(store, rows)
    with child("rows", url) as ask:
        assert str(ask()) == str(json.loads(json.dumps(rows, default=str)))


def test_tables_are_read_together(store: Store) -> None:
    """An epoch that is committed between two tables is in neither."""
    store.create([COUNTS, OTHER])
    store.begin().commit(epoch(0))
    found: Any = store.reader()
    flat = found.flat

    def committing(connection: Any, layout: Any, where: str) -> Any:
        rows = flat(connection, layout, where)
        if layout.table is COUNTS:
            transaction = store.begin()
            transaction.append("Counts", reader([row("a")]))
            transaction.append("Other", reader([row("a")], OTHER))
            transaction.commit(epoch(1))
        return rows

    found.flat = committing
    last, tables = found.rows_together([COUNTS, OTHER])
    assert (last.epoch, [t.num_rows for t in tables]) == (0, [0, 0])
    found.flat = flat
    last, tables = found.rows_together([COUNTS, OTHER])
    assert (last.epoch, [t.num_rows for t in tables]) == (1, [1, 1])
    with pytest.raises(BelvedereError):
        found.rows_together([replace(COUNTS, name="Nowhere")])
    assert found.rows_together([])[0].epoch == 1
    found.close()


def test_a_closed_store_can_be_read(url: str) -> None:
    store = open_store(url)
    filled(store, [row("a")])
    store.close()
    found = open_reader(url)
    assert found.rows(COUNTS).num_rows == 1
    last = found.last_epoch()
    assert last is not None
    assert last.epoch == 1
    found.close()
    found.close()
    with pytest.raises(BelvedereError) as error:
        found.last_epoch()
    assert code(error.value) == "B7015"


def test_readers_cannot_write(store: Store) -> None:
    filled(store, [row("a")])
    found = store.reader()
    with pytest.raises(BelvedereError) as error:
        found.execute('DELETE FROM "Counts"')
    assert code(error.value) == "B7001"
    assert found.execute('SELECT count(*) FROM "Counts"') == [(1,)]
    found.close()


def test_a_wrong_statement_leaves_the_reader_usable(store: Store) -> None:
    found = store.reader()
    with pytest.raises(BelvedereError) as error:
        found.execute("SELECT * FROM nowhere")
    assert code(error.value) == "B7014"
    with pytest.raises(BelvedereError):
        found.execute("SELECT FROM WHERE")
    assert found.execute("SELECT 1") == [(1,)]
    found.close()


def test_parameters_and_results_of_all_kinds(store: Store) -> None:
    found = store.reader()
    mark = (
        ["?"] * 3
        if found.dialect == "sqlite"
        else ["CAST($1 AS bigint)", "CAST($2 AS text)", "CAST($3 AS double precision)"]
    )
    assert found.execute(f"SELECT {', '.join(mark)}, NULL", (2**62, "ü", 0.5)) == [(2**62, "ü", 0.5, None)]
    assert found.execute(f"SELECT {', '.join(mark)}", (None, None, None)) == [(None, None, None)]
    assert found.execute("SELECT 1 WHERE 1 = 0") == []
    many = " UNION ALL ".join(f"SELECT CAST({'NULL' if i < 1500 else i} AS bigint), {i}" for i in range(0, 3000, 10))
    assert found.execute(many)[-1] == (2990, 2990)
    found.close()


def test_many_threads_share_a_reader(store: Store) -> None:
    filled(store, [row(f"k{i}") for i in range(1000)])
    found = store.reader()
    answers: list[int] = []

    def work() -> None:
        for _ in range(20):
            answers.append(found.rows(COUNTS).num_rows + len(found.execute('SELECT * FROM "Counts"')))

    threads = [Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [2000] * 240
    found.close()


def test_reading_goes_on_while_an_epoch_is_written(store: Store) -> None:
    filled(store, [row("a")])
    found = store.reader()
    transaction = store.begin()
    transaction.apply("Counts", delta([(row("a"), -1), (row("b"), 1), (row("c"), 1)]))
    assert found.rows(COUNTS)["_key"].to_pylist() == ["a"]
    transaction.commit(epoch(2))
    assert sorted(found.rows(COUNTS)["_key"].to_pylist()) == ["b", "c"]
    found.close()


def test_two_copies_of_sqlite_never_open_one_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    store = open_store(url)
    inside = open_reader(url)  # through the same library
    assert inside.last_epoch() is None
    inside.close()
    store.close()
    outside = open_reader(url)
    with pytest.raises(BelvedereError) as error:
        open_store(url)
    assert code(error.value) == "B7018"
    outside.close()
    open_store(url).close()


def test_a_temporary_store_is_opened_again_by_its_url() -> None:
    store = open_store("sqlite://")
    filled(store, [row("a")])
    with pytest.raises(BelvedereError):
        discard(store.url)
    store.close()
    again = open_store(store.url)
    assert again.tables() == (COUNTS,)
    again.close()
    discard(store.url)
    with pytest.raises(BelvedereError) as error:
        open_reader(store.url)
    assert code(error.value) == "B7001"


def test_rows_of_an_empty_table(store: Store) -> None:
    store.create([COUNTS])
    found = store.reader()
    assert found.rows(COUNTS).equals(pa.Table.from_pylist([], COUNTS.arrow))
    found.close()
