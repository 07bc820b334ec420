"""Instants and durations parsed from ISO 8601 texts, as Spark SQL text.

In: a text as SQL. Out: SQL text of the instant or of the duration's microseconds; NULL if the text is not valid. The
result does not depend on the session's time zone.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.functions.sqlpp_functions import DURATION, DURATION_UNITS, ISO_DURATION, duration_micros
from belvedere.schema import TIMESTAMP
from belvedere.spark_sql.dialect import SparkSql
from belvedere.sqlpp.spark_text.sql_values import SqlValue, Value, bound, quoted

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INSTANT = (
    r"^([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:.([01][0-9]|2[0-3])(?::?([0-5][0-9])(?::?([0-5][0-9])(?:[.,]([0-9]{1,6})[0-9]*)?)?)?"
    r"(Z|([+-])([0-9]{2}):?([0-9]{2})?)?)?$"
)


def instant(value: Value) -> SqlValue | None:
    """Return an instant parsed from text (UTC without a zone); None if the value is not a text."""
    if not isinstance(value, SqlValue) or not pa.types.is_string(value.type):
        return None
    known = _literal(value.sql)
    if known is None:
        return SqlValue(bound(f"trim({value.sql})", _instant), TIMESTAMP)
    try:
        found = datetime.fromisoformat(known.strip())
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found
        return SqlValue(f"timestamp_micros({(found - EPOCH) // timedelta(microseconds=1)}L)", TIMESTAMP)
    except (ValueError, OverflowError):
        return None


def duration(value: Value) -> SqlValue | None:
    """Return a duration parsed from text of weeks, days, hours, minutes and seconds; None if the value is not a
    text."""
    if not isinstance(value, SqlValue) or not pa.types.is_string(value.type):
        return None
    known = _literal(value.sql)
    if known is None:
        return SqlValue(bound(f"trim({value.sql})", _duration), DURATION)
    length = duration_micros(known)
    return None if length is None else SqlValue(f"{length}L", DURATION)


def _literal(text: str) -> str | None:
    """Return the string of a literal; None for other texts."""
    if not text.startswith("'"):
        return None
    tree: Any = exp.maybe_parse(text, dialect=SparkSql)
    return str(tree.name) if isinstance(tree, exp.Literal) and tree.is_string else None


def _instant(text: str) -> str:
    def part(number: int) -> str:
        return f"regexp_extract({text}, {quoted(INSTANT)}, {number})"

    def whole(number: int) -> str:
        return f"CAST(concat('0', {part(number)}) AS INT)"

    seconds = f"CAST(concat('0', {part(6)}, '.', {part(7)}, '0') AS DECIMAL(16, 6))"
    local = f"try_make_timestamp({whole(1)}, {whole(2)}, {whole(3)}, {whole(4)}, {whole(5)}, {seconds}, 'UTC')"
    east = f"({whole(10)} * 3600L + {whole(11)} * 60L) * 1000000L"
    shifted = f"timestamp_micros(unix_micros({local}) - IF({part(9)} = '-', -1L, 1L) * {east})"
    return f"IF({text} RLIKE {quoted(INSTANT)}, {shifted}, NULL)"


def _duration(text: str) -> str:
    def part(number: int) -> str:
        return f"concat('0', regexp_extract({text}, {quoted(ISO_DURATION)}, {number}))"

    sizes = [f"CAST({part(n)} AS BIGINT) * {size}L" for n, size in enumerate(DURATION_UNITS, 2)]
    total = " + ".join([*sizes, f"CAST(CAST({part(6)} AS DECIMAL(24, 6)) * 1000000 AS BIGINT)"])
    sign = f"IF({part(1)} = '0-', -1L, 1L)"
    return f"IF({text} RLIKE {quoted(ISO_DURATION)}, {sign} * ({total}), NULL)"
