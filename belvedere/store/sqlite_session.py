"""SQLite through ADBC: the writing connection of a store's file.

In: flat batches, statements. Out: flat batches. It is the only library that may touch the file in this process
(two copies of SQLite in one process break each other's locks).

Pragmas are set outside transactions. Rows cross as `belvedere.store.sqlite_rows` says.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from threading import RLock
from typing import Any

import adbc_driver_manager as manager
import adbc_driver_sqlite.dbapi as adbc
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.schema import KEY
from belvedere.store.faults import guarded
from belvedere.store.identifiers import quoted
from belvedere.store.layout import Layout
from belvedere.store.protocol import Reader
from belvedere.store.session import Row
from belvedere.store.sqlite_rows import BATCH_ROWS, bound_values, insert_statement, select_statement, selected

FILL_ROWS = 50_000
"""More rows than these are put into an empty table without its indexes."""
BUSY_MILLISECONDS = 5_000
CACHE_KIB = 65_536
TEMPORARY_CACHE_KIB = 16_384
JOURNAL_BYTES = 64 * 2**20
ERRORS = (manager.Error, OSError)

_PRAGMAS = (
    f"busy_timeout={BUSY_MILLISECONDS}",
    "journal_mode=WAL",
    "synchronous=FULL",
    "temp_store=FILE",  # key lists and sorts of any size: small ones stay in the cache
    f"cache_size=-{CACHE_KIB}",
    f"temp.cache_size=-{TEMPORARY_CACHE_KIB}",
    f"journal_size_limit={JOURNAL_BYTES}",
    "wal_autocheckpoint=4000",
)
_KEYS = {pa.int64(): "_belvedere_keys_integer", pa.string(): "_belvedere_keys_text"}
_ASKED = {pa.int64(): "_belvedere_asked_integer", pa.string(): "_belvedere_asked_text"}
_SEEN = "_belvedere_seen"


class SqliteSession:
    """The `Session` of a SQLite file."""

    dialect = "sqlite"

    def __init__(self, path: Path, url: str, durable: bool = True):
        self.url = url
        self.path = path
        self._lock = RLock()
        with self._guarded():
            self._connection = adbc.connect(str(path), autocommit=True)
        try:
            for pragma in _PRAGMAS:
                self.execute(f"PRAGMA {pragma}")
            if not durable:  # a temporary file does not outlive this process
                self.execute("PRAGMA synchronous=OFF")
            for name in (_KEYS[pa.int64()], _ASKED[pa.int64()]):
                self.execute(f"CREATE TEMP TABLE {name} (k INTEGER PRIMARY KEY)")
            for name in (_KEYS[pa.string()], _ASKED[pa.string()], _SEEN):
                self.execute(f"CREATE TEMP TABLE {name} (k TEXT PRIMARY KEY) WITHOUT ROWID")
        except BaseException:
            self._connection.close()
            raise

    def _guarded(self, doing: str = "") -> Any:
        return guarded(self.url, ERRORS, doing)

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        with self._lock, self._guarded(), self._connection.cursor() as cursor:
            cursor.execute(sql, tuple(parameters) or None)
            return list(cursor.fetchall()) if cursor.description else []

    def begin(self) -> None:
        self.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self.execute("COMMIT")

    def rollback(self) -> None:
        # a full disk ends the transaction by itself
        with self._lock, self._connection.cursor() as cursor:
            try:
                cursor.execute("ROLLBACK")
            except ERRORS as error:
                if "no transaction is active" not in str(error):
                    with self._guarded():
                        raise

    def select(self, layout: Layout, by: str | None, keys: pa.Array | None) -> Iterator[pa.RecordBatch]:
        if by is None or keys is None:
            return self._read(layout, f"{layout.name} AS t", "", ())
        return self._by_keys(layout, by, keys)

    def _by_keys(self, layout: Layout, by: str, keys: pa.Array) -> Iterator[pa.RecordBatch]:
        held = _KEYS[keys.type]
        self._hold(held, (keys,))
        return self._read(layout, _held_by(held, layout, by), "", ())

    def _hold(self, held: str, keys: Iterable[pa.Array]) -> None:
        """Make these keys the only ones of a temporary table."""
        self.execute(f"DELETE FROM temp.{held}")
        for part in keys:
            ordered = part.take(pc.sort_indices(part)) if len(part) > 1 else part
            self._many(f"INSERT OR IGNORE INTO temp.{held} VALUES (?)", pa.record_batch([ordered], ["k"]))

    def ask(self, type_: pa.DataType, keys: Iterable[pa.Array]) -> None:
        self._hold(_ASKED[type_], keys)

    def select_asked(self, layout: Layout, by: str) -> Iterator[pa.RecordBatch]:
        return self._read(layout, _held_by(_ASKED[layout.form_of(by).flat], layout, by), "", ())

    def mark_seen(self, keys: pa.Array, first: bool) -> None:
        if first:
            self.execute(f"DELETE FROM temp.{_SEEN}")
        ordered = keys.take(pc.sort_indices(keys)) if len(keys) > 1 else keys
        self._many(f"INSERT INTO temp.{_SEEN} VALUES (?)", pa.record_batch([ordered], ["k"]))

    def select_unseen(self, layout: Layout, by: str | None) -> Iterator[pa.RecordBatch]:
        source = f"{layout.name} AS t" if by is None else _held_by(_ASKED[layout.form_of(by).flat], layout, by)
        return self._read(layout, source, f" WHERE t.{quoted(KEY)} NOT IN (SELECT k FROM temp.{_SEEN})", ())

    def delete_unseen(self, layout: Layout, by: str | None) -> None:
        asked = "" if by is None else f" AND {quoted(by)} IN (SELECT k FROM temp.{_ASKED[layout.form_of(by).flat]})"
        self.execute(f"DELETE FROM {layout.name} WHERE {quoted(KEY)} NOT IN (SELECT k FROM temp.{_SEEN}){asked}")

    def select_where(self, layout: Layout, where: str, parameters: tuple[Any, ...]) -> Iterator[pa.RecordBatch]:
        return self._read(layout, f"{layout.name} AS t", f" WHERE {where}", parameters)

    def _read(self, layout: Layout, source: str, where: str, parameters: tuple[Any, ...]) -> Iterator[pa.RecordBatch]:
        """Rows as they stream; the statement is open until the last one is read or the iterator is closed."""
        with self._guarded(), self._connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)})
            cursor.execute(select_statement(layout, source) + where, parameters or None)
            yield from selected(layout, cursor.fetch_record_batch())

    def insert(self, layout: Layout, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            self._put(layout, batch, "")

    def fill(self, layout: Layout, batches: Iterable[pa.RecordBatch]) -> None:
        """Many rows go in without indexes, which are then made from sorted values: a third faster."""
        source = iter(batches)
        first, count = [], 0
        for batch in source:
            first.append(batch)
            if (count := count + batch.num_rows) > FILL_ROWS:
                break
        if count <= FILL_ROWS:
            self.insert(layout, first)
            return
        indexes = layout.indexes()
        for name in indexes:
            self.execute(f"DROP INDEX {quoted(name)}")
        self.insert(layout, chain(first, source))
        for statement in indexes.values():
            with self._guarded(f': table "{layout.table.name}"'):
                self.execute(statement)

    def update(self, layout: Layout, rows: pa.Table, columns: Sequence[str]) -> None:
        """Only columns that changed: SQLite then leaves the indexes of the others alone."""
        ordered = rows.sort_by(KEY) if rows.num_rows > 1000 else rows
        places = [layout.columns.index(c) for c in (*columns, KEY)]
        for batch in ordered.to_batches():
            values, bound = bound_values(layout, batch, places)
            changes = ", ".join(f"{quoted(c)} = {v}" for c, v in zip(columns, values, strict=False))
            self._many(f"UPDATE {layout.name} SET {changes} WHERE {quoted(KEY)} = {values[-1]}", bound)

    def upsert(self, layout: Layout, rows: pa.Table) -> None:
        # rows in the order of the key touch each page of its index once
        ordered = rows.sort_by(KEY) if rows.num_rows > 1000 else rows
        changes = (
            ", ".join(f"{c} = excluded.{c}" for c in layout.quoted if c != quoted(KEY)) or f"{quoted(KEY)} = {quoted(KEY)}"
        )
        for batch in ordered.to_batches():
            self._put(layout, batch, f" ON CONFLICT ({quoted(KEY)}) DO UPDATE SET {changes}")

    def _put(self, layout: Layout, batch: pa.RecordBatch, conflict: str) -> None:
        sql, bound = insert_statement(layout, batch)
        self._many(sql + conflict, bound, f': table "{layout.table.name}"')

    def delete(self, layout: Layout, keys: pa.Array) -> None:
        ordered = keys.take(pc.sort_indices(keys)) if len(keys) > 1000 else keys
        self._many(f"DELETE FROM {layout.name} WHERE {quoted(KEY)} = ?", pa.record_batch([ordered], ["k"]))

    def _many(self, sql: str, rows: pa.RecordBatch, doing: str = "") -> None:
        with self._lock, self._guarded(doing), self._connection.cursor() as cursor:
            cursor.executemany(sql, rows)

    def delete_where(self, sql: str, parameters: Sequence[Any]) -> int:
        self.execute(sql, parameters)
        return int(self.execute("SELECT changes()")[0][0])

    def alone(self) -> SqliteSession:
        return self

    def reader(self) -> Reader:
        from belvedere.store.sqlite_reader import AdbcReader

        return AdbcReader(self.path, self.url)

    def bytes_of(self, tables: Sequence[str]) -> Mapping[str, int]:
        pages = "SELECT name, pgsize FROM dbstat WHERE aggregate = TRUE"
        sql = f"SELECT s.tbl_name, sum(d.pgsize) FROM ({pages}) AS d JOIN sqlite_schema AS s ON s.name = d.name GROUP BY 1"
        found = {str(name): int(size) for name, size in self.execute(sql)}
        return {name: found.get(name, 0) for name in tables}

    def process(self) -> str:
        pid = os.getpid()
        return json.dumps({"host": socket.gethostname(), "process": pid, "started": _started(pid)})

    def gone(self, process: str) -> bool:
        holder = json.loads(process)
        return bool(holder["host"] == socket.gethostname() and _started(holder["process"]) != holder["started"])

    def now(self) -> int:
        return time.time_ns() // 1000

    def other_clock(self) -> int | None:
        return None

    def close(self) -> None:
        with self._lock, self._guarded():
            self._connection.close()


def _held_by(held: str, layout: Layout, by: str) -> str:
    """A source of the rows whose `by` is held; SQLite keeps the order of a CROSS JOIN: it looks keys up, it reads no whole table."""
    return f"temp.{held} AS k CROSS JOIN {layout.name} AS t ON t.{quoted(by)} = k.k"


def _started(pid: int) -> str | None:
    """When a process started, in a text that no other process with its number has; None where it is not there."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
    except (OSError, IndexError):
        return "unknown"
    try:  # no /proc: the process counts as the same while any has its number
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass
    return "running"
