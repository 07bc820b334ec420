"""How the two SQL dialects say what a read needs: a stored value as JSON text, a comparison, an order, an array of rows.

In: SQL of stored values and their Arrow types. Out: SQL. The JSON is built as text by concatenation: it has no limit on the
number of fields, loses no JSON subtype through subqueries, and was measured a third faster than SQLite's JSON functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from belvedere.store.codec import decimal_to_text_sql
from belvedere.store.query import Operator, Sort

types = pa.types


def literal(text: str) -> str:
    """A string literal: both dialects take standard strings (Postgres: `standard_conforming_strings`)."""
    return "'" + text.replace("'", "''") + "'"


_LONGEST_CHAIN = 100


def concatenation(parts: Sequence[str]) -> str:
    """`||` without needless brackets: SQLite bounds an expression's depth at 1000, and its parser's stack at 100."""
    if len(parts) <= _LONGEST_CHAIN:
        return "||".join(parts)
    chunks = [parts[i : i + _LONGEST_CHAIN] for i in range(0, len(parts), _LONGEST_CHAIN)]
    return "||".join(f"({'||'.join(chunk)})" for chunk in chunks)


def joined(operator: str, parts: Sequence[str], empty: str) -> str:
    """Brackets around many parts: without them SQLite nests an expression as deep as it has parts."""
    if not parts:
        return empty
    if len(parts) > _LONGEST_CHAIN:
        chunks = [parts[i : i + _LONGEST_CHAIN] for i in range(0, len(parts), _LONGEST_CHAIN)]
        return joined(operator, [joined(operator, chunk, empty) for chunk in chunks], empty)
    return parts[0] if len(parts) == 1 else "(" + operator.join(parts) + ")"


def _is_length(type_: pa.DataType) -> bool:
    """Times of day and lengths of time: integers in the type's unit."""
    return bool(types.is_time(type_) or types.is_duration(type_))


class Forms(Protocol):
    """One dialect's way to say things."""

    dialect: str

    def json_text(self, sql: str, type_: pa.DataType) -> str:
        """The value as JSON text, never NULL: NULL, NaN and infinities are `null`."""

    def stored_text(self, sql: str, type_: pa.DataType) -> str:
        """The stored value as JSON text from which a cursor binds it again exactly; never NULL."""

    def bound(self, marker: str, type_: pa.DataType) -> str:
        """A placeholder as a value that compares with a column of the type."""

    def again(self, marker: str, type_: pa.DataType) -> str:
        """A placeholder for a value that `stored_text` gave out."""

    def column(self, sql: str, type_: pa.DataType) -> str:
        """A column as it is compared and ordered: by Spark's rules, not by a locale's."""

    def compare(self, operator: Operator, column: str, value: str) -> str: ...

    def same(self, left: str, right: str) -> str:
        """Equality that holds between NULLs."""

    def order(self, column: str, sort: Sort, nullable: bool = True) -> str:
        """One key of ORDER BY; without NULLs nothing is said of their place, so that an index can give the order."""

    def array(self, row: str) -> str:
        """All rows' JSON texts as one JSON array."""

    def string_length_prefix(self, number: str) -> str:
        """A number below a million as six digits."""

    def hexadecimal(self, sql: str) -> str: ...

    def least(self, left: str, right: str) -> str: ...


def _nulls(sort: Sort) -> str:
    return f"{' DESC' if sort.descending else ''} NULLS {'FIRST' if sort.nulls_first else 'LAST'}"


class SqliteForms:
    """SQLite: timestamps and decimals are integers, NaN is a text, see `belvedere.store.codec`."""

    dialect = "sqlite"

    def json_text(self, sql: str, type_: pa.DataType) -> str:
        if types.is_boolean(type_):
            return f"CASE {sql} WHEN 1 THEN 'true' WHEN 0 THEN 'false' ELSE 'null' END"
        if types.is_integer(type_) or types.is_nested(type_) or types.is_interval(type_) or _is_length(type_):
            return f"coalesce({sql},'null')"
        if types.is_floating(type_):
            return self._double(sql)
        if types.is_timestamp(type_):
            return self._timestamp(sql)
        if types.is_date(type_):
            return f"""coalesce('"'||date({sql}*86400,'unixepoch')||'"','null')"""
        if types.is_decimal(type_):
            return f"""coalesce('"'||{decimal_to_text_sql(sql, type_)}||'"','null')"""
        if types.is_binary(type_) or types.is_large_binary(type_):
            return f"""CASE WHEN {sql} IS NULL THEN 'null' ELSE '"'||lower(hex({sql}))||'"' END"""
        return f"json_quote({sql})"

    def _double(self, sql: str) -> str:
        """SQLite's own 15 digits where they say the number exactly, else 17: its JSON functions would lose two of them."""
        return (
            f"CASE WHEN CAST({sql}||'' AS REAL)={sql} THEN {sql} "
            f"WHEN typeof({sql})<>'real' OR abs({sql})>1.7976931348623157e308 THEN 'null' "
            f"ELSE printf('%!.17g',{sql}) END"
        )

    def _timestamp(self, sql: str) -> str:
        """`datetime` was measured ten times as fast as `strftime`."""
        micros = f"(({sql}%1000000)+1000000)%1000000"
        whole = f"""'"'||replace(datetime({sql}/1000000,'unixepoch'),' ','T')||'Z"'"""
        second = f"replace(datetime(({sql}-{micros})/1000000,'unixepoch'),' ','T')"
        exact = f"""'"'||{second}||printf('.%06dZ"',{micros})"""
        return f"coalesce(CASE WHEN {sql}%1000000=0 THEN {whole} ELSE {exact} END,'null')"

    def stored_text(self, sql: str, type_: pa.DataType) -> str:
        if types.is_floating(type_):
            infinite = f"WHEN abs({sql})>1.7976931348623157e308 THEN CASE WHEN {sql}>0 THEN '1e999' ELSE '-1e999' END"
            exact = f"printf('%!.17g',{sql})"
            return f"CASE WHEN typeof({sql})<>'real' THEN json_quote({sql}) {infinite} ELSE {exact} END"
        if types.is_binary(type_) or types.is_large_binary(type_):
            return f"""CASE WHEN {sql} IS NULL THEN 'null' ELSE '"'||hex({sql})||'"' END"""
        return f"json_quote({sql})"

    def bound(self, marker: str, type_: pa.DataType) -> str:
        return marker

    def again(self, marker: str, type_: pa.DataType) -> str:
        return marker

    def column(self, sql: str, type_: pa.DataType) -> str:
        return sql

    def compare(self, operator: Operator, column: str, value: str) -> str:
        match operator:
            case Operator.LIKE | Operator.ILIKE:
                return f"{column} GLOB {value}"
            case Operator.STARTS_WITH:
                return f"substr({column},1,length({value}))={value}"
            case Operator.CONTAINS:
                return f"instr({column},{value})>0"
        return f"{column}{operator}{value}"

    def same(self, left: str, right: str) -> str:
        return f"{left} IS {right}"

    def order(self, column: str, sort: Sort, nullable: bool = True) -> str:
        if sort.nulls_first is not sort.descending or not nullable:
            return f"{column}{' DESC' if sort.descending else ''}"  # SQLite's own placement: an index can give it
        return column + _nulls(sort)

    def array(self, row: str) -> str:
        # for no row printf writes nothing: less deep than coalesce, and SQLite's parser has a small stack
        return f"printf('[%s]',group_concat({row},','))"

    def string_length_prefix(self, number: str) -> str:
        return f"printf('%06d',{number})"

    def hexadecimal(self, sql: str) -> str:
        return f"hex({sql})"

    def least(self, left: str, right: str) -> str:
        return f"min({left},{right})"


class PostgresForms:
    """Postgres: native types; strings compare by code point whatever the database's locale."""

    dialect = "postgres"

    def json_text(self, sql: str, type_: pa.DataType) -> str:
        if types.is_integer(type_) or types.is_boolean(type_) or types.is_nested(type_) or _is_length(type_):
            return f"coalesce(({sql})::text,'null')"
        if types.is_floating(type_):
            return f"CASE WHEN {sql} IN ('NaN','Infinity','-Infinity') THEN 'null' ELSE coalesce(({sql})::text,'null') END"
        if types.is_timestamp(type_):
            return self._timestamp(sql, type_)
        if types.is_decimal(type_) or types.is_date(type_):
            return f"""coalesce('"'||({sql})::text||'"','null')"""
        if types.is_binary(type_) or types.is_large_binary(type_):
            return f"""coalesce('"'||encode({sql},'hex')||'"','null')"""
        if types.is_interval(type_):
            return f"coalesce({sql},'null')"
        return self._string(sql)

    def _string(self, sql: str) -> str:
        """U+0000 and U+0001 are stored as pairs (`belvedere.store.codec`): rare, so looked for first."""
        plain = f"to_json({sql})::text"
        escaped = f"replace(replace({plain},'\\u0001\\u0001','\\u0000'),'\\u0001\\u0002','\\u0001')"
        return f"CASE WHEN {sql} IS NULL THEN 'null' WHEN strpos({sql},chr(1))=0 THEN {plain} ELSE {escaped} END"

    def _timestamp(self, sql: str, type_: pa.DataType) -> str:
        local = f"(({sql}) AT TIME ZONE 'UTC')" if type_.tz else f"({sql})"
        whole = f"""to_char({local},'YYYY-MM-DD"T"HH24:MI:SS')"""
        fraction = f"CASE WHEN extract(microseconds FROM {local})::bigint%1000000=0 THEN '' ELSE to_char({local},'.US') END"
        return f"""coalesce('"'||{whole}||{fraction}||'Z"','null')"""

    def stored_text(self, sql: str, type_: pa.DataType) -> str:
        return f"coalesce(to_json(({sql})::text)::text,'null')"

    def bound(self, marker: str, type_: pa.DataType) -> str:
        return f"CAST({marker} AS {self._type(type_)}){self._collation(type_)}"

    def again(self, marker: str, type_: pa.DataType) -> str:
        return f"CAST(CAST({marker} AS text) AS {self._type(type_)}){self._collation(type_)}"

    def _type(self, type_: pa.DataType) -> str:
        if types.is_boolean(type_):
            return "boolean"
        if types.is_integer(type_) or _is_length(type_):
            return "bigint"
        if types.is_floating(type_):
            return "double precision"
        if types.is_decimal(type_):
            return "numeric"
        if types.is_timestamp(type_):
            return "timestamptz" if type_.tz else "timestamp"
        if types.is_date(type_):
            return "date"
        if types.is_binary(type_) or types.is_large_binary(type_):
            return "bytea"
        return "text"

    def _collation(self, type_: pa.DataType) -> str:
        return ' COLLATE "C"' if self._type(type_) == "text" else ""

    def column(self, sql: str, type_: pa.DataType) -> str:
        return sql + self._collation(type_)

    def compare(self, operator: Operator, column: str, value: str) -> str:
        match operator:
            case Operator.LIKE | Operator.ILIKE:
                return f"{column} ~ {value}"
            case Operator.STARTS_WITH:
                return f"starts_with({column},{value})"
            case Operator.CONTAINS:
                return f"strpos({column},{value})>0"
        return f"{column}{operator}{value}"

    def same(self, left: str, right: str) -> str:
        return f"{left} IS NOT DISTINCT FROM {right}"

    def order(self, column: str, sort: Sort, nullable: bool = True) -> str:
        return column + (_nulls(sort) if nullable else " DESC" if sort.descending else "")

    def array(self, row: str) -> str:
        return f"'['||coalesce(string_agg({row},','),'')||']'"

    def string_length_prefix(self, number: str) -> str:
        return f"lpad(({number})::text,6,'0')"

    def hexadecimal(self, sql: str) -> str:
        return f"upper(encode(convert_to({sql},'UTF8'),'hex'))"

    def least(self, left: str, right: str) -> str:
        return f"least({left},{right})"


FORMS: dict[str, Forms] = {"sqlite": SqliteForms(), "postgres": PostgresForms()}
