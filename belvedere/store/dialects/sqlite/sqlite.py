"""SQLite: a file, read by many processes and written by one.

Timestamps and decimals are integers, NaN is a text (`belvedere.store.dialects.codec`). Strings compare by their bytes.
The drivers are loaded when a connection is made.
"""

from __future__ import annotations

import atexit
import math
import shutil
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from belvedere.errors import fail
from belvedere.process.temporary_folders import temporary_folder
from belvedere.store.dialects import cursor_codec as taken_back
from belvedere.store.dialects.database import Database
from belvedere.store.dialects.dialect import MEAN_DIGITS, Made, Pair, Patterns, is_binary, literal, null_order
from belvedere.store.dialects.faults import FaultRule
from belvedere.store.dialects.member_values import sqlite_member
from belvedere.store.dialects.sqlite.python_sqlite import IS_EXACT
from belvedere.store.dialects.sqlite.sqlite_decimal_sums import mean_of_decimals, mean_of_integers, sum_of_decimals
from belvedere.store.dialects.sqlite.sqlite_decimals import (
    DIGITS,
    DIGITS_OF_INTEGERS,
    comparable_sql,
    decimal_form,
    decimal_to_text_sql,
    stored_decimals,
)
from belvedere.store.dialects.sqlite.sqlite_libraries import ADBC, is_open
from belvedere.store.dialects.stored_form import StoredForm, TypeNames, casting, is_text
from belvedere.store.protocol import Reader, Snapshot
from belvedere.store.read.query import Operator, Role, Sort
from belvedere.store.read.shared_sets import Sets
from belvedere.values.instants import microseconds

if TYPE_CHECKING:
    from belvedere.store.dialects.sqlite.sqlite_session import SqliteSession

types = pa.types

_FILE = "sqlite:///"
_TEMPORARY = "sqlite://"
_HINT = "write sqlite:///file.db, or sqlite:// for a temporary file"

HALF_A_FLOAT = 2.0**-25
"""Relative distance below which a number is read as the nearest 32-bit float."""

_FAULTS = (
    FaultRule(r"disk is full|disk full|no space left", "B7003", "the store's disk is full",
              "free some space; the store is at its last committed epoch"),
    FaultRule(r"not a database|malformed|SQLITE_CORRUPT|file is encrypted", "B7002",
              "the store's file is damaged or not an SQLite file",
              "restore it from a backup; a new --store is rebuilt from files, without pushed rows"),
    FaultRule(r"database (table )?is locked|SQLITE_BUSY", "B7004", "another process has locked the store",
              "stop the process that uses the store, or choose another --store"),
    FaultRule(r"readonly database|read-only|permission denied", "B7001", "the store cannot be written",
              "give this user the right to write to the store's file and folder, or choose another --store"),
    FaultRule(r"unable to open database", "B7001", "the store's file cannot be opened",
              "check that the folder exists and that this user can write to it"),
    FaultRule(r"disk I/O error", "B7003", "the store's disk fails to read or write",
              "check the disk and its free space"),
    FaultRule(r"UNIQUE constraint failed", "B7010", "a row with the same key is already stored"),
    FaultRule(r"NOT NULL constraint failed", "B7011", "a row has no key"),
    FaultRule(r"too many (columns|SQL variables)", "B7012", "a view has more columns than the store can hold",
              "select fewer columns"),
    FaultRule(r"^interrupted", "B7086", "the read took too long", "request less data"),
    FaultRule(r"parser stack overflow|Expression tree is too large|at most 64 tables", "B7087",
              ("the read is nested too deeply for this "
"SQLite"), ("reduce the nesting; SQLite 3.46 and Postgres have no such "
"limit")),
    FaultRule(r"integer overflow", "B7088", "a value is out of SQLite's range"),
    FaultRule(r"no such (table|column)", "B7014", "a table or column is missing in the store",
              "run the script again to build it, or choose another --store"),
)  # fmt: skip


_WHOLE = r"json_extract(replace(replace(json_quote({column}),'\\','\u005c'),'\u0000','\uffff'),'$')"
_GLOB = f"CASE WHEN instr({{column}},char(0))=0 THEN {{column}} ELSE {_WHOLE} END GLOB {{value}}"
"""GLOB pattern match. GLOB ends a text at its first U+0000, so U+0000 is replaced by U+FFFF, which is not a character.
"""
EXACT_DIGITS = 15
"""Number of digits with which a double represents each decimal so that it reads back unchanged."""


class Sqlite(Database):
    """The dialect of SQLite."""

    name = "sqlite"
    urls = ("sqlite:",)
    # no type for doubles: the affinity REAL would make 0.0 of -0.0
    lies_by_number = True
    names = TypeNames(integer="INTEGER", double="", text="TEXT", blob="BLOB")
    comparisons = {
        Operator.LIKE: _GLOB,
        Operator.ILIKE: _GLOB,
        Operator.STARTS_WITH: "substr({column},1,length({value}))={value}",
        Operator.CONTAINS: "instr({column},{value})>0",
    }
    patterns = Patterns("*", "?", special="*?[", escaped="[{}]", whole="{}", unsaid="\0\uffff")
    faults = _FAULTS
    clock = "{}"
    near = True
    fence = " LIMIT -1"

    # stored forms

    def native(self, type_: pa.DataType) -> StoredForm | None:
        if types.is_boolean(type_):
            return casting("INTEGER", type_, pa.int64())
        if types.is_date(type_):
            return casting("INTEGER", type_, pa.date32(), pa.int32(), pa.int64())
        if types.is_decimal(type_) and type_.precision <= DIGITS and type_.scale >= 0:
            return stored_decimals(type_)
        return None

    def stored(self, value: Any, type_: pa.DataType, role: Role) -> Any:
        match value:
            case bool():
                return int(value)
            case float():
                return "NaN" if math.isnan(value) else value
            case Decimal():
                return decimal_form(type_).compared(value, role)
            case datetime():
                return microseconds(value)
            case timedelta():
                return value // timedelta(microseconds=1)
            case date():
                return (value - date(1970, 1, 1)).days
        return value

    def marker(self, number: int) -> str:
        return "?"

    def bound(self, marker: str, type_: pa.DataType) -> str:
        """Return a parameter with a sign.

        For a bare parameter, SQLite's planner reads its value and replans for each new value.
        """
        return f"+{marker}"

    # values as text

    def json_string(self, sql: str) -> str:
        return f"json_quote({sql})"

    def plain_text(self, sql: str, type_: pa.DataType) -> str:
        if types.is_boolean(type_):
            return f"CASE {sql} WHEN 1 THEN 'true' WHEN 0 THEN 'false' END"
        if types.is_floating(type_):
            return self._double(sql, type_)
        if types.is_timestamp(type_):
            return self._timestamp(sql)
        if types.is_date(type_):
            return f"date({sql}*86400,'unixepoch')"
        if types.is_decimal(type_):
            return decimal_to_text_sql(sql, type_)
        if is_binary(type_):
            return f"CASE WHEN {sql} IS NOT NULL THEN lower(hex({sql})) END"
        return sql

    def _double(self, sql: str, type_: pa.DataType) -> str:
        """Return the fewest digits that represent the number exactly.

        SQLite's own JSON functions write 15, which loses precision.

        `format` is SQLite's printf. `FileReader` replaces it by a function that is exact in every library and supports
        32-bit floats.
        """
        finite = f"typeof({sql})='real' AND abs({sql})<=1.7976931348623157e308"
        if types.is_float64(type_):
            exact = "printf" if IS_EXACT else "format"
            tries = [f"printf('%!.15g',{sql})", f"{exact}('%!.16g',{sql})"]
            forms = " ".join(f"WHEN CAST({t} AS REAL)={sql} THEN {t}" for t in tries)
            return f"CASE WHEN {finite} THEN CASE {forms} ELSE {exact}('%!.17g',{sql}) END END"
        tries = [f"format('%!.{digits}g',{sql})" for digits in range(6, 9)]
        near = " ".join(f"WHEN abs(CAST({t} AS REAL)-{sql})<=abs({sql})*{HALF_A_FLOAT!r} THEN {t}" for t in tries)
        return f"CASE WHEN {finite} THEN CASE {near} ELSE format('%!.9g',{sql}) END END"

    def _timestamp(self, sql: str) -> str:
        """Return a timestamp by `datetime`, which was measured ten times as fast as `strftime`."""
        micros = f"(({sql}%1000000)+1000000)%1000000"
        whole = f"replace(datetime({sql}/1000000,'unixepoch'),' ','T')||'Z'"
        exact = f"replace(datetime(({sql}-{micros})/1000000,'unixepoch'),' ','T')||printf('.%06dZ',{micros})"
        return f"CASE WHEN {sql}%1000000=0 THEN {whole} ELSE {exact} END"

    def readable(self, sql: str, type_: pa.DataType) -> str:
        """Return the value for other tools.

        Decimals are numbers if 15 digits represent them exactly, as in a double; else they are texts.
        """
        if types.is_boolean(type_):
            return self.plain_text(sql, type_)
        if types.is_timestamp(type_):  # sorts as the times do; times beyond the year 9999 stay numbers
            return f"coalesce(replace(rtrim({self._timestamp(sql)},'Z'),'T',' '),{sql})"
        if types.is_date(type_):
            return f"coalesce({self.plain_text(sql, type_)},{sql})"
        if types.is_duration(type_):
            return self._duration(sql, type_)
        if types.is_decimal(type_) and (type_.scale or type_.precision > DIGITS_OF_INTEGERS):
            digits = "length(ltrim(replace(ltrim(x,'-'),'.',''),'0'))"
            most, number = (EXACT_DIGITS, "REAL") if type_.scale else (DIGITS_OF_INTEGERS, "INTEGER")
            text = self.plain_text(sql, type_)
            return f"(SELECT CASE WHEN {digits}<={most} THEN CAST(x AS {number}) ELSE x END FROM (SELECT {text} AS x))"
        return sql

    def stored_text(self, sql: str, type_: pa.DataType) -> str:
        if types.is_floating(type_):
            infinite = f"WHEN abs({sql})>1.7976931348623157e308 THEN CASE WHEN {sql}>0 THEN '1e999' ELSE '-1e999' END"
            exact = f"printf('%!.17g',{sql})"
            return f"CASE WHEN typeof({sql})<>'real' THEN json_quote({sql}) {infinite} ELSE {exact} END"
        if is_binary(type_):
            return f"""CASE WHEN {sql} IS NULL THEN 'null' ELSE '"'||hex({sql})||'"' END"""
        return f"json_quote({sql})"

    def taken_back(self, value: Any, type_: pa.DataType) -> Any:
        if types.is_floating(type_):
            return taken_back.double(value)
        if is_binary(type_):
            return bytes.fromhex(value)
        if types.is_decimal(type_) and isinstance(value, str):
            return taken_back.text(value)
        kept_as_text = is_text(type_) or types.is_nested(type_) or types.is_interval(type_)
        return taken_back.text(value) if kept_as_text else taken_back.whole(value)

    def member(self, sql: str, path: Sequence[str]) -> str:
        where = literal("$" + "".join(f'."{name}"' for name in path))
        return f"nullif({sql}->{where},'null')"

    def member_value(self, sql: str, name: str, type_: pa.DataType) -> str | None:
        return sqlite_member(sql, name, type_)

    def array(self, row: str) -> str:
        # for no row printf writes nothing; it nests less than coalesce, and SQLite's parser has a small stack
        return f"printf('[%s]',group_concat({row},','))"

    def six_digits(self, number: str) -> str:
        return f"printf('%06d',{number})"

    def hexadecimal(self, sql: str) -> str:
        return f"hex({sql})"

    # comparisons

    def same(self, left: str, right: str) -> str:
        return f"{left} IS {right}"

    def is_among(self, pairs: Sequence[Pair], rows: str, sets: Sets, negated: bool) -> str:
        """Return a test of membership in a set.

        With EXISTS, SQLite would read all of `rows` for each row if no index finds them.
        """
        own = ",".join(_as_member(p.own, p.with_nulls) for p in pairs)
        others = ",".join(_as_member(p.other, p.with_nulls) for p in pairs)
        # the types with which SQLite compares the expressions; otherwise it does not use the set's own index
        types = [t for p in pairs for t in (("", "") if p.with_nulls else (p.type,))]
        return f"({own}) IN {sets.named(f'SELECT {others} FROM {rows}', types)}{' IS NOT TRUE' if negated else ''}"

    def order(self, column: str, sort: Sort, nullable: bool = True) -> str:
        if sort.nulls_first is not sort.descending or not nullable:
            return f"{column}{' DESC' if sort.descending else ''}"  # SQLite's own placement: an index can give it
        return column + null_order(sort)

    def least(self, left: str, right: str) -> str:
        return f"min({left},{right})"

    # expressions

    def boolean(self, value: bool) -> str:
        return str(int(value))

    def decimal(self, unscaled: int, type_: pa.DataType) -> str:
        stored = decimal_form(type_).encode(unscaled)
        return str(stored) if isinstance(stored, int) else literal(stored)

    def comparable_decimal(self, sql: str, type_: pa.DataType, digits: int, scale: int) -> str:
        return comparable_sql(sql, type_, digits, scale)

    def instant(self, microseconds: int) -> str:
        return str(microseconds)

    def day(self, days: int) -> str:
        return f"({days})"

    def shifted(self, sql: str, operator: str, microseconds: int) -> str:
        return f"({sql}{operator}{microseconds})"

    def widened(self, sql: str, type_: pa.DataType) -> str:
        return f"CAST({sql} AS REAL)" if types.is_floating(type_) else sql

    def whole(self, sql: str, type_: pa.DataType) -> str:
        """Return integer arithmetic with Spark's overflow error. SQLite would turn an overflow into a double."""
        most = 2 ** (type_.bit_width - 1) - 1
        overflow = "abs(-9223372036854775807-1)"
        fits = f"typeof({sql})='integer' AND {sql} BETWEEN -{most}-1 AND {most}"
        return f"CASE WHEN {sql} IS NULL OR ({fits}) THEN {sql} ELSE {overflow} END"

    def total(self, function: str, sql: str, type_: pa.DataType) -> str:
        if types.is_integer(type_):
            return f"{function}({sql})"
        if types.is_decimal(type_):
            total = pa.decimal128(DIGITS_OF_INTEGERS, type_.scale)
            return comparable_sql(f"sum({sql})", total, type_.precision + 10, type_.scale)
        nan = f"sum(typeof({sql})='text')>0 OR (max({sql})=9e999 AND min({sql})=-9e999)"
        return f"CASE WHEN {nan} THEN 'NaN' ELSE {function}({sql}) END"

    def mean(self, sql: str, type_: pa.DataType) -> str:
        return mean_of_integers(f"sum({sql})", f"count({sql})", MEAN_DIGITS)

    def decimal_sum(self, sql: str, type_: pa.DataType) -> Made:
        return sum_of_decimals(sql, type_)

    def decimal_mean(self, sql: str, type_: pa.DataType) -> Made:
        return mean_of_decimals(sql, type_)

    # connections

    def session(self, url: str) -> SqliteSession:
        from belvedere.store.dialects.sqlite.sqlite_session import SqliteSession  # loads the driver

        path = _temporary() if url == _TEMPORARY else self.file(url)
        if not path.parent.is_dir():
            hint = "create the folder, or choose another --store"
            raise fail("B7001", f"the folder {path.parent} of the store does not exist", hint=hint)
        if path.is_dir():
            raise fail("B7001", f"the store {path} is a folder", hint="name a file in it, such as sqlite:///store.db")
        return SqliteSession(self, path, durable=url != _TEMPORARY)

    def reader(self, url: str, seconds: float | None = None) -> Reader:
        path = self.file(url)
        if is_open(ADBC, path):
            from belvedere.store.dialects.sqlite.sqlite_adbc_reader import AdbcReader  # loads the driver

            return AdbcReader(self, path, url)
        from belvedere.store.dialects.sqlite.sqlite_reader import FileReader  # loads the driver

        return FileReader(self, path, url, seconds)

    def snapshot(self, url: str) -> Snapshot:
        from belvedere.store.dialects.sqlite.sqlite_copies import SqliteSnapshot  # loads the driver

        return SqliteSnapshot(self, self.file(url), url)

    def put_back(self, url: str, folder: Path, documents: Mapping[str, str]) -> None:
        from belvedere.store.dialects.sqlite.sqlite_copies import put_back  # loads the driver

        put_back(self, self.file(url), url, folder, documents)

    def check_free(self, url: str) -> None:
        from belvedere.store.dialects.sqlite.sqlite_copies import check_free  # loads the driver

        check_free(self.file(url))

    def file(self, url: str) -> Path:
        if not url.startswith(_FILE) or url == _FILE:
            raise fail("B7019", f"{url} is not the URL of a store", hint=_HINT)
        return Path(url.removeprefix(_FILE)).absolute()

    def located(self, url: str, folder: Path) -> str:
        return _FILE + str(folder / url.removeprefix(_FILE)) if url.startswith(_FILE) else url

    def files(self, url: str) -> tuple[Path, ...]:
        path = self.file(url)
        if is_open(ADBC, path):
            raise fail("B7004", f"the store {path} is still open", hint="close it first")
        return tuple(Path(f"{path}{end}") for end in ("", "-wal", "-shm"))


def _temporary() -> Path:
    folder = temporary_folder("store-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder / "store.db"


def _as_member(column: str, with_nulls: bool) -> str:
    """Return the form of a column that is compared with a set, in which NULL differs from NULL."""
    return f"{column} IS NULL,ifnull({column},0)" if with_nulls else column
