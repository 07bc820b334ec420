"""The writing connection of a Postgres store, through ADBC.

In: flat batches, statements. Out: flat batches. Rows are copied into temporary tables and merged as sets. Rows of a new
table are copied into it directly.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from threading import RLock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.errors import BelvedereError, fail
from belvedere.schema import WEIGHT
from belvedere.store.dialects.dialect import Dialect
from belvedere.store.dialects.faults import is_transient
from belvedere.store.dialects.postgres.postgres_connect import ERRORS, connect
from belvedere.store.dialects.postgres.postgres_long_values import is_narrow, narrow_index, too_long
from belvedere.store.dialects.postgres.postgres_rows import in_array, numbered, selected
from belvedere.store.dialects.postgres.postgres_settings import ENCODING, refuse_encoding
from belvedere.store.dialects.postgres.postgres_views import grants_on, place_of_views
from belvedere.store.dialects.session import KEYS, MARK, Flat, Row, Session, overwriting
from belvedere.store.identifiers import SYSTEM, quoted
from belvedere.store.layout import Layout
from belvedere.store.public_views import ViewGrant, ViewSchema
from belvedere.values.pieces import in_pieces

NUMBERS = f"{SYSTEM}numbers"
"""Temporary table for integer keys."""
COPIES = f"{SYSTEM}copied_"
"""Prefix of the tables that other processes fill."""
FILL_ROWS = 10_000
"""Number of rows. If an empty table receives more, its statistics are updated for the planner."""
FEW_KEYS = 1000
"""Maximum number of keys sent as one array; more go into a temporary table."""
COPY_BYTES = 16 << 20
"""Number of bytes of new rows sent at once."""
LOCK_SECONDS = 30
MOMENT, PATIENCE_SECONDS = 0.2, 3.0
"""Seconds of one wait for a lock that blocks readers, and seconds of all retries within one transaction."""
STAGES = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename LIKE ?"
HOLDERS = """
SELECT a.pid, a.usename::text, a.application_name, a.state, date_trunc('second', a.xact_start)::text,
  string_agg(DISTINCT c.relname::text, ', ')
FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND l.granted AND c.relkind IN ('r', 'v') AND c.relnamespace IN (
  SELECT oid FROM pg_namespace
  WHERE nspname IN (
    current_schema(), CASE current_schema() WHEN 'public' THEN 'views' ELSE current_schema() || '_views' END
  )
)
AND a.pid NOT IN (SELECT json_array_elements_text(?::json)::int)
GROUP BY a.pid, a.usename, a.application_name, a.state, a.xact_start ORDER BY a.xact_start LIMIT 1
"""
BACKEND = "SELECT pid, backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()"
RESTARTED = "SELECT pg_postmaster_start_time() > CAST(CAST(? AS text) AS timestamptz)"
NOW = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"

_SETTINGS = (
    "SET client_min_messages = warning",
    "SET TimeZone = 'UTC'",
    "SET jit = off",
    "SET work_mem = '64MB'",
    "SET statement_timeout = 0",
    f"SET lock_timeout = '{LOCK_SECONDS}s'",
)


class PostgresSession(Session):
    """The `Session` of a Postgres database. Its tables are in the first schema of the connection's search path."""

    writes_late = True

    def __init__(self, dialect: Dialect, url: str):
        self.dialect = dialect
        self.url = url
        self._lock = RLock()
        self._process = ""
        self._alone: PostgresSession | None = None
        self._filled: set[str] = set()
        self._stages: set[str] = set()
        """Tables of the running epoch that other processes fill."""
        self._swept = False
        self._connection = self._connect()

    def _connect(self) -> Any:
        connection = connect(self.dialect, self.url, _SETTINGS)
        with self._guarded(), connection.cursor() as cursor:
            cursor.execute(ENCODING)
            refuse_encoding(str(cursor.fetchall()[0][0]), self.url)
            cursor.execute(BACKEND)
            pid, started = cursor.fetchall()[0]
            self._process = json.dumps({"backend": pid, "started": started})
            for name, type_ in ((KEYS, 'text COLLATE "C"'), (NUMBERS, "bigint")):
                cursor.execute(f"CREATE TEMP TABLE {name} (k {type_}) ON COMMIT DELETE ROWS")
        return connection

    def _guarded(self, doing: str = "") -> AbstractContextManager[None]:
        return self.dialect.guarded(self.url, ERRORS, doing)

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

    def patiently(self, work: Callable[[], None]) -> None:
        """Run `work` with short waits for its locks.

        Readers queue behind a waiter for a lock, so the session waits briefly, releases all locks and retries.
        """
        end, pause = time.monotonic() + PATIENCE_SECONDS, MOMENT
        while True:
            self.execute("SAVEPOINT belvedere_patience")
            self.execute(f"SET LOCAL lock_timeout = {round(MOMENT * 1000)}")
            try:
                work()
            except BelvedereError as error:
                if error.diagnostics[0].code != "B7004":
                    raise
                self.execute("ROLLBACK TO SAVEPOINT belvedere_patience")
                if time.monotonic() + pause > end:
                    raise self._blocked() or error from error
                time.sleep(pause)
                pause *= 2
                continue
            self.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
            self.execute("RELEASE SAVEPOINT belvedere_patience")
            return

    def _blocked(self) -> BelvedereError | None:
        """Return B7004 with the session that has read the store's tables or views for the longest time, or None if it
        has ended."""
        own = [json.loads(s.process())["backend"] for s in (self, self._alone) if s is not None]
        found = self.execute(HOLDERS, (json.dumps(own),))
        if not found:
            return None
        process, user, program, state, since, names = found[0]
        message = (
            f"session {process} of {user}{f' ({program})' if program else ''} blocks a change of the store's views"
        )
        detail = f"its transaction is open since {since}, is {state}, and has read {names}"
        hint = f"end its transaction, or the session: SELECT pg_terminate_backend({process})"
        return fail("B7004", message, detail=detail, hint=hint)

    def rollback(self) -> None:
        try:
            self.execute("ROLLBACK")
        except BelvedereError as error:
            if not is_transient(error):  # a lost connection has rolled back
                raise

    def read(self, layout: Layout, source: str, parameters: Sequence[Any] | pa.Array = ()) -> Flat:
        sql = f"SELECT {', '.join(f't.{c}' for c in layout.quoted)} FROM {source}"
        one = isinstance(parameters, pa.Array)
        asked = (numbered(sql)[0], in_array(parameters)) if one else numbered(sql, parameters)
        with self._guarded(), self._connection.cursor() as cursor:
            cursor.execute(*asked)
            yield from selected(layout, cursor.fetch_record_batch())

    def select(self, layout: Layout, keys: pa.Array) -> Flat:
        place = f"{layout.name} AS t WHERE t.{quoted(layout.key)}"
        if len(keys) > FEW_KEYS:
            return self.read(layout, f"{place} IN (SELECT k FROM {self._put_keys(keys)})")
        # few keys are always looked up by index: without fresh statistics the planner would read whole tables
        self.execute("SET LOCAL enable_seqscan = off")
        found = list(self.read(layout, f"{place} = ANY(?)", keys))
        self.execute("SET LOCAL enable_seqscan = on")
        return iter(found)

    def insert(self, layout: Layout, batches: Iterable[pa.RecordBatch]) -> None:
        self._insert(layout, batches)

    def _insert(self, layout: Layout, batches: Iterable[pa.RecordBatch]) -> int:
        count = 0
        for rows in in_pieces(batches, COPY_BYTES, layout.flat):
            self._narrow(layout, too_long(layout, rows))
            self._copy(layout.stored_name, rows, doing=f': table "{layout.table.name}"')
            count += rows.num_rows
        return count

    def _narrow(self, layout: Layout, indexes: Iterable[tuple[str, ...]]) -> None:
        """Make indexes that serve reads narrow if values are too long for them; once for each index."""
        for columns in indexes:
            if not self.execute(is_narrow(layout, columns)):
                self.patiently(partial(self._run_all, narrow_index(layout, columns)))

    def _run_all(self, statements: Sequence[str]) -> None:
        for statement in statements:
            self.execute(statement)

    def fill(self, layout: Layout, batches: Iterable[pa.RecordBatch]) -> None:
        # dropping its indexes meanwhile would lock out the table's readers
        if self._insert(layout, batches) > FILL_ROWS:  # else the planner has no statistics until autovacuum runs
            self.execute(f"ANALYZE {layout.name}")

    def upsert(self, layout: Layout, rows: pa.Table) -> None:
        definition = layout.create().removeprefix(f"CREATE TABLE {layout.name}")
        stage = f"{SYSTEM}stage_{hashlib.sha256(definition.encode()).hexdigest()[:32]}"
        self.execute(f"CREATE TEMP TABLE IF NOT EXISTS {stage} {definition} ON COMMIT DELETE ROWS")
        self._empty(stage)
        self._copy(stage, rows, temporary=True)
        self._narrow(layout, too_long(layout, rows))
        columns = layout.column_list
        into = f"INSERT INTO {layout.name} ({columns}) SELECT {columns} FROM {stage}"
        self.execute(into + overwriting(layout))

    def delete(self, layout: Layout, keys: pa.Array) -> None:
        key = quoted(layout.key)
        if len(keys) > FEW_KEYS:
            self.execute(f"DELETE FROM {layout.name} AS t USING {self._put_keys(keys)} AS k WHERE t.{key} = k.k")
            return
        with self._lock, self._guarded(), self._connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {layout.name} WHERE {key} = ANY($1)", in_array(keys))

    def _put_keys(self, keys: pa.Array) -> str:
        """Make these keys the only ones of the temporary table of their type, and return the table's name."""
        name = NUMBERS if pa.types.is_integer(keys.type) else KEYS
        found = pc.unique(keys)
        self._empty(name)
        self._copy(name, pa.table([found.cast(pa.int64()) if name == NUMBERS else found], ["k"]), temporary=True)
        return name

    def _empty(self, temporary: str) -> None:
        """Empty the temporary table for a new transaction."""
        if temporary in self._filled:
            self.execute(f"TRUNCATE {temporary}")
        self._filled.add(temporary)

    def _copy(self, name: str, rows: pa.Table, temporary: bool = False, doing: str = "") -> None:
        if rows.num_rows:
            with self._lock, self._guarded(doing), self._connection.cursor() as cursor:
                cursor.adbc_ingest(name, rows, mode="append", temporary=temporary)

    def delete_where(self, sql: str, parameters: Sequence[Any]) -> int:
        return int(self.execute(f"WITH gone AS ({sql} RETURNING 1) SELECT count(*) FROM gone", parameters)[0][0])

    def stage(self, layout: Layout, weighted: bool = False) -> str | None:
        session = self.alone()
        if not self._swept:  # left by a run that ended before its commit
            pattern = f"{COPIES}%".replace("_", r"\_")
            left = {str(name) for (name,) in session.execute(STAGES, (pattern,))}
            self._swept = session.drop_at_once(left - self._stages)
        name = f"{COPIES}{uuid.uuid4().hex}"
        columns = [f"{c} {f.sql}" for c, f in zip(layout.quoted, layout.forms, strict=True)]
        columns += [f"{quoted(WEIGHT)} bigint"] if weighted else []
        session.execute(f"CREATE UNLOGGED TABLE {quoted(name)} ({', '.join(columns)}, {quoted(MARK)} text)")
        self._stages.add(name)
        return name

    def unstage(self, stages: Collection[str]) -> None:
        self._stages.difference_update(stages)
        was_swept, self._swept = self._swept, False
        self._swept = self.alone().drop_at_once(stages) and was_swept

    def drop_at_once(self, tables: Collection[str]) -> bool:
        """Drop tables in the open transaction. Return whether all were dropped: a task may still fill one of them."""
        self.execute(f"SET LOCAL lock_timeout = {round(MOMENT * 1000)}")
        gone = [self._drop_at_once(name) for name in tables]
        self.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
        return all(gone)

    def _drop_at_once(self, table: str) -> bool:
        self.execute("SAVEPOINT belvedere_drop")
        try:
            self.execute(f"DROP TABLE IF EXISTS {quoted(table)}")
        except BelvedereError as error:
            if error.diagnostics[0].code != "B7004":
                raise
            self.execute("ROLLBACK TO SAVEPOINT belvedere_drop")
            return False
        self.execute("RELEASE SAVEPOINT belvedere_drop")
        return True

    def copy_to_stage(self, layout: Layout, stage: str, rows: pa.RecordBatch) -> set[tuple[str, ...]]:
        table = pa.Table.from_batches([rows])
        self._copy(stage, table, doing=f': table "{layout.table.name}"')
        return too_long(layout, table)

    def take_stage(self, layout: Layout, stage: str, marks: Sequence[str], long: set[tuple[str, ...]]) -> None:
        self._narrow(layout, long)
        columns, name = layout.column_list, quoted(stage)
        self._keep_marked(name, marks)
        self.execute(f"INSERT INTO {layout.name} ({columns}) SELECT {columns} FROM {name}")
        self._drop_taken(stage)

    def take_changes(self, layout: Layout, stage: str, marks: Sequence[str], long: set[tuple[str, ...]]) -> None:
        self._narrow(layout, long)
        columns, name, key, weight = layout.column_list, quoted(stage), quoted(layout.key), quoted(WEIGHT)
        self._keep_marked(name, marks)
        self.execute(f"ANALYZE {name}")  # else the planner joins the staged rows in loops
        back = f"EXISTS (SELECT FROM {name} AS o WHERE o.{key} = s.{key} AND o.{weight} <> s.{weight})"
        rows = f"INSERT INTO {layout.name} ({columns}) SELECT {columns} FROM {name} AS s WHERE s.{weight} > 0 AND"
        gone = f"s.{key} = t.{key} AND s.{weight} < 0 AND NOT {back}"
        self.execute(f"DELETE FROM {layout.name} AS t USING {name} AS s WHERE {gone}")
        self.execute(f"{rows} {back}{overwriting(layout)}")
        self.execute(f"{rows} NOT {back}")
        self._drop_taken(stage)

    def _drop_taken(self, stage: str) -> None:
        """Drop the table at the commit. A rollback restores it; `unstage` drops it afterwards."""
        self.execute(f"DROP TABLE {quoted(stage)}")
        self._stages.discard(stage)

    def _keep_marked(self, name: str, marks: Sequence[str]) -> None:
        """Delete the staged rows of task attempts that do not count."""
        sql = f"DELETE FROM {name} WHERE {quoted(MARK)} NOT IN (SELECT json_array_elements_text(?::json))"
        self.execute(sql, (json.dumps(marks),))

    def place_of_views(self) -> ViewSchema | None:
        return place_of_views(self)

    def grants_on(self, target: str) -> tuple[ViewGrant, ...]:
        return grants_on(self, target)

    def alone(self) -> PostgresSession:
        if self._alone is None:
            self._alone = PostgresSession(self.dialect, self.url)
        return self._alone

    def bytes_of(self, tables: Sequence[str]) -> Mapping[str, int]:
        sql = "SELECT pg_total_relation_size(CAST(? AS text)::regclass)"
        return {name: int(self.execute(sql, (quoted(name),))[0][0]) for name in tables}

    def process(self) -> str:
        """Return the identity of this connection as the process.

        A lease names the connection that renews it, since that connection notices a loss first.
        """
        return self._process

    def gone(self, process: str) -> bool:
        holder = json.loads(process)
        found = self.execute(
            "SELECT backend_start::text FROM pg_stat_activity WHERE pid = ?", (int(holder["backend"]),)
        )
        # a user without rights on other sessions gets NULL for their start
        if found and found[0][0] in (None, holder["started"]):
            return False
        # a restarted server has ended all connections, which does not mean that the processes have ended
        return not self.execute(RESTARTED, (holder["started"],))[0][0]

    def now(self) -> int:
        return int(self.execute(NOW)[0][0])

    def other_clock(self) -> int | None:
        found = self.execute(
            f"{NOW} WHERE inet_server_addr() IS DISTINCT FROM inet_client_addr()"
        )  # a socket's file has no port
        return int(found[0][0]) if found else None

    def close(self) -> None:
        with self._lock:
            if self._alone is not None:
                self._alone.close()
            with self._guarded():
                self._connection.close()
