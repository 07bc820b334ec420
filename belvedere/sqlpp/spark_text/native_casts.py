"""CAST, and the functions that turn a value into another type, as Spark SQL text.

In: SQL values. Out: SQL values of the other type, NULL where a value has no such form. No text depends on the session's time zone.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.functions.sqlpp_functions import DURATION, duration_micros, is_number
from belvedere.schema import TIMESTAMP
from belvedere.spark_sql.dialect import SparkSql
from belvedere.sqlpp.query_tree import Expr
from belvedere.sqlpp.spark_text.native_values import Environment, null, scalar
from belvedere.sqlpp.spark_text.sql_values import DAY, SqlValue, Untranslatable, Value, bound, micros, quoted, sql_type
from belvedere.sqlpp.type_rules import cast_type

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INSTANT = (
    r"^([0-9]{4})-([0-9]{2})-([0-9]{2})(?:.([01][0-9]|2[0-3])(?::?([0-5][0-9])(?::?([0-5][0-9])(?:[.,]([0-9]{1,6})[0-9]*)?)?)?"
    r"(Z|([+-])([0-9]{2}):?([0-9]{2})?)?)?$"
)
ISO_DURATION = (
    r"^(-)?P(?=.*[0-9])(?:([0-9]+)W)?(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]{1,6})?)S)?)?$"
)
DURATION_UNITS = (7 * DAY, DAY, DAY // 24, DAY // 1440)


def cast(node: Expr, env: Environment) -> Value:
    """CAST and TRY_CAST."""
    value, target = scalar(node.this, env), cast_type(node)
    if target is None:
        raise Untranslatable(f"CAST to {node.args['to'].sql('spark')}")
    return to_type(value, target)


def to_type(value: SqlValue, target: pa.DataType) -> SqlValue:
    """The value in another type."""
    if pa.types.is_null(value.type):
        return null(target, value.missing)
    if pa.types.is_decimal(target):
        simple = is_number(value.type) or pa.types.is_string(value.type)
        return (
            SqlValue(f"try_cast({value.sql} AS {sql_type(target)})", target, value.missing)
            if simple
            else null(target, value.missing)
        )
    return CASTS[target](value)


def to_text(value: SqlValue) -> SqlValue:
    """The value as people read it; NULL for arrays, objects and durations."""
    type_ = value.type
    if pa.types.is_string(type_):
        return value
    if pa.types.is_timestamp(type_):
        text = f"CAST(CAST('1970-01-01 00:00:00' AS TIMESTAMP_NTZ) + INTERVAL '0.000001' SECOND * {micros(value)} AS STRING)"
    elif is_number(type_) or pa.types.is_boolean(type_) or pa.types.is_date(type_):
        text = f"CAST({value.sql} AS STRING)"
    else:
        return null(pa.string(), value.missing)
    return SqlValue(text, pa.string(), value.missing)


def _to_number(target: pa.DataType) -> Callable[[SqlValue], SqlValue]:
    def convert(value: SqlValue) -> SqlValue:
        if not (is_number(value.type) or pa.types.is_string(value.type) or pa.types.is_boolean(value.type)):
            return null(target, value.missing)
        return SqlValue(f"try_cast({value.sql} AS {sql_type(target)})", target, value.missing)

    return convert


to_whole, to_real = _to_number(pa.int64()), _to_number(pa.float64())


def to_boolean(value: SqlValue) -> SqlValue:
    """'true' and 'false'; of other values whether they are not zero or empty."""
    type_, text = value.type, value.sql
    if pa.types.is_boolean(type_):
        return value
    if pa.types.is_string(type_):
        word = f"lower(trim({text}))"
        text = f"CASE WHEN {word} = 'true' THEN TRUE WHEN {word} = 'false' THEN FALSE END"
    elif is_number(type_) or type_ == DURATION:
        text = f"({text} <> 0)"
    elif pa.types.is_list(type_) or pa.types.is_map(type_):
        text = f"(size({text}) > 0)"
    else:
        text = f"IF({text} IS NULL, NULL, {'FALSE' if pa.types.is_struct(type_) and not type_.num_fields else 'TRUE'})"
    return SqlValue(text, pa.bool_(), value.missing)


def day_of(value: SqlValue) -> str:
    """The DATE of a date or, in UTC, of an instant."""
    if pa.types.is_date(value.type):
        return value.sql
    return bound(micros(value), lambda m: f"date_from_unix_date(CAST(({m} - pmod({m}, {DAY}L)) DIV {DAY}L AS INT))")


def to_date(value: SqlValue) -> SqlValue:
    """A date from text, a date or an instant."""
    if pa.types.is_string(value.type):
        return SqlValue(f"try_cast({value.sql} AS DATE)", pa.date32(), value.missing)
    if not (pa.types.is_date(value.type) or pa.types.is_timestamp(value.type)):
        return null(pa.date32(), value.missing)
    return SqlValue(day_of(value), pa.date32(), value.missing)


def to_instant(value: SqlValue) -> SqlValue:
    """An instant from ISO 8601 text (UTC where it names no zone), a date or an instant."""
    if pa.types.is_string(value.type):
        known = _literal(value.sql)
        if known is not None:
            return _instant_of(known, value.missing)
        return SqlValue(bound(f"trim({value.sql})", _instant_text), TIMESTAMP, value.missing)
    if not (pa.types.is_date(value.type) or pa.types.is_timestamp(value.type)):
        return null(TIMESTAMP, value.missing)
    if value.type == TIMESTAMP:
        return value
    return SqlValue(f"timestamp_micros({micros(value)})", TIMESTAMP, value.missing)


def _literal(text: str) -> str | None:
    """The string of a literal."""
    if not text.startswith("'"):
        return None
    tree: Any = exp.maybe_parse(text, dialect=SparkSql)
    return str(tree.name) if isinstance(tree, exp.Literal) and tree.is_string else None


def _instant_of(text: str, missing: str | None) -> SqlValue:
    try:
        found = datetime.fromisoformat(text.strip())
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found
        return SqlValue(f"timestamp_micros({(found - EPOCH) // timedelta(microseconds=1)}L)", TIMESTAMP, missing)
    except (ValueError, OverflowError):
        return null(TIMESTAMP, missing)


def _instant_text(text: str) -> str:
    def part(number: int) -> str:
        return f"regexp_extract({text}, {quoted(INSTANT)}, {number})"

    def whole(number: int) -> str:
        return f"CAST(concat('0', {part(number)}) AS INT)"

    seconds = f"CAST(concat('0', {part(6)}, '.', {part(7)}, '0') AS DECIMAL(16, 6))"
    local = f"try_make_timestamp({whole(1)}, {whole(2)}, {whole(3)}, {whole(4)}, {whole(5)}, {seconds}, 'UTC')"
    east = f"({whole(10)} * 3600L + {whole(11)} * 60L) * 1000000L"
    shifted = f"timestamp_micros(unix_micros({local}) - IF({part(9)} = '-', -1L, 1L) * {east})"
    return f"IF({text} RLIKE {quoted(INSTANT)}, {shifted}, NULL)"


def to_duration(value: SqlValue) -> SqlValue:
    """A duration from ISO 8601 text of weeks, days, hours, minutes and seconds."""
    if not pa.types.is_string(value.type):
        return null(DURATION, value.missing)
    known = _literal(value.sql)
    if known is not None:
        length = duration_micros(known)
        return null(DURATION, value.missing) if length is None else SqlValue(f"{length}L", DURATION, value.missing)
    return SqlValue(bound(f"trim({value.sql})", _duration_text), DURATION, value.missing)


def _duration_text(text: str) -> str:
    def part(number: int) -> str:
        return f"concat('0', regexp_extract({text}, {quoted(ISO_DURATION)}, {number}))"

    sizes = [f"CAST({part(n)} AS BIGINT) * {size}L" for n, size in enumerate(DURATION_UNITS, 2)]
    total = " + ".join([*sizes, f"CAST(CAST({part(6)} AS DECIMAL(24, 6)) * 1000000 AS BIGINT)"])
    sign = f"IF({part(1)} = '0-', -1L, 1L)"
    return f"IF({text} RLIKE {quoted(ISO_DURATION)}, {sign} * ({total}), NULL)"


CASTS: dict[pa.DataType, Callable[[SqlValue], SqlValue]] = {
    pa.int64(): to_whole, pa.float64(): to_real, pa.string(): to_text, pa.bool_(): to_boolean, pa.date32(): to_date,
    TIMESTAMP: to_instant,
}  # fmt: skip
