"""Names and types as Spark SQL writes them.

In: names and Arrow types. Out: SQL text.
"""

from __future__ import annotations

import pyarrow as pa


def quote(name: str) -> str:
    """A Spark identifier."""
    return "`" + name.replace("`", "``") + "`"


def spark_type(type_: pa.DataType) -> str:
    """The Spark SQL name of an Arrow type."""
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision},{type_.scale})"
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return f"ARRAY<{spark_type(type_.value_type)}>"
    if pa.types.is_struct(type_):
        return "STRUCT<" + ", ".join(f"{quote(f.name)}: {spark_type(f.type)}" for f in type_) + ">"
    if pa.types.is_map(type_):
        return f"MAP<{spark_type(type_.key_type)}, {spark_type(type_.item_type)}>"
    if pa.types.is_timestamp(type_):
        return "TIMESTAMP" if type_.tz else "TIMESTAMP_NTZ"
    if pa.types.is_duration(type_):
        return "INTERVAL DAY TO SECOND"
    return _SIMPLE_TYPES[type_]


_SIMPLE_TYPES: dict[pa.DataType, str] = {
    pa.bool_(): "BOOLEAN",
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
    pa.date32(): "DATE",
    pa.null(): "VOID",
}
