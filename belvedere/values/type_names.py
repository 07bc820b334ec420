"""Names of Arrow types in Spark SQL, for messages and queries.

In: Arrow types. Out: text, in the form of a script. `belvedere.functions.spark_types` parses such text.
"""

from __future__ import annotations

import pyarrow as pa

from belvedere.schema import MONTHS, VARIANT

CALENDAR_INTERVAL = pa.month_day_nano_interval()
"""Placeholder for Spark's calendar interval of months and days, which occurs only within the expressions of a row."""


def quote(name: str) -> str:
    """Return a name quoted for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def type_text(type_: pa.DataType) -> str:
    """Return the type in Spark SQL, as in a script; `exp.DataType.build(text, dialect="spark")` parses it."""
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision}, {type_.scale})"
    if pa.types.is_map(type_):
        return f"MAP<{type_text(type_.key_type)}, {type_text(type_.item_type)}>"
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return f"ARRAY<{type_text(type_.value_type)}>"
    if pa.types.is_struct(type_):
        return "STRUCT<" + ", ".join(f"{quote(f.name)}: {type_text(f.type)}" for f in type_) + ">"
    if pa.types.is_timestamp(type_):
        return "TIMESTAMP" if type_.tz else "TIMESTAMP_NTZ"
    return _TEXTS.get(type_, str(type_).upper())


_TEXTS = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.large_string(): "STRING",
    pa.binary(): "BINARY",
    pa.large_binary(): "BINARY",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
    pa.null(): "VOID",
    pa.duration("us"): "INTERVAL DAY TO SECOND",
    MONTHS: "INTERVAL YEAR TO MONTH",
    CALENDAR_INTERVAL: "INTERVAL",
    VARIANT: "VARIANT",
}


def a_type(type_: pa.DataType) -> str:
    """Return the type with its article, for messages: `an INT`, `a STRING`."""
    text = type_text(type_)
    return f"{'an' if text[0] in 'AEIO' else 'a'} {text}"
