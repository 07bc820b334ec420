"""Casts that Spark accepts in ANSI mode: the rules of its `Cast.canAnsiCast`.

In: two Arrow types. Out: whether a value of the first may be cast to the second; the cast of a single value may still
fail.
"""

from __future__ import annotations

import pyarrow as pa

from belvedere.functions import spark_types as t
from belvedere.schema import TIMESTAMP, VARIANT


def castable(given: pa.DataType, target: pa.DataType) -> bool:
    """Return whether `CAST` and `TRY_CAST` accept these two types."""
    if given == target or given == t.NULL or target == t.STRING:
        return True
    if given == VARIANT:
        return not pa.types.is_map(target) and not t.is_interval(target)
    if target == VARIANT:
        return not pa.types.is_nested(given) and not t.is_interval(given)
    if given == t.STRING:
        return not pa.types.is_nested(target)
    if t.is_number(given):
        return t.is_number(target) or t.is_interval(target) or target in (t.BOOLEAN, TIMESTAMP)
    if given == t.BOOLEAN or t.is_interval(given):
        return t.is_number(target)
    if t.is_time(given):
        return t.is_time(target) or (given == TIMESTAMP and t.is_number(target))
    return _nested(given, target)


def _nested(given: pa.DataType, target: pa.DataType) -> bool:
    if t.is_array(given) and t.is_array(target):
        return castable(given.value_type, target.value_type)
    if pa.types.is_map(given) and pa.types.is_map(target):
        return castable(given.key_type, target.key_type) and castable(given.item_type, target.item_type)
    if pa.types.is_struct(given) and pa.types.is_struct(target) and given.num_fields == target.num_fields:
        return all(castable(a.type, b.type) for a, b in zip(given, target, strict=True))
    return False
