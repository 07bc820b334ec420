"""Canonical forms of values that GROUP BY treats as equal, as Spark SQL.

In: an expression's text and its Arrow type. Out: the text of its canonical form, in which a map is the sorted list of
its entries and -0.0 is 0.0; and the conversion back to the type. Spark's own grouping by maps writes 0 where a value is
NULL.
"""

from __future__ import annotations

import pyarrow as pa

from belvedere.functions.spark_types import quote, type_text
from belvedere.schema import has_map


def normalised(sql: str, type_: pa.DataType) -> str:
    """Return one representative of all values that GROUP BY treats as equal."""
    if pa.types.is_floating(type_):
        return f"({sql} + CAST(0 AS {type_text(type_)}))"
    if pa.types.is_map(type_):
        key, value = normalised("e.key", type_.key_type), normalised("e.value", type_.item_type)
        return f"array_sort(transform(map_entries({sql}), e -> named_struct('key', {key}, 'value', {value})))"
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return f"transform({sql}, e -> {normalised('e', type_.value_type)})" if _varies(type_) else sql
    if pa.types.is_struct(type_) and _varies(type_):
        fields = ", ".join(f"'{_literal(f.name)}', {normalised(f'{sql}.{quote(f.name)}', f.type)}" for f in type_)
        return f"CASE WHEN {sql} IS NULL THEN NULL ELSE named_struct({fields}) END"
    return sql


def _literal(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _varies(type_: pa.DataType) -> bool:
    """Return whether equal values of the type can differ in form."""
    if pa.types.is_map(type_):
        return True
    if pa.types.is_struct(type_):
        return any(_varies(f.type) for f in type_)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return _varies(type_.value_type)
    return bool(pa.types.is_floating(type_))


def restored(sql: str, type_: pa.DataType) -> str:
    """Return a value of the type from its canonical form."""
    if not has_map(type_):
        return sql
    if pa.types.is_map(type_):
        return (
            f"map_from_entries(transform({sql}, e -> named_struct('key', e.key, 'value', "
            f"{restored('e.value', type_.item_type)})))"
        )
    if pa.types.is_struct(type_):
        fields = ", ".join(f"'{_literal(f.name)}', {restored(f'{sql}.{quote(f.name)}', f.type)}" for f in type_)
        return f"CASE WHEN {sql} IS NULL THEN NULL ELSE named_struct({fields}) END"
    return f"transform({sql}, e -> {restored('e', type_.value_type)})"
