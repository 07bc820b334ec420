"""The text key and the hashes by which stored rows are looked up, as Spark SQL.

In: columns and their Arrow types. Out: SQL expressions. NULL, NaN, -0.0 and the order of a map's entries are
normalised, so equal keys (in the sense of GROUP BY) have equal text. The text is unambiguous: parts are escaped and
separated.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from belvedere.engine.relation import Path, Relation
from belvedere.engine.sql.canonical_values import normalised
from belvedere.engine.sql.plan_sql import print_expression
from belvedere.functions.spark_types import quote, type_text
from belvedere.plan.null_on_error import forgiving
from belvedere.plan.operators.nodes import Expr
from belvedere.schema import KEY, Schema

_EXACT_JSON = (
    "map('ignoreNullFields', 'false', 'dateFormat', 'yyyy-MM-dd G', "
    "'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS G', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS G')"
)
"""JSON options with complete time formats. Without formats, Spark leaves out microseconds and the era."""
NULL_MARK = "~"
HASH_MARK = "~~"
"""Prefix of a hash in place of a text. No key's text begins with it, since `~` within values is escaped."""
MAX_KEY_BYTES = 1000
"""Maximum bytes of a key that is stored as its text.

An index of Postgres accepts 2,700, and escapes there can double the length.
"""


def key_text(schema: Schema) -> str:
    """Return the canonical text of a relation's key columns, or its SHA-256 if it is long."""
    parts = [_part(quote(n), schema[n].type, schema[n].nullable) for n in schema.key or ()]
    if not parts:
        return "''"
    text = parts[0] if len(parts) == 1 else f"concat_ws('|', {', '.join(parts)})"
    if all(_is_plain(schema[n].type) for n in schema.key or ()):
        return text
    return (
        f"CASE WHEN octet_length({text}) > {MAX_KEY_BYTES} THEN concat('{HASH_MARK}', sha2({text}, 256)) ELSE "
        f"{text} END"
    )


def _part(sql: str, type_: pa.DataType, nullable: bool) -> str:
    text = _text(sql, type_)
    return f"coalesce({text}, '{NULL_MARK}')" if nullable or not _is_plain(type_) else text


def _is_plain(type_: pa.DataType) -> bool:
    """Return whether a type's text needs no escaping."""
    return not (
        pa.types.is_string(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_binary(type_)
        or pa.types.is_nested(type_)
    )


def _text(sql: str, type_: pa.DataType) -> str:
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return _escaped(sql)
    if pa.types.is_binary(type_):
        return f"hex({sql})"
    if pa.types.is_floating(type_):
        return f"CAST({normalised(sql, type_)} AS STRING)"
    if pa.types.is_timestamp(type_) and type_.tz:
        return f"CAST(unix_micros({sql}) AS STRING)"
    if pa.types.is_nested(type_):
        return _escaped(f"to_json(struct({normalised(sql, type_)} AS v), {_EXACT_JSON})", sql)
    return f"CAST({sql} AS STRING)"


def _escaped(text: str, value: str | None = None) -> str:
    """Escape backslash, separator and NULL's mark. A nested NULL stays NULL."""
    escaped = f"replace(replace(replace({text}, '\\\\', '\\\\\\\\'), '|', '\\\\p'), '~', '\\\\t')"
    return escaped if value is None else f"CASE WHEN {value} IS NULL THEN NULL ELSE {escaped} END"


def path_hash(exprs: tuple[Expr, ...], types: tuple[pa.DataType, ...]) -> str:
    """Return the hash of an access path.

    Integers are hashed as BIGINT, floats as DOUBLE, so that equal values have equal hashes.
    """
    if not exprs:
        return "CAST(0 AS BIGINT)"
    return f"xxhash64({', '.join(_hashable(print_expression(e), t) for e, t in zip(exprs, types, strict=True))})"


def _hashable(sql: str, type_: pa.DataType) -> str:
    if pa.types.is_integer(type_):
        type_ = pa.int64()
    elif pa.types.is_floating(type_):
        type_ = pa.float64()
    return normalised(f"CAST({sql} AS {type_text(type_)})", type_)


def identity_columns(relation: Relation) -> str:
    """Return `_key` (if its rows have one) and the hash columns of a relation, as select items over its own columns."""
    key = [] if relation.by_path else [f"{key_text(relation.schema)} AS `{KEY}`"]
    return ", ".join(key + [_hash_item(p, relation.schema) for p in relation.paths])


def _hash_item(path: Path, schema: Schema) -> str:
    """Return the hash by which readers look rows up.

    An expression that fails does so where a reader computes it, not here.
    """
    exprs = tuple(e if isinstance(e, exp.Column) else forgiving(e, schema) for e in path.exprs)
    return f"{path_hash(exprs, path.types)} AS {quote(path.name)}"
