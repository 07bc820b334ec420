"""Postgres through ADBC: the writing connection of a store.

In: flat batches, statements. Out: flat batches. Rows come in by COPY into temporary tables and are merged as sets; new rows
of a table go into it by COPY directly.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import RLock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.errors import BelvedereError
from belvedere.schema import KEY
from belvedere.store.faults import guarded, is_transient
from belvedere.store.identifiers import SYSTEM, quoted, stored_name
from belvedere.store.layout import Layout
from belvedere.store.postgres_connect import ERRORS, connect
from belvedere.store.postgres_long import is_narrow, narrow_index, parts, too_long
from belvedere.store.postgres_rows import Counted, Watched, numbered, selected
from belvedere.store.protocol import Reader
from belvedere.store.session import Row

FILL_ROWS = 10_000
"""More rows than these in an empty table change what the planner should do."""
FEW_KEYS = 1000
"""So many keys are sent as one array; more go into a temporary table."""
LOCK_SECONDS = 30
NOW = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"

_SETTINGS = (
    "SET client_min_messages = warning",
    "SET TimeZone = 'UTC'",
    "SET jit = off",
    "SET work_mem = '64MB'",
    f"SET lock_timeout = '{LOCK_SECONDS}s'",
)
_TYPES = {pa.int64(): ("integer", "bigint"), pa.string(): ("text", 'text COLLATE "C"')}
_KEYS = {t: f"{SYSTEM}keys_{name}" for t, (name, _) in _TYPES.items()}
_ASKED = {t: f"{SYSTEM}asked_{name}" for t, (name, _) in _TYPES.items()}
_SEEN = f"{SYSTEM}seen"


class PostgresSession:
    """The `Session` of a Postgres database; tables live in the first schema of the connection's search path."""

    dialect = "postgres"

    def __init__(self, url: str, process: str | None = None):
        self.url = url
        self._lock = RLock()
        self._process = process
        self._alone: PostgresSession | None = None
        self._filled: set[str] = set()
        self._connection = self._connect()

    def _connect(self) -> Any:
        connection = connect(self.url, _SETTINGS)
        with self._guarded(), connection.cursor() as cursor:
            for flat, (_, type_) in _TYPES.items():
                for name in (_KEYS[flat], _ASKED[flat]):
                    cursor.execute(f"CREATE TEMP TABLE {name} (k {type_}) ON COMMIT DELETE ROWS")
            cursor.execute(f"CREATE TEMP TABLE {_SEEN} (k {_TYPES[pa.string()][1]} PRIMARY KEY) ON COMMIT DELETE ROWS")
        return connection

    def _guarded(self, doing: str = "") -> Any:
        return guarded(self.url, ERRORS, doing)

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        with self._lock, self._guarded(), self._connection.cursor() as cursor:
            cursor.execute(*numbered(sql, parameters))
            return list(cursor.fetchall()) if cursor.description else []

    def begin(self) -> None:
        self._filled.clear()
        try:
            self.execute("BEGIN")
        except BelvedereError as error:
            if not is_transient(error):
                raise
            # the server was restarted between two epochs: nothing is lost
            self._connection = self._connect()
            self.execute("BEGIN")

    def commit(self) -> None:
        self.execute("COMMIT")

    def rollback(self) -> None:
        try:
            self.execute("ROLLBACK")
        except BelvedereError as error:
            if not is_transient(error):  # a lost connection has rolled back
                raise

    def select(self, layout: Layout, by: str | None, keys: pa.Array | None) -> Iterator[pa.RecordBatch]:
        if by is None or keys is None:
            return self._read(layout, "", ())
        column = f"t.{quoted(by)}"
        if len(keys) <= FEW_KEYS:
            return self._by_few(layout, f" WHERE {column} = ANY(?)", keys)
        return self._read(layout, f" WHERE {column} IN (SELECT k FROM {self._hold(keys)})", ())

    def _by_few(self, layout: Layout, where: str, keys: pa.Array) -> Iterator[pa.RecordBatch]:
        """Few keys are always looked up by index: without fresh statistics the planner would read whole tables."""
        self.execute("SET LOCAL enable_seqscan = off")
        found = list(self._read(layout, where, keys))
        self.execute("SET LOCAL enable_seqscan = on")
        return iter(found)

    def _hold(self, keys: pa.Array) -> str:
        self._fill(_KEYS[keys.type], [_column(pc.unique(keys))], _one_column(keys.type))
        return _KEYS[keys.type]

    def ask(self, type_: pa.DataType, keys: Iterable[pa.Array]) -> None:
        self._fill(_ASKED[type_], (_column(pc.unique(k)) for k in keys), _one_column(type_))
        self.execute(f"ANALYZE {_ASKED[type_]}")

    def select_asked(self, layout: Layout, by: str) -> Iterator[pa.RecordBatch]:
        return self._read(layout, f" WHERE {_is_asked(layout, by)}", ())

    def mark_seen(self, keys: pa.Array, first: bool) -> None:
        if first:
            self._fill(_SEEN, [], _one_column(pa.string()))
        self._copy(_SEEN, _one_column(pa.string()), [_column(keys)], True, "")

    def select_unseen(self, layout: Layout, by: str | None) -> Iterator[pa.RecordBatch]:
        self.execute(f"ANALYZE {_SEEN}")
        return self._read(layout, _unseen(layout, by), ())

    def delete_unseen(self, layout: Layout, by: str | None) -> None:
        self.execute(f"DELETE FROM {layout.name} AS t{_unseen(layout, by)}")

    def select_where(self, layout: Layout, where: str, parameters: tuple[Any, ...]) -> Iterator[pa.RecordBatch]:
        return self._read(layout, f" WHERE {where}", parameters)

    def _read(self, layout: Layout, where: str, parameters: Any) -> Iterator[pa.RecordBatch]:
        columns = ", ".join(f"t.{c}" for c in layout.quoted)
        sql = f"SELECT {columns} FROM {layout.name} AS t{where}"
        if isinstance(parameters, pa.Array):
            held = pa.record_batch([pa.array([parameters], pa.list_(parameters.type))], ["keys"])
            asked: tuple[str, Any] = numbered(sql)[0], held
        else:
            asked = numbered(sql, parameters)
        with self._guarded(), self._connection.cursor() as cursor:
            cursor.execute(*asked)
            yield from selected(layout, cursor.fetch_record_batch())

    def insert(self, layout: Layout, batches: Iterable[pa.RecordBatch]) -> None:
        for part in parts(layout, batches, lambda columns: self._narrow(layout, columns)):
            self._copy(stored_name(layout.table.name), layout.flat, part, False, f': table "{layout.table.name}"')

    def _narrow(self, layout: Layout, indexes: Iterable[tuple[str, ...]]) -> None:
        """Let indexes that serve reads give way where values are too long for them; once for each index."""
        for columns in indexes:
            if not self.execute(is_narrow(layout, columns)):
                for statement in narrow_index(layout, columns):
                    self.execute(statement)

    def fill(self, layout: Layout, batches: Iterable[pa.RecordBatch]) -> None:
        # to drop its indexes meanwhile would lock the table's readers out
        counted = Counted(batches)
        self.insert(layout, counted)
        if counted.rows > FILL_ROWS:  # else the planner guesses until autovacuum comes by
            self.execute(f"ANALYZE {layout.name}")

    def update(self, layout: Layout, rows: pa.Table, columns: Sequence[str]) -> None:
        # Postgres itself leaves indexes alone whose values stay
        self.upsert(layout, rows)

    def upsert(self, layout: Layout, rows: pa.Table) -> None:
        definition = layout.create().removeprefix(f"CREATE TABLE {layout.name}")
        stage = f"{SYSTEM}stage_{hashlib.sha256(definition.encode()).hexdigest()[:32]}"
        self.execute(f"CREATE TEMP TABLE IF NOT EXISTS {stage} {definition} ON COMMIT DELETE ROWS")
        self._fill(stage, rows.to_batches(), layout.flat)
        self._narrow(layout, too_long(layout, rows))
        key, columns = quoted(KEY), layout.column_list
        changes = ", ".join(f"{c} = excluded.{c}" for c in layout.quoted)
        self.execute(
            f"INSERT INTO {layout.name} ({columns}) SELECT {columns} FROM {stage} ORDER BY {key} "
            f"ON CONFLICT ({key}) DO UPDATE SET {changes}"
        )

    def delete(self, layout: Layout, keys: pa.Array) -> None:
        key = quoted(KEY)
        if len(keys) > FEW_KEYS:
            self.execute(f"DELETE FROM {layout.name} AS t USING {self._hold(keys)} AS k WHERE t.{key} = k.k")
            return
        held = pa.record_batch([pa.array([keys], pa.list_(keys.type))], ["keys"])
        with self._lock, self._guarded(), self._connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {layout.name} WHERE {key} = ANY($1)", held)

    def _fill(self, temporary: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        """Make these rows the only ones of a temporary table; a new transaction finds it empty."""
        if temporary in self._filled:
            self.execute(f"TRUNCATE {temporary}")
        self._filled.add(temporary)
        self._copy(temporary, schema, batches, True, "")

    def _copy(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], temporary: bool, doing: str) -> None:
        watched = Watched(schema, iter(batches))
        try:
            with self._lock, self._guarded(doing), self._connection.cursor() as cursor:
                cursor.adbc_ingest(name, watched.reader, mode="append", temporary=temporary)
        except BelvedereError as error:
            raise watched.error or error from error

    def delete_where(self, sql: str, parameters: Sequence[Any]) -> int:
        return int(self.execute(f"WITH gone AS ({sql} RETURNING 1) SELECT count(*) FROM gone", parameters)[0][0])

    def alone(self) -> PostgresSession:
        if self._alone is None:
            self._alone = PostgresSession(self.url, self.process())
        return self._alone

    def reader(self) -> Reader:
        from belvedere.store.postgres_reader import PostgresReader

        return PostgresReader(self.url)

    def bytes_of(self, tables: Sequence[str]) -> Mapping[str, int]:
        sql = "SELECT pg_total_relation_size(CAST(? AS text)::regclass)"
        return {name: int(self.execute(sql, (quoted(name),))[0][0]) for name in tables}

    def process(self) -> str:
        if self._process is not None:
            return self._process
        sql = "SELECT pid, backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()"
        pid, started = self.execute(sql)[0]
        return json.dumps({"backend": pid, "started": started})

    def gone(self, process: str) -> bool:
        holder = json.loads(process)
        found = self.execute("SELECT backend_start::text FROM pg_stat_activity WHERE pid = ?", (int(holder["backend"]),))
        # who may not see other users' sessions gets NULL for their start
        return not found or (found[0][0] is not None and found[0][0] != holder["started"])

    def now(self) -> int:
        return int(self.execute(NOW)[0][0])

    def other_clock(self) -> int | None:
        found = self.execute(f"{NOW} WHERE inet_server_addr() IS DISTINCT FROM inet_client_addr()")  # a socket's file has none
        return int(found[0][0]) if found else None

    def close(self) -> None:
        with self._lock:
            if self._alone is not None:
                self._alone.close()
            with self._guarded():
                self._connection.close()


def _one_column(type_: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field("k", type_)])


def _column(keys: pa.Array) -> pa.RecordBatch:
    return pa.record_batch([keys], schema=_one_column(keys.type))


def _is_asked(layout: Layout, by: str) -> str:
    return f"t.{quoted(by)} IN (SELECT k FROM {_ASKED[layout.form_of(by).flat]})"


def _unseen(layout: Layout, by: str | None) -> str:
    """The WHERE of rows whose `_key` was not seen."""
    asked = "" if by is None else f" AND {_is_asked(layout, by)}"
    return f" WHERE NOT EXISTS (SELECT 1 FROM {_SEEN} AS s WHERE s.k = t.{quoted(KEY)}){asked}"
