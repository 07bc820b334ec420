"""The writing connection of a SQLite file, through ADBC.

In: flat batches, statements. Out: flat batches. ADBC is the only library that can open the file in this process (two
copies of SQLite in one process break each other's locks).

Pragmas are set outside transactions. `belvedere.store.dialects.sqlite.sqlite_rows` converts rows.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path
from threading import RLock
from typing import Any

import adbc_driver_manager as manager
import adbc_driver_sqlite.dbapi as adbc
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.store.dialects.dialect import Dialect
from belvedere.store.dialects.session import KEYS, Flat, Row, Session, overwriting
from belvedere.store.dialects.sqlite.sqlite_libraries import ADBC, closed, opened
from belvedere.store.dialects.sqlite.sqlite_rows import BATCH_ROWS, insert_statement, select_statement, selected
from belvedere.store.identifiers import quoted
from belvedere.store.layout import Layout
from belvedere.store.public_views import ViewSchema

FILL_ROWS = 50_000
"""Number of rows. More rows are inserted into an empty table without its indexes."""
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


class SqliteSession(Session):
    """The `Session` of a SQLite file."""

    def __init__(self, dialect: Dialect, path: Path, durable: bool = True):
        self.dialect = dialect
        self.url = f"sqlite:///{path}"
        self.path = path
        self._lock = RLock()
        opened(ADBC, path)
        try:
            with self._guarded():
                self._connection = adbc.connect(str(path), autocommit=True)
            self._prepare(durable)
        except BaseException:
            self.close()
            raise

    def _prepare(self, durable: bool) -> None:
        for pragma in (
            *_PRAGMAS,
            *(() if durable else ("synchronous=OFF",)),
        ):  # a temporary file ends with this process
            self.execute(f"PRAGMA {pragma}")
        self.execute(f"CREATE TEMP TABLE {KEYS} (k TEXT PRIMARY KEY) WITHOUT ROWID")

    def _guarded(self, doing: str = "") -> AbstractContextManager[None]:
        return self.dialect.guarded(self.url, ERRORS, doing)

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        with self._lock, self._guarded(), self._connection.cursor() as cursor:
            cursor.execute(sql, tuple(parameters) or None)
            return list(cursor.fetchall()) if cursor.description else []

    def begin(self) -> None:
        self.execute("BEGIN IMMEDIATE")

    def rollback(self) -> None:
        # a full disk ends the transaction by itself
        with self._lock, self._connection.cursor() as cursor:
            try:
                cursor.execute("ROLLBACK")
            except ERRORS as error:
                if "no transaction is active" not in str(error):
                    with self._guarded():
                        raise

    def read(self, layout: Layout, source: str, parameters: Sequence[Any] = ()) -> Flat:
        """Stream flat rows. The statement stays open until the last row is read or the iterator is closed."""
        with self._guarded(), self._connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)})
            cursor.execute(select_statement(layout, source), tuple(parameters) or None)
            yield from selected(layout, cursor.fetch_record_batch())

    def select(self, layout: Layout, keys: pa.Array) -> Flat:
        self.execute(f"DELETE FROM {KEYS}")
        self._many(f"INSERT OR IGNORE INTO {KEYS} VALUES (?)", pa.record_batch([_in_order(keys, 1)], ["k"]))
        # SQLite keeps the order of a CROSS JOIN: it looks up keys and reads no whole table
        return self.read(layout, f"{KEYS} AS k CROSS JOIN {layout.name} AS t WHERE t.{quoted(layout.key)} = k.k")

    def insert(self, layout: Layout, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            self._put(layout, batch)

    def fill(self, layout: Layout, batches: Iterable[pa.RecordBatch]) -> None:
        """Insert rows into an empty table.

        Many rows are inserted without indexes, which are then built from sorted values: a third faster.
        """
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

    def upsert(self, layout: Layout, rows: pa.Table) -> None:
        for batch in rows.to_batches():
            self._put(layout, batch, overwriting(layout))

    def _put(self, layout: Layout, batch: pa.RecordBatch, conflict: str = "") -> None:
        sql, bound = insert_statement(layout, batch)
        self._many(sql + conflict, bound, f': table "{layout.table.name}"')

    def delete(self, layout: Layout, keys: pa.Array) -> None:
        bound = pa.record_batch([_in_order(keys, 1000)], ["k"])
        self._many(f"DELETE FROM {layout.name} WHERE {quoted(layout.key)} = ?", bound)

    def _many(self, sql: str, rows: pa.RecordBatch, doing: str = "") -> None:
        with self._lock, self._guarded(doing), self._connection.cursor() as cursor:
            cursor.executemany(sql, rows)

    def delete_where(self, sql: str, parameters: Sequence[Any]) -> int:
        self.execute(sql, parameters)
        return int(self.execute("SELECT changes()")[0][0])

    def place_of_views(self) -> ViewSchema:
        found = self.execute("SELECT lower(name) FROM sqlite_master")
        return ViewSchema(taken=frozenset(str(name) for (name,) in found))

    def alone(self) -> SqliteSession:
        return self

    def bytes_of(self, tables: Sequence[str]) -> Mapping[str, int]:
        pages = "SELECT name, pgsize FROM dbstat WHERE aggregate = TRUE"
        sql = (
            f"SELECT s.tbl_name, sum(d.pgsize) FROM ({pages}) AS d JOIN sqlite_schema AS s ON s.name = d.name "
            "GROUP BY 1"
        )
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

    def close(self) -> None:
        with self._lock, self._guarded():
            try:
                if hasattr(self, "_connection"):
                    self._connection.close()
            finally:
                closed(ADBC, self.path)


def _in_order(keys: pa.Array, few: int) -> pa.Array:
    return keys.take(pc.sort_indices(keys)) if len(keys) > few else keys


def _started(pid: int) -> str | None:
    """Return the start time of a process as a text, which distinguishes it from other processes with its number.

    None if it does not exist.
    """
    try:
        words = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return None if words[0] in "ZX" else words[19]  # an ended process is listed until its parent waits for it
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
    except (OSError, IndexError):
        return "unknown"
    try:  # no /proc: the process counts as running while any process has its number
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass
    return "running"
