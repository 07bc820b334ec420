"""A Postgres store at one moment, copied table by table with COPY, and restored.

In: the store's URL. Out: a file for each table in a folder, in the text form of COPY, which every version of Postgres
reads. All tables are read in one transaction that sees one epoch and blocks no other. To restore, the tables and their
indexes are created from the store's own definitions, in one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

import psycopg
from psycopg import errors, sql

from belvedere.errors import BelvedereError, fail
from belvedere.store.definitions import epoch_from_values, table_from_text
from belvedere.store.dialects.connection_retry import keep_trying
from belvedere.store.dialects.dialect import Dialect
from belvedere.store.dialects.faults import without_password
from belvedere.store.dialects.postgres.postgres_long_values import narrow_index
from belvedere.store.dialects.postgres.postgres_settings import (
    ENCODING,
    OWN_SCHEMA,
    UNHURRIED,
    holding,
    refuse_encoding,
)
from belvedere.store.identifiers import index_name
from belvedere.store.layout import Layout
from belvedere.store.protocol import EpochRow
from belvedere.store.system import DOCUMENT, EPOCH, LAST_EPOCH, SHOWN, STATEMENTS, TABLE

ERRORS = (psycopg.Error, OSError)
OWN = (EPOCH, TABLE, DOCUMENT)
"""The store's own tables that are copied. The lease is not copied, since it belongs to a process."""
CHUNK = 1 << 20
TRIES = 5
"""Number of retries if tables are replaced before they are locked."""
SETTINGS = (
    "SET client_encoding = 'UTF8'",
    "SET TimeZone = 'UTC'",
    "SET client_min_messages = warning",
    OWN_SCHEMA,
    UNHURRIED,
    "SET statement_timeout = 0",
)
DEFINITIONS = f"SELECT definition FROM {TABLE} ORDER BY place"


class PostgresSnapshot:
    """An open transaction with a snapshot of the store from its first read."""

    def __init__(self, dialect: Dialect, url: str):
        self._dialect, self._url = dialect, url
        self._connection = connect(dialect, url)
        try:
            self._execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self._connection.commit()
            self._last = self._begun()
        except BaseException:
            self.close()
            raise

    def _guarded(self) -> AbstractContextManager[None]:
        return self._dialect.guarded(self._url, ERRORS)

    def _begun(self) -> EpochRow | None:
        """Return the last epoch, after locking its tables against replacement: a table created later would appear empty
        in this snapshot."""
        for is_last in (False,) * TRIES + (True,):
            tables = self._execute(DEFINITIONS)
            self._connection.rollback()
            try:
                if names := [layout.name for layout in _layouts(self._dialect, tables)]:
                    self._execute(holding(names))
                rows = self._execute(LAST_EPOCH)
                if self._execute(DEFINITIONS) == tables:
                    return epoch_from_values(rows[0]) if rows else None
            except BelvedereError as error:
                if error.diagnostics[0].code != "B7014" or is_last:
                    raise
            self._connection.rollback()
        raise fail(
            "B7004",
            "the tables of the store were replaced repeatedly during the backup",
            hint="take the backup when no start changes the script",
        )

    def _execute(self, text: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._guarded():
            return execute(self._connection, text, parameters)

    def last_epoch(self) -> EpochRow | None:
        return self._last

    def document(self, name: str) -> str | None:
        rows = self._execute(f"SELECT content FROM {DOCUMENT} WHERE name = %s", (name,))
        return self._dialect.unescape(str(rows[0][0])) if rows else None

    def write(self, folder: Path) -> None:
        for name in OWN:
            self._copy(f"SELECT * FROM {name}", folder / f"{name}.copy")
        for number, layout in enumerate(_layouts(self._dialect, self._execute(DEFINITIONS))):
            self._copy(f"SELECT {layout.column_list} FROM {layout.name}", folder / _file(number))

    def _copy(self, query: str, path: Path) -> None:
        copying = _text(f"COPY ({query}) TO STDOUT")
        with (
            self._guarded(),
            self._connection.cursor() as cursor,
            path.open("wb") as file,
            cursor.copy(copying) as rows,
        ):
            for block in rows:
                file.write(block)

    def close(self) -> None:
        self._connection.close()


def connect(dialect: Dialect, url: str) -> psycopg.Connection[tuple[Any, ...]]:
    """Return a connection. While the server cannot be reached, retry for some seconds."""

    def once() -> psycopg.Connection[tuple[Any, ...]]:
        with dialect.guarded(url, ERRORS):
            connection = psycopg.connect(url)  # with the URL's own `options`, which may name the schema
            for setting in SETTINGS:
                connection.execute(_text(setting))
            connection.commit()
            return connection

    return keep_trying(once)


def execute(
    connection: psycopg.Connection[tuple[Any, ...]], text: str, parameters: Sequence[Any] = ()
) -> list[tuple[Any, ...]]:
    """Return the rows of one statement."""
    cursor = connection.execute(_text(text), tuple(parameters) or None)
    return cursor.fetchall() if cursor.description else []


def _text(text: str) -> sql.SQL:
    """Return a statement that contains only the store's own names."""
    return sql.SQL(cast(Any, text))


def _layouts(dialect: Dialect, definitions: list[tuple[Any, ...]]) -> list[Layout]:
    """Return the tables that hold rows, in the order of their creation."""
    found = [table_from_text(dialect.unescape(str(text))) for (text,) in definitions]
    return [Layout(dialect, table) for table in found if not table.query]


def _file(number: int) -> str:
    return f"table-{number:05}.copy"


def check_free(dialect: Dialect, url: str) -> None:
    """Check that the database is free.

    Raises B7101 if it has a store with an epoch, B7005 if it cannot be reached, B7028 for its encoding.
    """
    connection = connect(dialect, url)
    try:
        with dialect.guarded(url, ERRORS):
            refuse_encoding(str(execute(connection, ENCODING)[0][0]), url)
            refuse_store(connection, url)
    finally:
        connection.close()


def refuse_store(connection: psycopg.Connection[tuple[Any, ...]], url: str) -> None:
    """Raise B7101 if the connection's schema has a store."""
    there = execute(connection, "SELECT to_regclass(%s) IS NOT NULL", (EPOCH,))[0][0]
    if there and execute(connection, f"SELECT 1 FROM {TABLE} LIMIT 1"):
        hint = "create an empty database, and name it with --store"
        raise fail("B7101", f"{without_password(url)} already contains a store", hint=hint)


def put_back(dialect: Dialect, url: str, folder: Path, documents: Mapping[str, str]) -> None:
    """Restore everything in one transaction."""
    connection = connect(dialect, url)
    try:
        with dialect.guarded(url, ERRORS), connection.transaction():
            for statement in (*dialect.first_start, *STATEMENTS):
                execute(connection, statement)
            refuse_store(connection, url)
            execute(connection, f"DELETE FROM {DOCUMENT}")
            for name in OWN:
                _fill(connection, name, "", folder / f"{name}.copy")
            execute(
                connection, f"DELETE FROM {DOCUMENT} WHERE name = %s", (SHOWN,)
            )  # the next start recreates the views
            for name, text in documents.items():
                execute(connection, f"UPDATE {DOCUMENT} SET content = %s WHERE name = %s", (dialect.escape(text), name))
            _put_tables_back(connection, dialect, folder)
    finally:
        connection.close()


def _put_tables_back(connection: psycopg.Connection[tuple[Any, ...]], dialect: Dialect, folder: Path) -> None:
    definitions = execute(connection, DEFINITIONS)
    for number, layout in enumerate(_layouts(dialect, definitions)):
        execute(connection, layout.create())
        _fill(connection, layout.name, f"({layout.column_list})", folder / _file(number))
        _index(connection, layout)
        execute(connection, f"ANALYZE {layout.name}")
    for (text,) in definitions:
        table = table_from_text(dialect.unescape(str(text)))
        if table.query:  # after the tables that it reads
            execute(connection, Layout(dialect, table).create())


def _fill(connection: psycopg.Connection[tuple[Any, ...]], table: str, columns: str, path: Path) -> None:
    with (
        connection.cursor() as cursor,
        path.open("rb") as file,
        cursor.copy(_text(f"COPY {table} {columns} FROM STDIN")) as rows,
    ):
        while block := file.read(CHUNK):
            rows.write(block)


def _index(connection: psycopg.Connection[tuple[Any, ...]], layout: Layout) -> None:
    """Create the table's indexes. An index that cannot hold its values becomes narrow, as before."""
    columns = {index_name(layout.table.name, i): i for i in layout.table.indexes}
    for name, statement in layout.indexes().items():
        try:
            with connection.transaction():
                execute(connection, statement)
        except errors.ProgramLimitExceeded:
            for narrow in narrow_index(layout, columns[name]):
                execute(connection, narrow)
