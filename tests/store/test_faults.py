"""What goes wrong around a store is told as a diagnostic with a hint."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from belvedere.errors import BelvedereError
from belvedere.store import Store, open_reader, open_store
from belvedere.store.dialects import DIALECTS
from belvedere.store.dialects.sqlite import sqlite_session
from tests.store.samples import COUNTS, code, epoch, filled, reader, row


def refused(url: str) -> BelvedereError:
    with pytest.raises(BelvedereError) as error:
        open_store(url)
    assert error.value.diagnostics[0].hint
    return error.value


@pytest.mark.parametrize("url", ["", "mysql://host/x", "sqlite:", "sqlite:///", "store.db", "sqlite:/x"])
def test_other_urls_are_refused(url: str) -> None:
    assert code(refused(url)) == "B7019"
    with pytest.raises(BelvedereError):
        open_reader(url)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert code(refused(f"sqlite:///{tmp_path}/no/where.db")) == "B7001"


def test_a_folder_instead_of_a_file(tmp_path: Path) -> None:
    assert code(refused(f"sqlite:///{tmp_path}")) == "B7001"


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are no pages of a database\n" * 500)
    assert code(refused(f"sqlite:///{path}")) == "B7002"
    with pytest.raises(BelvedereError) as error:
        open_reader(f"sqlite:///{path}")
    assert code(error.value) == "B7002"
    assert "these are" in path.read_text()


def test_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = open_store(f"sqlite:///{path}")
    filled(store, [row(f"k{i}", word="w" * 200) for i in range(2000)])
    store.close()
    content = bytearray(path.read_bytes())
    content[8192:] = os.urandom(len(content) - 8192)
    path.write_bytes(content)

    def use() -> None:
        open_store(f"sqlite:///{path}").begin().count("Counts")

    with pytest.raises(BelvedereError) as error:
        use()
    assert code(error.value) == "B7002"


def test_an_unwritable_folder(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("the superuser may write everywhere")
    tmp_path.chmod(0o500)
    assert code(refused(f"sqlite:///{tmp_path}/store.db")) == "B7001"
    tmp_path.chmod(0o700)


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch()
    store = open_store(f"sqlite:///{path}")
    assert store.tables() == ()
    store.close()


def test_a_locked_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    open_store(url).close()
    path = str(tmp_path / "store.db")
    program = (
        f"import sqlite3; c = sqlite3.connect({path!r}); c.execute('BEGIN IMMEDIATE'); print(1, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        holder.stdout.readline()
        pragmas = tuple(p.replace("5000", "100") for p in sqlite_session._PRAGMAS)
        monkeypatch.setattr(sqlite_session, "_PRAGMAS", pragmas)
        started = time.monotonic()
        assert code(refused(url)) == "B7004"
        assert time.monotonic() - started < 3
        holder.stdin.close()
    open_store(url).close()


def test_a_full_disk_leaves_the_last_epoch(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    program = "\n".join(
        [
            "import resource, signal, sys; from belvedere.store import open_store; from tests.store.samples import *",
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)",
            f"s = open_store({url!r}); filled(s, [row('a')])",
            "resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, resource.RLIM_INFINITY)); t = s.begin()",
            "rows = [row(f'k{i}', word='w' * 5000) for i in range(40_000)]",
            "try: t.append('Counts', reader(rows)); t.commit(epoch(2)); print('no error')",
            "except BelvedereError as e: print(code(e)); t.rollback()",
            "t = s.begin(); print(t.count('Counts')); t.rollback(); s.close()",
        ]
    )
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["B7003", "1"], done.stderr
    store = open_store(url)
    last = store.last_epoch()
    assert last is not None
    assert last.epoch == 1
    store.close()


@pytest.mark.postgres
def test_postgres_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("belvedere.store.dialects.connection_retry.CONNECT_SECONDS", 0.2)
    for url in ("postgresql://user:secret@127.0.0.1:1/x", "postgresql://user:secret@nowhere.invalid/x"):
        error = refused(url)
        assert code(error) == "B7005"
        assert "secret" not in str(error)


@pytest.mark.postgres
def test_a_postgres_database_that_is_not_there(postgres_server: str) -> None:
    error = refused(postgres_server.replace("/postgres?", "/nowhere?"))
    assert code(error) == "B7020"
    assert "does not exist" in str(error)


@pytest.mark.postgres
def test_postgres_connections_that_were_cut(postgres_url: str) -> None:
    store = open_store(postgres_url)
    filled(store, [row("a")])
    found = store.reader()
    found.last_epoch()
    others = "pid <> pg_backend_pid() AND datname = current_database()"
    cut = f"SELECT count(pg_terminate_backend(pid)::text) FROM pg_stat_activity WHERE {others}"
    other = open_reader(postgres_url)
    other.execute(cut)
    assert found.rows(COUNTS).num_rows == 1  # readers connect again
    transaction = store.begin()  # so does the writer between two epochs
    transaction.append("Counts", reader([row("b")]))
    other.execute(cut)
    with pytest.raises(BelvedereError) as error:
        transaction.commit(epoch(2))
    assert code(error.value) == "B7005"
    transaction.rollback()
    transaction = store.begin()
    assert transaction.count("Counts") == 1
    transaction.commit(epoch(2))
    for reader_ in (found, other):
        reader_.close()
    store.close()


def test_long_keys(store: Store) -> None:
    """SQLite takes them; Postgres bounds what an index can hold."""
    store.create([COUNTS])
    transaction = store.begin()
    key = os.urandom(10_000).hex()
    if store.dialect == "sqlite":
        transaction.append("Counts", reader([row(key)]))
        assert transaction.lookup("Counts", pa.array([key])).read_all()["_key"].to_pylist() == [key]
    else:
        with pytest.raises(BelvedereError) as error:
            transaction.append("Counts", reader([row(key)]))
        assert code(error.value) == "B7025"
    transaction.rollback()


def test_what_nobody_foresaw_is_told_with_its_text() -> None:
    error = DIALECTS["postgres"].fault(RuntimeError("the moon is\nfull"), "postgresql://me:pw@host/db")
    assert code(error) == "B7099"
    assert error.diagnostics[0].detail == "the moon is full"
    assert "pw" not in str(error)


def test_what_postgres_cannot_compute_is_no_unknown_error() -> None:
    error = DIALECTS["postgres"].fault(RuntimeError("numeric field overflow SQLSTATE: 22003"), "postgresql://host/shop")
    assert code(error) == "B7088"
