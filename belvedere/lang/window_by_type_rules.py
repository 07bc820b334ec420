"""The types that operators and CAST give, in Arrow types; and types in a user's words.

In: Arrow types. Out: Arrow types, None where an operation is not possible. Nothing is reported here.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp

from belvedere.lang.window_by import (
    Expr,
)
from belvedere.lang.window_by_functions import (
    DURATION,
    Type,
    is_number,
    unify,
    unify_numbers,
)
from belvedere.schema import TIMESTAMP

CASTS: Mapping[str, pa.DataType] = {
    "TINYINT": pa.int64(), "SMALLINT": pa.int64(), "INT": pa.int64(), "BIGINT": pa.int64(), "FLOAT": pa.float64(),
    "DOUBLE": pa.float64(), "TEXT": pa.string(), "VARCHAR": pa.string(), "CHAR": pa.string(), "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(), "TIMESTAMP": TIMESTAMP, "TIMESTAMPTZ": TIMESTAMP, "TIMESTAMPLTZ": TIMESTAMP, "TIMESTAMPNTZ": TIMESTAMP,
    "DATETIME": TIMESTAMP,
}  # fmt: skip


def cast_type(node: Expr) -> Type:
    """The type that CAST names; None for one we do not know."""
    target = node.args["to"]
    if target.this == exp.DType.DECIMAL:
        sizes = [int(e.name) for e in target.expressions]
        return pa.decimal128(sizes[0] if sizes else 10, sizes[1] if len(sizes) > 1 else 0)
    return CASTS.get(target.this.name)


def field_index(type_: pa.DataType, name: str) -> int:
    """The field's number: exact match first, then one that differs in case only; -1 for none."""
    names = [f.name for f in type_]
    if name in names:
        return names.index(name)
    folded = [n.casefold() for n in names]
    return folded.index(name.casefold()) if folded.count(name.casefold()) == 1 else -1


def arithmetic_type(node: Expr, left: pa.DataType, right: pa.DataType) -> Type:
    """The type of `left op right`; None where it is not possible."""
    if pa.types.is_null(left) or pa.types.is_null(right):
        return pa.null()
    if is_number(left) and is_number(right):
        if isinstance(node, exp.Div):
            return pa.float64()
        if isinstance(node, exp.IntDiv):
            return pa.int64()
        if isinstance(node, exp.Mul) and pa.types.is_decimal(left) and pa.types.is_decimal(right):
            return pa.decimal128(38, min(left.scale + right.scale, 37))
        return unify_numbers([left, right])
    times = [pa.types.is_date(t) or pa.types.is_timestamp(t) for t in (left, right)]
    spans = [pa.types.is_duration(t) for t in (left, right)]
    if isinstance(node, exp.Sub):
        if all(times) or all(spans):
            return DURATION
        return _shifted(left) if times[0] and spans[1] else None
    if isinstance(node, exp.Add):
        if all(spans):
            return DURATION
        if times[0] and spans[1]:
            return _shifted(left)
        return _shifted(right) if spans[0] and times[1] else None
    if isinstance(node, exp.Mul) and ((spans[0] and pa.types.is_integer(right)) or (spans[1] and pa.types.is_integer(left))):
        return DURATION
    return None


def _shifted(type_: pa.DataType) -> Type:
    return TIMESTAMP  # a duration may hold hours: a date becomes an instant


def comparable(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether values of the two types can compare at all."""
    return unify([left, right]) is not None


def describe(type_: Type) -> str:
    """A type in a user's words."""
    if type_ is None:
        return "a value of several types"
    if is_number(type_):
        return "a number"
    for test, words in (
        (pa.types.is_string, "a string"), (pa.types.is_boolean, "a boolean"), (pa.types.is_date, "a date"),
        (pa.types.is_timestamp, "a timestamp"), (pa.types.is_duration, "a duration"), (pa.types.is_list, "an array"),
        (pa.types.is_struct, "an object"), (pa.types.is_null, "NULL"),
    ):  # fmt: skip
        if test(type_):
            return words
    return f"a value of type {type_}"


def time_hint(left: pa.DataType, right: pa.DataType) -> str | None:
    if any(pa.types.is_duration(t) for t in (left, right)) and any(is_number(t) for t in (left, right)):
        return 'compare a duration with a duration: duration("P7D") or INTERVAL 7 DAYS'
    return None
