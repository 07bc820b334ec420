"""What a Postgres server says of its tables, of its publication and of the slot of a source.

In: a source's settings. Out: tables with columns and keys, positions in the log. Needs a role with REPLICATION that may read the tables;
it changes nothing but the slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import psycopg
import pyarrow as pa
from psycopg import sql

from belvedere.errors import BelvedereError, fail
from belvedere.lang.names import did_you_mean
from belvedere.schema import KEY_MARK, TIMESTAMP
from belvedere.settings import Source

T = pa.types
SETTINGS = (
    "SET client_encoding = 'UTF8'",
    "SET TIME ZONE 'UTC'",
    "SET DateStyle = 'ISO, YMD'",
    "SET IntervalStyle = 'iso_8601'",
    "SET bytea_output = 'hex'",
    "SET extra_float_digits = 1",
)
"""Values are read as texts: these say how they are written."""
TYPES = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "oid": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "timestamptz": TIMESTAMP,
    "timestamp": TIMESTAMP,
}
"""All other types are texts, as Postgres writes them."""
WIDEST = pa.decimal128(38, 18)
"""For `numeric` without precision: a value that does not fit is rejected."""
_COLUMNS = """
SELECT a.attname, t.typname, a.atttypmod, a.attnotnull, a.atttypid::int8
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum
"""
_KEY = """
SELECT a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
WHERE i.indrelid = %s AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary AND c.relreplident <> 'n' END
ORDER BY array_position(i.indkey::int2[], a.attnum)
"""


@dataclass(frozen=True)
class Table:
    """A table as it is: its number, its columns with their types there, its key."""

    oid: int
    name: str
    fields: tuple[pa.Field, ...]
    types: tuple[int, ...]
    key: tuple[str, ...]

    @cached_property
    def key_places(self) -> tuple[int, ...]:
        """The places of the key's columns."""
        return tuple(n for n, f in enumerate(self.fields) if f.name in self.key)

    @property
    def schema(self) -> pa.Schema:
        """The columns; those of the key are marked."""
        marked = (f.with_metadata({KEY_MARK: b"1"}).with_nullable(False) if f.name in self.key else f for f in self.fields)
        return pa.schema(list(marked))


class Server:
    """A connection to a source's database."""

    def __init__(self, source: Source):
        options = source.options
        self.source, self.url = source.name, str(options.get("url", ""))
        self.schema = str(options.get("schema", "public"))
        self.publication, self.slot = str(options.get("publication", "belvedere")), str(options.get("slot", "belvedere"))
        if not self.url.startswith(("postgresql://", "postgres://")):
            hint = 'write `url = "postgresql://user:${env:PASSWORD}@host/database"`'
            raise fail("B6222", f'source "{source.name}" has no url', hint=hint)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def connection(self) -> psycopg.Connection[Any]:
        """In autocommit. Raises B6220."""
        with self.told():
            made = psycopg.connect(self.url, connect_timeout=5, autocommit=True)
            for setting in SETTINGS:
                made.execute(setting)
            return made

    def close(self) -> None:
        """End the connection."""
        if "connection" in self.__dict__:
            self.connection.close()
            del self.__dict__["connection"]

    def ask(self, text: str, *values: Any, binary: bool = False) -> list[Any]:
        """The rows of a query. Raises B6220 where the server does not answer, B6222 where it refuses."""
        with self.told():
            return self.connection.execute(text, values, binary=binary).fetchall()

    @contextmanager
    def told(self) -> Iterator[None]:
        """Errors of the driver within become diagnostics; a connection that is broken is let go of."""
        try:
            yield
        except psycopg.Error as error:
            code, said = getattr(error, "sqlstate", None), str(error).strip().split("\n")[0]
            if isinstance(error, psycopg.OperationalError) and (code is None or code[:2] in ("08", "57", "53")):
                self.close()
                hint = "see that the server runs, and that `url` names its host, port, user and database"
                raise fail("B6220", f'source "{self.source}" does not answer', detail=said, hint=hint) from error
            raise self._refusal(code, said) from error

    def _refusal(self, code: str | None, said: str) -> BelvedereError:
        hints = {
            "42501": f"give the role REPLICATION, and SELECT on the tables: GRANT SELECT ON ALL TABLES IN SCHEMA {self.schema} TO ...",
            "55006": "another run reads this slot: end it, or name another one in `slot`",
        }
        return fail("B6222", f'source "{self.source}" refuses to be read', detail=said, hint=hints.get(code or ""))

    # -- tables -------------------------------------------------------------------------------------------------------

    def tables(self) -> list[str]:
        """The names of the schema's tables."""
        text = """SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                  WHERE n.nspname = %s AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY 1"""
        return [name for (name,) in self.ask(text, self.schema)]

    def table(self, name: str) -> Table:
        """A table by its name, whatever its case. Raises B6101 where there is none, B6223 where it has no key."""
        names = self.tables()
        found = name if name in names else next((n for n in names if n.casefold() == name.casefold()), None)
        if found is None:
            message = f'source "{self.source}" has no table "{name}" in schema "{self.schema}"'
            raise fail("B6101", message, hint=did_you_mean(name, names))
        ((oid,),) = self.ask("SELECT format('%%I.%%I', %s::text, %s::text)::regclass::oid::int8", self.schema, found)
        rows = self.ask(_COLUMNS, oid)
        key = tuple(k for (k,) in self.ask(_KEY, oid))
        if not key:
            hint = f'give it one: ALTER TABLE "{found}" ADD PRIMARY KEY (...); without one its own updates would fail once it is published'
            raise fail("B6223", f'table "{found}" of source "{self.source}" has no key', hint=hint)
        fields = tuple(pa.field(n, _type(t, modifier), not required) for n, t, modifier, required, _ in rows)
        return Table(oid, found, fields, tuple(r[-1] for r in rows), key)

    def end_rows(self, table: Table, most: int) -> list[tuple[str | None, ...]]:
        """The first and last rows by the key, as texts."""
        last = most // 2
        first = self._rows_by_key(table, most - last, "ASC")
        known = {tuple(row[p] for p in table.key_places) for row in first}
        behind = reversed(self._rows_by_key(table, last, "DESC")) if last else ()
        return [*first, *(row for row in behind if tuple(row[p] for p in table.key_places) not in known)]

    def _rows_by_key(self, table: Table, most: int, direction: str) -> list[tuple[str | None, ...]]:
        columns = sql.SQL(", ").join(sql.Identifier(f.name) for f in table.fields)
        order = sql.SQL(", ").join(sql.Identifier(k) + sql.SQL(f" {direction}") for k in table.key)
        text = sql.SQL("COPY (SELECT {} FROM {} ORDER BY {} LIMIT {}) TO STDOUT").format(
            columns, sql.Identifier(self.schema, table.name), order, sql.Literal(most)
        )
        with self.told(), self.connection.cursor().copy(text) as copy:
            return list(copy.rows())

    # -- publication and slot -----------------------------------------------------------------------------------------

    def check_publication(self, tables: list[Table]) -> tuple[Any, ...]:
        """What the publication is: another answer later means that changes may have been skipped. Raises B6224."""
        ((level,),) = self.ask("SELECT current_setting('wal_level')")
        if level != "logical":
            hint = "set `wal_level = logical` and start the server again"
            raise fail("B6224", f'the server of source "{self.source}" has wal_level = {level}', hint=hint)
        made = self.publication_statement(t.name for t in tables)
        text = """SELECT oid::int8, pubinsert AND pubupdate AND pubdelete AND pubtruncate, pubviaroot
                  FROM pg_publication WHERE pubname = %s"""
        found = self.ask(text, self.publication)
        if not found:
            raise fail(
                "B6224", f'source "{self.source}" has no publication "{self.publication}"', hint=f"the owner runs: {made}"
            )
        if not found[0][1]:
            raise fail(
                "B6224", f'the publication "{self.publication}" leaves kinds of changes out', hint=f"make it anew: {made}"
            )
        text = """SELECT tablename, attnames::text, rowfilter FROM pg_publication_tables
                  WHERE pubname = %s AND schemaname = %s ORDER BY 1"""
        published = {name: more for name, *more in self.ask(text, self.publication, self.schema)}
        missing = [t.name for t in tables if t.name not in published]
        if missing:
            hint = f"the owner runs: {self.addition_statement(missing[:1])}"
            raise fail("B6224", f'the publication "{self.publication}" has no table "{missing[0]}"', hint=hint)
        return (found[0], {t.name: published[t.name] for t in tables})

    def publication_statement(self, tables: Iterable[str]) -> str:
        """What the owner of these tables runs."""
        return (
            f"CREATE PUBLICATION {self.publication} FOR TABLE {self._listed(tables)} WITH (publish_via_partition_root = true)"
        )

    def addition_statement(self, tables: Iterable[str]) -> str:
        """The same for tables that the publication is to have too."""
        return f"ALTER PUBLICATION {self.publication} ADD TABLE {self._listed(tables)}"

    def _listed(self, tables: Iterable[str]) -> str:
        return ", ".join(f'"{self.schema}"."{t}"' for t in tables)

    def confirmed(self) -> int | None:
        """How far the slot was confirmed; None where there is none. Raises B6225 where it was lost."""
        text = (
            """SELECT (confirmed_flush_lsn - '0/0')::int8, wal_status, plugin FROM pg_replication_slots WHERE slot_name = %s"""
        )
        found = self.ask(text, self.slot)
        if not found:
            return None
        position, status, plugin = found[0]
        if plugin != "pgoutput":
            what = f"is of the plugin {plugin}" if plugin else "is a physical one"
            raise fail("B6222", f'the slot "{self.slot}" {what}', hint="name another one in `slot`")
        if status == "lost":
            raise lost_slot(self.source, f'the server has removed what the slot "{self.slot}" had still to read')
        return int(position)

    def create_slot(self) -> int:
        """Make the slot; changes from here on are kept for it."""
        text = "SELECT (lsn - '0/0')::int8 FROM pg_create_logical_replication_slot(%s, 'pgoutput')"
        ((position,),) = self.ask(text, self.slot)
        return int(position)

    def flushed(self) -> int:
        """The position up to which the log is on disk."""
        ((position,),) = self.ask("SELECT (pg_current_wal_flush_lsn() - '0/0')::int8")
        return int(position)

    def changes(self, to: int, most: int) -> list[tuple[int, bytes]]:
        """The messages of the slot up to a position, of whole transactions; they stay there."""
        text = """SELECT (lsn - '0/0')::int8, data FROM pg_logical_slot_peek_binary_changes(
                  %s, ('0/0'::pg_lsn + %s::numeric)::pg_lsn, %s, 'proto_version', '1', 'publication_names', %s)"""
        return [(int(p), bytes(d)) for p, d in self.ask(text, self.slot, to, most, self.publication, binary=True)]

    def advance(self, to: int) -> None:
        """The slot need not keep what is before a position."""
        self.ask("SELECT pg_replication_slot_advance(%s, ('0/0'::pg_lsn + %s::numeric)::pg_lsn)::text", self.slot, to)


def lost_slot(source: str, what: str) -> BelvedereError:
    """The diagnostic B6225."""
    hint = "changes are gone: drop the slot and begin with a new store, which reads the tables anew"
    return fail("B6225", f'source "{source}": {what}', hint=hint)


def _type(name: str, modifier: int) -> pa.DataType:
    if name == "numeric":
        if modifier < 4:
            return WIDEST
        precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0xFFFF
        fits = precision <= 38 and 0 <= scale <= precision
        return pa.decimal128(precision, scale) if fits else pa.string()
    return TYPES.get(name, pa.string())
