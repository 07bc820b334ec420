"""The sink: a table in another database contains a view, or the events of a subscription. Exactly once.

In: events after the outlet's mark, in the order of `_seq`. Out: rows of a table. A transaction writes the rows and the
number of their last event, so both are committed or neither is.

A view with a key is upserted and deleted by its key. Other events are appended, with `_op`, `_event_time` and `_seq`. A
missing table is created. An existing table belongs to the user: it is not altered, and its columns accept only values
that they hold exactly.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from belvedere.connectors.connector import Outgoing
from belvedere.connectors.exporting.event_files import plain_json
from belvedere.connectors.exporting.lost_events import lost_events
from belvedere.connectors.postgres.sink_columns import Fit, fits_of, misfit_of
from belvedere.errors import BelvedereError, fail
from belvedere.project.settings import Sink
from belvedere.rules.events import EVENT_TIME, OPERATION, SEQUENCE
from belvedere.values.intervals import iso_text
from belvedere.values.months import with_month_texts

MARKS = "belvedere_exports"
"""Name of the table with the progress of each export, in the schema of the exported tables."""
STAGE = "belvedere_stage"
T = pa.types


class PostgresOutlet:
    """The writer of one export to a table."""

    lasting = True

    def __init__(self, outgoing: Outgoing):
        sink, options = outgoing.sink, outgoing.sink.options
        self.sink, self.outgoing, self.key = sink.name, outgoing, outgoing.key
        self.url = str(options.get("url", ""))
        if not self.url.startswith(("postgresql://", "postgres://")):
            raise fail(
                "B6221",
                f'sink "{sink.name}" has no url',
                hint='write `url = "postgresql://user:${env:PASSWORD}@host/database"`',
            )
        self.schema, self.name = table_of(sink, outgoing.target)
        self.table = sql.Identifier(self.schema, self.name)
        self._connection: psycopg.Connection[Any] | None = None
        self._fits: Mapping[str, Fit] = {}
        """Columns that have another type in the table."""
        self._was_there = False

    def reached(self) -> int | None:
        """Return the number of the last event in the table; None if there is none. Raises B6220, B6221."""
        self.close()
        marks = sql.Identifier(self.schema, MARKS)
        made = (
            "CREATE TABLE IF NOT EXISTS {} (store text, target text, seq bigint NOT NULL, PRIMARY KEY (store, target))"
        )
        with self._reported():
            self._connection = psycopg.connect(self.url, connect_timeout=5)
            with self._connection.transaction():
                self._connection.execute("SET TIME ZONE 'UTC'")
                if not self._is_there(MARKS):
                    self._connection.execute(sql.SQL(made).format(marks))
                asked = sql.SQL("SELECT seq FROM {} WHERE store = %s AND target = %s").format(marks)
                found = self._connection.execute(asked, self._name).fetchone()
                is_there = self._is_there(self.name)
        self._was_there = is_there
        return int(found[0]) if found is not None and is_there else None

    @property
    def _name(self) -> tuple[str, str]:
        return self.outgoing.store, self.outgoing.name

    def _is_there(self, table: str) -> bool:
        assert self._connection is not None
        asked = "SELECT to_regclass(format('%%I.%%I', %s::text, %s::text)) IS NOT NULL"
        return bool(self._connection.execute(asked, (self.schema, table)).fetchone()[0])  # type: ignore[index]

    def write(self, pieces: Iterable[pa.Table]) -> None:
        """Write the events in one transaction. Raises B6220 if the server does not answer, B6221 if it rejects them."""
        assert self._connection is not None
        try:
            with self._reported(), self._connection.transaction():
                last = None
                for number, events in enumerate(pieces):
                    self._take(self._connection, with_month_texts(events), is_first=not number)
                    last = events[SEQUENCE][-1].as_py()
                self._mark(self._connection, last)
        except BaseException:
            self.close()
            raise

    def _take(self, connection: psycopg.Connection[Any], events: pa.Table, is_first: bool) -> None:
        shown = events.drop_columns([OPERATION, EVENT_TIME, SEQUENCE]) if self.key else events
        fields = list(shown.schema)
        if is_first:
            self._make(connection, fields)
            columns = [(f.name, column_type(f.type)) for f in fields]
            self._fits = fits_of(connection, self.schema, self.name, columns)
        if not self.key and not self._fits:
            _copy(connection, self.table, shown)
            return
        stage, names = sql.Identifier(STAGE), [sql.Identifier(f.name) for f in fields]
        kept = sql.SQL("s.{} <> 'DELETE'" if self.key else "TRUE").format(sql.Identifier(OPERATION))
        if is_first:
            kinds = sql.SQL(", ").join(
                _declared(events.schema.field(n)) for n in dict.fromkeys([*shown.schema.names, OPERATION, SEQUENCE])
            )
            connection.execute(sql.SQL("CREATE TEMPORARY TABLE {} ({}) ON COMMIT DROP").format(stage, kinds))
        else:
            connection.execute(sql.SQL("TRUNCATE {}").format(stage))
        _copy(connection, stage, events.select(list(dict.fromkeys([*shown.schema.names, OPERATION, SEQUENCE]))))
        found = misfit_of(connection, stage, self._fits.values(), kept, SEQUENCE)
        if found is not None:
            raise found.refusal("B6221", self.sink, self.outgoing.target)
        listed, values = sql.SQL(", ").join(names), sql.SQL(", ").join(self._cast(f.name) for f in fields)
        come = sql.SQL("INSERT INTO {t} ({c}) SELECT {v} FROM {s} WHERE {w} ORDER BY s.{n}")
        number = sql.Identifier(SEQUENCE)
        if not self.key:
            staged = sql.SQL("{} AS s").format(stage)
            connection.execute(come.format(t=self.table, c=listed, v=values, s=staged, w=kept, n=number))
            return
        keys = sql.SQL(", ").join(map(sql.Identifier, self.key))
        newest = sql.SQL("(SELECT DISTINCT ON ({k}) * FROM {s} ORDER BY {k}, {n} DESC) AS s").format(
            k=keys, s=stage, n=number
        )
        equal = sql.SQL("t.{} IS NOT DISTINCT FROM {}")
        same = sql.SQL(" AND ").join(equal.format(sql.Identifier(k), self._cast(k)) for k in self.key)
        gone = sql.SQL("DELETE FROM {t} AS t USING {s} WHERE {same}").format(t=self.table, s=newest, same=same)
        connection.execute(gone)  # resent rows are replaced: a key may hold NULLs, and the user's table needs no index
        connection.execute(come.format(t=self.table, c=listed, v=values, s=newest, w=kept, n=number))

    def _cast(self, column: str) -> sql.Composable:
        """Return a staged column, cast to the type of the table's column."""
        return self._fits[column].cast if column in self._fits else sql.Identifier("s", column)

    def _make(self, connection: psycopg.Connection[Any], fields: Sequence[pa.Field]) -> None:
        """Create the table, and an index of its key, if it is missing."""
        if self._is_there(self.name):
            return
        if self._was_there:
            raise lost_events(self.sink, self.outgoing.target, "its table is gone")
        self._was_there = True
        declared = sql.SQL(", ").join(map(_declared, fields))
        connection.execute(sql.SQL("CREATE TABLE {} ({})").format(self.table, declared))
        if self.key:
            keys = sql.SQL(", ").join(map(sql.Identifier, self.key))
            connection.execute(sql.SQL("CREATE UNIQUE INDEX ON {} ({}) NULLS NOT DISTINCT").format(self.table, keys))

    def _mark(self, connection: psycopg.Connection[Any], last: int | None) -> None:
        if last is not None:
            text = "INSERT INTO {} VALUES (%s, %s, %s) ON CONFLICT (store, target) DO UPDATE SET seq = EXCLUDED.seq"
            connection.execute(sql.SQL(text).format(sql.Identifier(self.schema, MARKS)), (*self._name, last))

    @contextmanager
    def _reported(self) -> Iterator[None]:
        what = f'sink "{self.sink}"'
        try:
            yield
        except BelvedereError:
            raise
        except (psycopg.OperationalError, OSError) as error:
            code = getattr(error, "sqlstate", None)
            if code is not None and code[:2] not in ("08", "57", "53"):
                raise self._refused(error) from error
            hint = "check that the server runs, and that `url` has its host, port, user and database"
            raise fail("B6220", f"{what} does not answer", detail=_first(error), hint=hint) from error
        except psycopg.Error as error:
            raise self._refused(error) from error

    def _refused(self, error: Exception) -> Exception:
        hint = 'drop or change the table, or export to another one: `names = { Target = "name" }`'
        message = f'sink "{self.sink}" rejects the events of "{self.outgoing.target}"'
        return fail("B6221", message, detail=_first(error), hint=hint)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def table_of(sink: Sink, target: str) -> tuple[str, str]:
    """Return the schema and the name of an export's table."""
    return str(sink.options.get("schema", "public")), str(sink.options.get("names", {}).get(target, target))


def place(sink: Sink, target: str) -> str:
    """Return the table of an export, and its database."""
    url = str(sink.options.get("url", ""))
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:  # the run reports the error
        return " ".join((url, *table_of(sink, target)))
    host = str(given.get("hostaddr") or given.get("host") or "").lower()
    database = given.get("dbname") or given.get("user") or ""
    return " ".join((host, str(given.get("port") or 5432), str(database), *table_of(sink, target)))


def _first(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


def _declared(field: pa.Field) -> sql.Composed:
    return sql.SQL("{} {}").format(sql.Identifier(field.name), sql.SQL(column_type(field.type)))


def column_type(type_: pa.DataType) -> str:
    """Return the type of a column that the sink creates: JSON for nested values, INTERVAL for intervals."""
    if T.is_decimal(type_):
        return f"numeric({type_.precision},{type_.scale})"
    if T.is_timestamp(type_):
        return "timestamptz" if type_.tz else "timestamp"
    known = {
        T.is_boolean: "boolean",
        T.is_int8: "smallint",
        T.is_int16: "smallint",
        T.is_int32: "integer",
        T.is_integer: "bigint",
        T.is_float32: "real",
        T.is_floating: "double precision",
        T.is_date: "date",
        T.is_binary: "bytea",
        T.is_duration: "interval",
        T.is_nested: "jsonb",
    }
    return next((name for test, name in known.items() if test(type_)), "text")


def _copy(connection: psycopg.Connection[Any], table: sql.Identifier, rows: pa.Table) -> None:
    listed = sql.SQL(", ").join(map(sql.Identifier, rows.schema.names))
    with connection.cursor() as cursor, cursor.copy(sql.SQL("COPY {} ({}) FROM STDIN").format(table, listed)) as copy:
        columns = [[_value(v) for v in column.to_pylist()] for column in rows.columns]
        for row in zip(*columns, strict=True):
            copy.write_row(row)


def _value(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd")  # Postgres texts cannot contain NUL
    if isinstance(value, list | tuple | dict):
        return json.dumps(plain_json(value), ensure_ascii=False).replace("\\u0000", "\\ufffd")
    return iso_text(value) if isinstance(value, timedelta) else value
