"""Members of objects in columns, as values of columns of their types.

In: the SQL of a column with nested JSON (`belvedere.store.dialects.nested_json`), a member's name and type. Out: SQL of
the value in its stored form, or None if the database cannot express it: nested values, intervals, bytes, and in SQLite
decimals of many digits.
"""

from __future__ import annotations

import pyarrow as pa

from belvedere.store.dialects.dialect import literal
from belvedere.store.dialects.sqlite.sqlite_decimals import DIGITS_OF_INTEGERS
from belvedere.store.dialects.stored_form import is_text

types = pa.types


def sqlite_member(sql: str, name: str, type_: pa.DataType) -> str | None:
    """Return the member in SQLite's form."""
    if '"' in name or "\\" in name:  # no path of SQLite can express it
        return None
    place = literal(f'$."{name}"')
    found = f"({sql}->>{place})"
    if is_text(type_) or types.is_integer(type_) or types.is_boolean(type_):
        return found
    if types.is_floating(type_):
        return f"CASE {found} WHEN 'Infinity' THEN 9e999 WHEN '-Infinity' THEN -9e999 ELSE {found} END"
    if types.is_decimal(type_) and type_.precision <= DIGITS_OF_INTEGERS and type_.scale >= 0:
        return f"CAST(replace({found},'.','') AS INTEGER)"
    if types.is_timestamp(type_) and type_.unit == "us":
        fraction = f"CASE WHEN length({found})>20 THEN CAST(substr({found},21,6) AS INTEGER) ELSE 0 END"
        return f"(CAST(strftime('%s',substr({found},1,19)) AS INTEGER)*1000000+{fraction})"
    if types.is_date(type_):
        return f"(CAST(strftime('%s',{found}) AS INTEGER)/86400)"
    return None


def postgres_member(sql: str, name: str, type_: pa.DataType) -> str | None:
    """Return the member in Postgres's form.

    Postgres cannot follow a path in JSON with U+0000. As in stored texts, U+0000 is therefore written as U+0001 twice,
    and U+0001 as U+0001 U+0002.
    """
    escaped = rf"replace(replace(replace({sql},'\\','\u005c'),'\u0001','\u0001\u0002'),'\u0000','\u0001\u0001')"
    found = f"(CAST({escaped} AS json)->>{literal(name)})"
    if is_text(type_):
        return found
    cast = _POSTGRES.get(type_) or ("numeric" if types.is_decimal(type_) else None)
    if cast is None and types.is_timestamp(type_) and type_.unit == "us":
        cast = "timestamp" if type_.tz is None else "timestamptz"
    return None if cast is None else f"CAST({found} AS {cast})"


_POSTGRES = {
    **{pa.int8(): "smallint", pa.int16(): "smallint", pa.int32(): "integer", pa.int64(): "bigint"},
    **{pa.bool_(): "boolean", pa.float32(): "real", pa.float64(): "double precision", pa.date32(): "date"},
}
