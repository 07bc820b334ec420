"""Postgres: a server.

Uses native types if they are exact. Strings compare by code point in every locale. The driver is loaded when a
connection is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from belvedere.schema import MONTHS
from belvedere.store.dialects import cursor_codec as taken_back
from belvedere.store.dialects.codec import form
from belvedere.store.dialects.database import Database
from belvedere.store.dialects.dialect import (
    DIGITS_MOST,
    MEAN_DIGITS,
    Made,
    Pair,
    Patterns,
    is_binary,
    literal,
    null_order,
)
from belvedere.store.dialects.faults import FaultRule
from belvedere.store.dialects.member_values import postgres_member
from belvedere.store.dialects.postgres.postgres_rows import escaped, unescaped
from belvedere.store.dialects.stored_form import StoredForm, TypeNames, casting, is_text
from belvedere.store.protocol import AnsweringReader, Reader, Snapshot
from belvedere.store.read.query import Operator, Role, Sort
from belvedere.store.system import LEASE

if TYPE_CHECKING:
    from belvedere.store.dialects.postgres.postgres_session import PostgresSession

types = pa.types

_FAULTS = (
    FaultRule(r"disk full|no space left|SQLSTATE: 53100", "B7003", "the store's disk is full",
              "free some space; the store is at its last committed epoch"),
    FaultRule(r"deadlock detected|lock timeout", "B7004", "another process has locked the store",
              "stop the process that uses the store, or choose another --store"),
    FaultRule(r"read-only|permission denied|SQLSTATE: 42501|SQLSTATE: 25006", "B7001", "the store cannot be written",
              "give this user the right to write to the database, or choose another --store"),
    FaultRule(r"password authentication|no pg_hba|role .* does not exist|SQLSTATE: 28", "B7020",
              "the Postgres server refuses the login", "check user and password in the store's URL"),
    FaultRule(r'database ".*" does not exist|SQLSTATE: 3D000', "B7020", "the Postgres database does not exist",
              "create it with createdb, or correct the store's URL"),
    FaultRule(r"terminating connection|idle-in-transaction timeout|SQLSTATE: 57P0[1245]|SQLSTATE: 25P0[34]|"
              r"server closed the connection|"
              r"SSL connection has been closed|connection reset|broken pipe",
              "B7005", "the Postgres server has ended the connection",
              "see the server's log: it was restarted, or a user or a timeout ended the session"),
    FaultRule(r"could not connect|connection refused|could not translate|connection to server|server closed|"
              r"no connection|"
              r"could not receive|could not send|SQLSTATE: 57P|SQLSTATE: 08|connection is closed|not open",
              "B7005", "the Postgres server cannot be reached",
              "check that the server runs, and that the store's URL has its host and port"),
    FaultRule(r"no schema has been selected|SQLSTATE: 3F000", "B7020", "the schema in the store's URL does not exist",
              "create it by CREATE SCHEMA, or correct `search_path` in the URL"),
    FaultRule(r"duplicate key value", "B7010", "a row with the same key is already stored"),
    FaultRule(r"violates not-null", "B7011", "a row has no key"),
    FaultRule(r"index row (size|requires)|index row exceeds", "B7025",
              "an indexed value is too long for Postgres, which takes 2700 bytes",
              "drop indexes on stored tables that Belvedere did not create; its own indexes accept long values"),
    FaultRule(r"too many columns|at most 1600 columns", "B7012", "a view has more columns than the store can hold",
              "select fewer columns"),
    FaultRule(r"SQLSTATE: 22|: ERROR: .* out of range", "B7088", "a value is out of Postgres' range"),
    FaultRule((r"other objects depend on "
r"it"), "B7026", ("a database object that is not Belvedere's depends on a view or table of the "
"store"),
              "drop the object (the database's message names it), start, and create it again"),
    FaultRule(r"statement timeout|SQLSTATE: 57014", "B7086", "the read took too long", "request less data"),
    FaultRule(r"(relation|column) .* does not exist", "B7014", "a table or column is missing in the store",
              "run the script again to build it, or choose another --store"),
)  # fmt: skip

_TEXT = 'text COLLATE "C"'
_CHARACTER = "(?:[^\x01]|\x01.)"
"""Regular expression of one character in its stored form: U+0000 and U+0001 are pairs."""


class Postgres(Database):
    """The dialect of Postgres."""

    name = "postgres"
    urls = ("postgresql://", "postgres://")
    for_reads = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    names = TypeNames(integer="bigint", double="double precision", text=_TEXT, blob="bytea")
    comparisons = {
        Operator.LIKE: "{column} ~ {value}",
        Operator.ILIKE: "{column} ~ {value}",
        Operator.STARTS_WITH: "starts_with({column},{value})",
        Operator.CONTAINS: "strpos({column},{value})>0",
    }
    patterns = Patterns(f"{_CHARACTER}*", _CHARACTER, special=".*+?()[]{}|^$\\", escaped="\\{}", whole="(?s)^{}$")
    faults = _FAULTS
    clock = "(TIMESTAMPTZ 'epoch' + {} * INTERVAL '1 microsecond')"
    first_start = ("SELECT pg_advisory_xact_lock(7240511)::text",)
    for_lease = f"LOCK TABLE {LEASE} IN EXCLUSIVE MODE"
    fence = " OFFSET 0"
    for_update = " FOR UPDATE"

    # stored forms

    def native(self, type_: pa.DataType) -> StoredForm | None:
        if types.is_boolean(type_):
            return casting("boolean", type_, type_)
        if types.is_int8(type_) or types.is_int16(type_) or types.is_uint8(type_):
            return casting("smallint", type_, pa.int16())
        if types.is_int32(type_) or types.is_uint16(type_):
            return casting("integer", type_, pa.int32())
        if types.is_float16(type_) or types.is_float32(type_):
            return casting("real", type_, pa.float32())
        if types.is_decimal(type_) and type_.precision <= 38 and type_.scale >= 0:
            flat = pa.decimal128(type_.precision, type_.scale)
            return casting(f"numeric({type_.precision},{type_.scale})", type_, flat)
        if types.is_date(type_):
            return casting("date", type_, pa.date32())
        if types.is_timestamp(type_) and type_.unit == "us":
            flat = pa.timestamp("us", tz="UTC") if type_.tz else pa.timestamp("us")
            return casting("timestamptz" if type_.tz else "timestamp", type_, flat)
        if is_text(type_):
            return StoredForm(
                _TEXT, pa.string(), lambda a: escaped(a.cast(pa.string())), lambda a: unescaped(a).cast(type_)
            )
        return None

    def stored(self, value: Any, type_: pa.DataType, role: Role) -> Any:
        match value:
            case Decimal():
                return format(value, "f")
            case timedelta():
                return value // timedelta(microseconds=1)
            case datetime() | date():
                return value.isoformat()
            case str():
                return self.escape(value)
        return value

    def escape(self, text: str) -> str:
        return text.replace("\x01", "\x01\x02").replace("\x00", "\x01\x01")

    def unescape(self, text: str) -> str:
        return text.replace("\x01\x01", "\x00").replace("\x01\x02", "\x01")

    def marker(self, number: int) -> str:
        return f"${number}"

    def bound(self, marker: str, type_: pa.DataType) -> str:
        return f"CAST({marker} AS {self._type(type_)}){self._collation(type_)}"

    def from_stored_text(self, marker: str, type_: pa.DataType) -> str:
        return self.bound(f"CAST({marker} AS text)", type_)

    def _type(self, type_: pa.DataType) -> str:
        """Return the type in which a value compares."""
        if types.is_integer(type_) or types.is_time(type_) or types.is_duration(type_):
            return "bigint"
        if types.is_floating(type_):
            return "double precision"
        if types.is_decimal(type_):
            return "numeric"
        sql = form(self, type_).sql
        return "text" if sql == _TEXT else sql

    def _collation(self, type_: pa.DataType) -> str:
        return ' COLLATE "C"' if self._type(type_) == "text" else ""

    # values as text

    def json_string(self, sql: str) -> str:
        """Return a string as JSON text.

        U+0000 and U+0001 are stored as pairs (`escape`); they are rare, so a test comes first.
        """
        plain = f"to_json({sql})::text"
        restored = f"replace(replace({plain},'\\u0001\\u0001','\\u0000'),'\\u0001\\u0002','\\u0001')"
        return f"CASE WHEN {sql} IS NULL THEN 'null' WHEN strpos({sql},chr(1))=0 THEN {plain} ELSE {restored} END"

    def plain_text(self, sql: str, type_: pa.DataType) -> str:
        if types.is_floating(type_):
            return f"CASE WHEN {sql} NOT IN ('NaN','Infinity','-Infinity') THEN ({sql})::text END"
        if types.is_timestamp(type_):
            return self._timestamp(sql, type_)
        if is_binary(type_):
            return f"encode({sql},'hex')"
        return f"({sql})::text"

    def _timestamp(self, sql: str, type_: pa.DataType) -> str:
        local = f"(({sql}) AT TIME ZONE 'UTC')" if type_.tz else f"({sql})"
        whole = f"""to_char({local},'YYYY-MM-DD"T"HH24:MI:SS')"""
        fraction = (
            f"CASE WHEN extract(microseconds FROM {local})::bigint%1000000=0 THEN '' ELSE to_char({local},'.US') END"
        )
        return f"{whole}||{fraction}||'Z'"

    def readable(self, sql: str, type_: pa.DataType) -> str:
        if type_ == MONTHS:
            return f"make_interval(months=>CAST({sql} AS integer))"
        if types.is_duration(type_):
            return f"({sql}*INTERVAL '1 microsecond')"
        return f"CAST({sql} AS json)" if types.is_nested(type_) else sql

    def stored_text(self, sql: str, type_: pa.DataType) -> str:
        return f"coalesce(to_json(({sql})::text)::text,'null')"

    def taken_back(self, value: Any, type_: pa.DataType) -> str:
        """Return the text unchanged: Postgres itself parses it."""
        if "\0" in taken_back.text(value):
            raise ValueError
        return str(value)

    def member(self, sql: str, path: Sequence[str]) -> str:
        """Return a member's JSON text.

        Postgres cannot follow a path in JSON with U+0000. U+0000 and backslashes are therefore replaced by escapes that
        no stored text contains.
        """
        where = ",".join(map(literal, path))
        plain = f"(CAST({sql} AS json)#>ARRAY[{where}])::text"
        without = rf"replace(replace({sql},'\\','\u005c'),'\u0000','\u0041')"
        found = f"(CAST({without} AS json)#>ARRAY[{where}])::text"
        restored = rf"replace(replace({found},'\u0041','\u0000'),'\u005c','\\')"
        return rf"nullif(CASE WHEN strpos({sql},'\u0000')=0 THEN {plain} ELSE {restored} END,'null')"

    def member_value(self, sql: str, name: str, type_: pa.DataType) -> str | None:
        return postgres_member(sql, name, type_)

    def array(self, row: str) -> str:
        return f"'['||coalesce(string_agg({row},','),'')||']'"

    def six_digits(self, number: str) -> str:
        return f"lpad(({number})::text,6,'0')"

    def hexadecimal(self, sql: str) -> str:
        return f"upper(encode(convert_to({sql},'UTF8'),'hex'))"

    # comparisons

    def column(self, sql: str, type_: pa.DataType) -> str:
        return sql + self._collation(type_)

    def same(self, left: str, right: str) -> str:
        return f"{left} IS NOT DISTINCT FROM {right}"

    def equal(self, pair: Pair) -> str:
        """Return an equality of arrays, in which NULLs are equal and which Postgres can hash.

        IS NOT DISTINCT FROM would compare every pair of rows.
        """
        if not pair.with_nulls:
            return f"{pair.own}={pair.other}"
        kind = pair.type.partition(" COLLATE ")[0]  # no array of INTEGERs is compared with one of BIGINTs
        return f"CAST(ARRAY[{pair.own}] AS {kind}[])=CAST(ARRAY[{pair.other}] AS {kind}[])"

    def order(self, column: str, sort: Sort, nullable: bool = True) -> str:
        return column + (null_order(sort) if nullable else " DESC" if sort.descending else "")

    def least(self, left: str, right: str) -> str:
        return f"least({left},{right})"

    # expressions

    def boolean(self, value: bool) -> str:
        return str(value).upper()

    def decimal(self, unscaled: int, type_: pa.DataType) -> str:
        number = format(Decimal(unscaled).scaleb(-type_.scale, Context(prec=60)), "f")
        return f"CAST({number} AS numeric({type_.precision},{type_.scale}))"

    def instant(self, microseconds: int) -> str:
        seconds, rest = divmod(microseconds, 1_000_000)
        return f"(TIMESTAMPTZ 'epoch' + INTERVAL '{seconds} seconds {rest} microseconds')"

    def day(self, days: int) -> str:
        return f"(DATE '1970-01-01'+({days}))"

    def shifted(self, sql: str, operator: str, microseconds: int) -> str:
        return f"({sql}{operator}INTERVAL '{microseconds} microseconds')"

    def whole(self, sql: str, type_: pa.DataType) -> str:
        """Return integer arithmetic. Postgres has no TINYINT: a SMALLINT overflows where 256 times the value does."""
        return f"CAST(CAST(({sql})*256 AS smallint)/256 AS smallint)" if types.is_int8(type_) else sql

    def widened(self, sql: str, type_: pa.DataType) -> str:
        return f"CAST({sql} AS {_WIDE[type_]})"

    def total(self, function: str, sql: str, type_: pa.DataType) -> str:
        if types.is_integer(type_):
            return f"CAST({function}({sql}) AS {'bigint' if function == 'sum' else 'double precision'})"
        if types.is_decimal(type_):
            return f"{function}({sql})"
        total = f"sum(CAST({sql} AS double precision))"  # `avg` fails where squares of the numbers are beyond a double
        return total if function == "sum" else f"{total}/count({sql})"

    def mean(self, sql: str, type_: pa.DataType) -> str:
        pieces, value = self.decimal_mean(sql, type_)
        return value(pieces)

    def decimal_sum(self, sql: str, type_: pa.DataType) -> Made:
        digits = min(DIGITS_MOST, type_.precision + 10)
        return (f"sum({sql})",), lambda pieces: f"CAST({pieces[0]} AS numeric({digits},{type_.scale}))"

    def decimal_mean(self, sql: str, type_: pa.DataType) -> Made:
        """Return the average from integers up to the last step: a division of numeric would round at an unspecified
        digit."""
        digits, scale = (min(DIGITS_MOST, size + MEAN_DIGITS) for size in (type_.precision, type_.scale))

        def value(pieces: tuple[str, ...]) -> str:
            total, n = pieces
            units = f"sign({total})*div(abs({total})*{2 * 10**scale}+{n},2*{n})"
            return f"CAST({units}*CAST('1e-{scale}' AS numeric) AS numeric({digits},{scale}))"

        return (f"sum({sql})", f"count({sql})"), value

    def extreme(self, function: str, sql: str, type_: pa.DataType) -> str:
        if types.is_boolean(type_):
            return f"{'bool_and' if function == 'min' else 'bool_or'}({sql})"
        return super().extreme(function, sql, type_)

    # connections

    def session(self, url: str) -> PostgresSession:
        from belvedere.store.dialects.postgres.postgres_session import PostgresSession  # loads the driver

        return PostgresSession(self, url)

    def reader(self, url: str, seconds: float | None = None) -> Reader:
        from belvedere.store.dialects.postgres.postgres_reader import PostgresReader  # loads the driver

        return PostgresReader(self, url, _reading(seconds))

    def served_reader(self, url: str, seconds: float | None, connections: int) -> AnsweringReader:
        from belvedere.store.dialects.postgres.postgres_served import ServedPostgresReader  # loads the driver

        return ServedPostgresReader(self, url, _reading(seconds), seconds, connections)

    def snapshot(self, url: str) -> Snapshot:
        from belvedere.store.dialects.postgres.postgres_copies import PostgresSnapshot  # loads the driver

        return PostgresSnapshot(self, url)

    def put_back(self, url: str, folder: Path, documents: Mapping[str, str]) -> None:
        from belvedere.store.dialects.postgres.postgres_copies import put_back  # loads the driver

        put_back(self, url, folder, documents)

    def check_free(self, url: str) -> None:
        from belvedere.store.dialects.postgres.postgres_copies import check_free  # loads the driver

        check_free(self, url)


def _reading(seconds: float | None) -> tuple[str, ...]:
    """Return the settings of a session that reads."""
    bounded = () if seconds is None else (f"SET statement_timeout = {int(seconds * 1000)}",)
    return ("SET default_transaction_read_only = on", "SET TimeZone = 'UTC'", "SET jit = off", *bounded)


_WIDE = {pa.int32(): "integer", pa.int64(): "bigint", pa.float64(): "double precision"}
