"""Tables and log of a Postgres server. `publication` and `slot_making` send further queries.

In: a source's settings. Out: tables with columns and keys, positions in the log. Needs a role with REPLICATION that may
read the tables; it changes only the slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from belvedere.connectors.postgres.copy_rows import Block, Copied, copied_blocks, rows_of_block
from belvedere.connectors.postgres.table_states import STATES
from belvedere.connectors.postgres.tables import Table, in_quotes, keyless, table_of_row
from belvedere.connectors.postgres.wal import transactions
from belvedere.errors import BelvedereError, fail
from belvedere.project.settings import Source
from belvedere.syntax.wording import did_you_mean

SETTINGS = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "iso_8601",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "row_security": "off",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "transaction_timeout": "0",
    "idle_session_timeout": "0",
    "lock_timeout": "5s",
    "lc_monetary": "C",
    "search_path": "",
    "synchronous_commit": "local",
}
"""Settings of all connections; some servers lack some of them.

Values are read as texts, and these settings fix their format. Without `row_security` a hidden row is an error.
"""
WAITS = ("55P03",)
"""SQL states for a locked table: the query is retried."""


class Server:
    """A connection to a source's database."""

    def __init__(self, source: Source):
        options = source.options
        self.source, self.url = source.name, str(options.get("url", ""))
        self.schema = str(options.get("schema", "public"))
        self.publication, self.slot = (
            str(options.get("publication", "belvedere")),
            str(options.get("slot", "belvedere")),
        )
        if not self.url.startswith(("postgresql://", "postgres://")):
            hint = 'write `url = "postgresql://user:${env:PASSWORD}@host/database"`'
            raise fail("B6222", f'source "{source.name}" has no url', hint=hint)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self) -> psycopg.Connection[Any]:
        """Open a further connection, in autocommit, with the same settings as all others. Raises B6220."""
        with self.explaining_failures():
            made = psycopg.connect(self.url, connect_timeout=5, autocommit=True, client_encoding="UTF8")
            text = """SELECT set_config(s.name, s.value, false) FROM unnest(%s::text[], %s::text[]) AS s(name, value)
                      WHERE s.name IN (SELECT name FROM pg_settings)"""
            made.execute(text, (list(SETTINGS), list(SETTINGS.values())))
            return made

    @cached_property
    def connection(self) -> psycopg.Connection[Any]:
        """Return the connection, in autocommit. Raises B6220."""
        return self.connect()

    def close(self) -> None:
        """Close the connection."""
        if "connection" in self.__dict__:
            self.connection.close()
            del self.__dict__["connection"]

    def ask(self, text: str, *values: Any, binary: bool = False) -> list[Any]:
        """Return the rows of a query. Raises B6220 if the server does not answer, B6222 if it rejects the query."""
        with self.explaining_failures():
            return self.connection.execute(text, values, binary=binary).fetchall()

    @contextmanager
    def explaining_failures(self) -> Iterator[None]:
        """Convert errors of the driver inside the block to diagnostics, and close a broken connection."""
        try:
            yield
        except psycopg.Error as error:
            code, said = getattr(error, "sqlstate", None), str(error).strip().split("\n")[0]
            if code in WAITS:
                hint = "it continues when the lock is released"
                raise fail(
                    "B6227", f'source "{self.source}" waits for a locked table', detail=said, hint=hint
                ) from error
            if (
                isinstance(error, psycopg.OperationalError)
                and code != "53400"
                and (code or "08")[:2] in ("08", "57", "53")
            ):
                self.close()
                hint = "check that the server runs, and that `url` has its host, port, user and database"
                raise fail("B6220", f'source "{self.source}" does not answer', detail=said, hint=hint) from error
            raise self._refusal(code, said) from error

    def _refusal(self, code: str | None, said: str) -> BelvedereError:
        schema = in_quotes(self.schema)
        hints = {
            "42501": (
                "give the role REPLICATION, and SELECT on the tables: "
                f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO ..."
            ),
            "42602": "use lower case letters, digits and `_` in the name of a slot",
            "55006": "another run reads this slot: stop it, or set another `slot`",
            "53400": "raise `max_replication_slots` of the server, or drop an unused slot: "
            "SELECT slot_name, active FROM pg_replication_slots",
        }
        return fail(
            "B6222",
            f'the server of source "{self.source}" refuses the request',
            detail=said,
            hint=hints.get(code or ""),
        )

    # -- tables -------------------------------------------------------------------------------------------------------

    def tables(self) -> list[str]:
        """Return the names of the schema's tables."""
        text = """SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                  WHERE n.nspname = %s AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY 1"""
        return [name for (name,) in self.ask(text, self.schema)]

    def table(self, name: str) -> Table:
        """Return a table by its name, ignoring case.

        Raises B6101 if there is none, B6223 if its log cannot identify rows.
        """
        names = self.tables()
        found = name if name in names else next((n for n in names if n.casefold() == name.casefold()), None)
        if found is None:
            raise self.no_table(name, names)
        table = self.states([found])[found]
        if not table.keys:
            raise keyless(self.source, table)
        return table

    def no_table(self, name: str, names: Iterable[str]) -> BelvedereError:
        """Return the diagnostic B6101."""
        message = f'source "{self.source}" has no table "{name}" in schema "{self.schema}"'
        return fail("B6101", message, hint=did_you_mean(name, list(names)))

    def states(self, names: Iterable[str], connection: psycopg.Connection[Any] | None = None) -> dict[str, Table]:
        """Return the existing tables as they are now, or as the transaction of a connection sees them."""
        with self.explaining_failures():
            rows = (connection or self.connection).execute(STATES, (self.schema, list(names))).fetchall()
        return {table.name: replace(table, space=self.schema) for table in map(table_of_row, rows)}

    def end_rows(self, table: Table, columns: Sequence[str], most: int) -> list[Copied]:
        """Return the first and last rows by the key, as texts."""
        last = most // 2
        places = [columns.index(k) for k in table.key]
        first = self._rows_by_key(table, columns, most - last, "ASC")
        known = {tuple(row[p] for p in places) for row in first}
        behind = reversed(self._rows_by_key(table, columns, last, "DESC")) if last else ()
        return [*first, *(row for row in behind if tuple(row[p] for p in places) not in known)]

    def _rows_by_key(self, table: Table, columns: Sequence[str], most: int, direction: str) -> list[Copied]:
        order = sql.SQL(", ").join(sql.Identifier(k) + sql.SQL(f" {direction}") for k in table.key)
        tail = sql.SQL(" ORDER BY {} LIMIT {}").format(order, sql.Literal(most))
        return [row for block in self.copy(self.connection, table, columns, tail) for row in rows_of_block(block)]

    def copy(
        self,
        connection: psycopg.Connection[Any],
        table: Table,
        columns: Sequence[str],
        tail: sql.Composable = sql.SQL(""),  # noqa: B008  (it is not changed)
    ) -> Iterator[Block]:
        """Yield a table's own rows in blocks. Rows of tables that inherit from it are excluded, as in its log."""
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        only = sql.SQL("" if table.is_partitioned else "ONLY ")
        text = sql.SQL("COPY (SELECT {} FROM {}{}{}) TO STDOUT").format(
            names, only, sql.Identifier(self.schema, table.name), tail
        )
        query = text.as_string(connection).encode()
        with self.explaining_failures(), _as_it_is(connection), connection.cursor().copy(query) as copy:
            yield from copied_blocks(copy, columns)

    # -- the log ------------------------------------------------------------------------------------------------------

    def system(self) -> tuple[str, int]:
        """Return the identity of the server: the number from the creation of its data, and its timeline."""
        text = "SELECT system_identifier::text, left(pg_walfile_name(pg_current_wal_lsn()), 8) FROM pg_control_system()"
        ((system, timeline),) = self.ask(text)
        return system, int(timeline, 16)

    def switch_of(self, timeline: int, now: int) -> int | None:
        """Return the position at which the server left a timeline for its present one; None if it never was on it."""
        with (
            self.explaining_failures(),
            psycopg.connect(self.url, connect_timeout=5, autocommit=True, replication="database") as connection,
        ):
            ((_, history),) = connection.execute(f"TIMELINE_HISTORY {now}").fetchall()
        return switch_of_history(bytes(history) if not isinstance(history, str) else history.encode(), timeline)

    def flushed(self) -> int:
        """Return the position up to which the log is on disk."""
        ((position,),) = self.ask("SELECT (pg_current_wal_flush_lsn() - '0/0')::int8")
        return int(position)

    def confirmed(self) -> int | None:
        """Return the confirmed position of the slot; None if there is no slot. Raises B6225 if it was lost."""
        text = """SELECT (confirmed_flush_lsn - '0/0')::int8, wal_status, plugin, database = current_database()
                  FROM pg_replication_slots WHERE slot_name = %s"""
        found = self.ask(text, self.slot)
        if not found:
            return None
        position, status, plugin, is_here = found[0]
        if plugin != "pgoutput":
            what = f"is of the plugin {plugin}" if plugin else "is a physical slot"
            raise fail("B6222", f'the slot "{self.slot}" {what}', hint="set another `slot`")
        if not is_here:
            raise fail("B6222", f'the slot "{self.slot}" belongs to another database', hint="set another `slot`")
        if status == "lost":
            raise self.slot_lost(f'the server has removed log that the slot "{self.slot}" has not read yet')
        return int(position)

    def flush(self, position: int) -> None:
        """Write the log to disk up to a position, since a crash would undo later rows that a first read has seen.

        Raises B6227.
        """
        self.ask("SELECT pg_logical_emit_message(true, 'belvedere', '')")
        if self.flushed() < position:
            raise fail(
                "B6227",
                f'source "{self.source}" waits until the log of its server is on disk',
                hint="it continues by itself",
            )

    def last_transaction(self, to: int) -> tuple[int, int] | None:
        """Return the last unread transaction of the slot up to a position: its end, and its number."""
        text = """SELECT data FROM pg_logical_slot_peek_binary_changes(
                  %s, ('0/0'::pg_lsn + %s::numeric)::pg_lsn, NULL, 'proto_version', '1', 'publication_names', %s)
                  WHERE get_byte(data, 0) IN (66, 67)"""
        found = transactions(
            bytes(d) for (d,) in self.ask(text, self.slot, to, in_quotes(self.publication), binary=True)
        )
        return next(((t.end, t.xid) for t in reversed(list(found)) if t.end <= to), None)

    def changes(self, to: int, most: int) -> list[tuple[int, bytes]]:
        """Return the slot's messages of whole transactions up to a position, without removing them."""
        text = """SELECT (lsn - '0/0')::int8, data FROM pg_logical_slot_peek_binary_changes(
                  %s, ('0/0'::pg_lsn + %s::numeric)::pg_lsn, %s, 'proto_version', '1', 'publication_names', %s)"""
        names = in_quotes(self.publication)  # a list of names in SQL syntax
        with self.explaining_failures(), _as_it_is(self.connection):
            return [(int(p), bytes(d)) for p, d in self.ask(text, self.slot, to, most, names, binary=True)]

    def advance(self, to: int) -> None:
        """Let the slot discard the log before a position."""
        self.ask("SELECT pg_replication_slot_advance(%s, ('0/0'::pg_lsn + %s::numeric)::pg_lsn)::text", self.slot, to)

    def slot_lost(self, what: str) -> BelvedereError:
        """Return the diagnostic B6225."""
        hint = (
            f'changes are lost: write `slot = "{next_slot(self.slot)}"` for source "{self.source}", '
            "a new name; the next start reads "
            f"its tables again and replaces the rows of the store. Then drop the old slot: {drop_statement(self.slot)}"
        )
        return fail("B6225", f'source "{self.source}": {what}', hint=hint)


@contextmanager
def _as_it_is(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Disable the conversion of texts within the block.

    A database without an encoding (SQL_ASCII) may have any bytes in its texts, and would not send those that are not
    UTF-8.
    """
    is_without = connection.info.parameter_status("server_encoding") == "SQL_ASCII"
    if is_without:
        connection.execute("SET client_encoding = 'SQL_ASCII'")
    try:
        yield
    finally:
        if is_without and not connection.broken and connection.info.transaction_status != TransactionStatus.INERROR:
            connection.execute("SET client_encoding = 'UTF8'")


def next_slot(slot: str) -> str:
    """Return another name for a slot: `belvedere_2` after `belvedere`, then `belvedere_3`."""
    stem, _, number = slot.rpartition("_")
    return f"{stem}_{int(number) + 1}" if stem and number.isdecimal() else f"{slot}_2"


def drop_statement(slot: str) -> str:
    """Return the statement that drops a slot if it exists."""
    name = slot.replace("'", "''")
    return f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '{name}'"


def switch_of_history(history: bytes, timeline: int) -> int | None:
    """Return the position at which a timeline was left, from the server's history file."""
    for line in history.decode(errors="replace").splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] == str(timeline):
            high, low = words[1].split("/")
            return (int(high, 16) << 32) + int(low, 16)
    return None
