"""Signatures and types of functions in SQL++ queries with WINDOW BY.

In: Arrow types (None if not known before the run). Out: Arrow types, `SqlppFunction` forms. Names are those of
AsterixDB's built-in SQL++ functions, in upper case. Callers handle MISSING and NULL: a function never receives them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from belvedere.functions.calendar import UNITS
from belvedere.schema import TIMESTAMP

Type: TypeAlias = "pa.DataType | None"
TypeOf: TypeAlias = "Callable[[Sequence[Type]], Type]"
DURATION = pa.duration("us")


@dataclass(frozen=True)
class Native:
    """Equivalent Spark SQL of a function for arguments of some types: a text with `{0}` and `{1}` for the arguments."""

    text: str
    accepts: Callable[[Any], bool]
    type: pa.DataType | None = None
    """Type of the result; None: the type of the first argument."""
    reads: str = ""
    """Form in which the text reads a date or an instant: its `day` (in UTC) or its `micros` since 1970; empty:
    unchanged."""


@dataclass(frozen=True)
class SqlppFunction:
    """A function of SQL++: its name, synonyms, minimum and maximum number of arguments (-1: no maximum), and result
    type."""

    name: str
    least: int
    most: int
    result: TypeOf
    natives: tuple[Native, ...] = ()
    """Equivalents in Spark SQL; the first that accepts the argument types is used."""
    also: tuple[str, ...] = ()


def window_by(
    call: str,
    result: TypeOf | pa.DataType,
    native: Native | tuple[Native, ...] = (),
    also: str = "",
) -> SqlppFunction:
    """Return a function of SQL++. `call` is a name with numbers of arguments: `UPPER:1`, `SUBSTR:2-3`, `CONCAT:1+`."""
    name, _, counts = call.partition(":")
    least, _, most = counts.rstrip("+").partition("-")
    rule = fixed(result) if isinstance(result, pa.DataType) else result
    last = -1 if counts.endswith("+") else int(most or least)
    natives = native if isinstance(native, tuple) else (native,)
    return SqlppFunction(name, int(least), last, rule, natives, tuple(also.split()))


def is_number(type_: Type) -> bool:
    """Return whether the type is an integer, floating-point or decimal type."""
    return type_ is not None and (
        pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    )


def unify(types: Sequence[Type]) -> Type:
    """Return the type that holds values of all types, ignoring `pa.null()`; None if there is none."""
    known = [t for t in types if t is None or not pa.types.is_null(t)]
    if not known:
        return pa.null()
    first = known[0]
    if first is None or any(t is None for t in known):
        return None
    if all(t == first for t in known):
        return first
    if all(is_number(t) for t in known):
        return unify_numbers(known)
    if all(pa.types.is_date(t) or pa.types.is_timestamp(t) for t in known):
        return TIMESTAMP
    if all(pa.types.is_list(t) for t in known):
        element = unify([t.value_type for t in known if t is not None])
        return None if element is None else pa.list_(element)
    if all(pa.types.is_struct(t) for t in known):
        return _unify_structs([t for t in known if t is not None])
    return None


def unify_numbers(types: Sequence[Type]) -> Type:
    """Return the common numeric type: floating-point before decimal before integer; integers have 64 bits."""
    if any(pa.types.is_floating(t) for t in types):
        return pa.float64()
    decimals = [t for t in types if pa.types.is_decimal(t)]
    return pa.decimal128(38, max(t.scale for t in decimals if t is not None)) if decimals else pa.int64()


def _unify_structs(types: Sequence[pa.DataType]) -> Type:
    names = [f.name for f in types[0]]
    if any([f.name for f in t] != names for t in types):
        return None
    fields = [(n, unify([t.field(i).type for t in types])) for i, n in enumerate(names)]
    return None if any(t is None for _, t in fields) else pa.struct(fields)


def is_time(type_: Type) -> bool:
    """Return whether the type is a date or an instant."""
    return type_ is not None and (pa.types.is_date(type_) or pa.types.is_timestamp(type_))


def holds_duration(type_: pa.DataType) -> bool:
    """Return whether a nested type contains a duration."""
    inner = (
        [type_.value_type] if pa.types.is_list(type_) else [f.type for f in type_] if pa.types.is_struct(type_) else []
    )
    return any(t == DURATION or holds_duration(t) for t in inner)


def element(type_: Type) -> Type:
    """Return the element type of an array."""
    return (
        type_.value_type
        if type_ is not None and pa.types.is_list(type_)
        else (pa.null() if type_ == pa.null() else None)
    )


def fixed(type_: pa.DataType) -> TypeOf:
    """Return a rule that gives this type for all arguments."""
    return lambda _: type_


def first(types: Sequence[Type]) -> Type:
    """Return the type of the first argument."""
    return types[0]


def number(types: Sequence[Type]) -> Type:
    """Return the numeric type of the first argument, widened to 64 bits."""
    return unify_numbers(types[:1]) if is_number(types[0]) else (pa.null() if types[0] == pa.null() else None)


def total(types: Sequence[Type]) -> Type:
    """Return the type of the sum of an array's elements."""
    inner = element(types[0])
    if inner is None or not is_number(inner):
        return pa.float64() if inner is None else pa.int64()
    return unify_numbers([inner])


def elements(types: Sequence[Type]) -> Type:
    """Return the type of an array's elements."""
    return element(types[0])


def is_numeral(type_: pa.DataType) -> bool:
    """Return whether values of the type can be converted to a number: numbers, texts, TRUE and FALSE."""
    return is_number(type_) or bool(pa.types.is_string(type_) or pa.types.is_boolean(type_))


def _has_characters(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_binary(type_))


def _has_members(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_map(type_))


LENGTH = (
    Native("CAST(length({0}) AS BIGINT)", _has_characters, pa.int64()),
    Native("IF({0} IS NULL, NULL, CAST(size({0}) AS BIGINT))", _has_members, pa.int64()),
)
"""Length of texts, arrays and maps."""

ISO_DURATION = (
    r"^(-)?P(?=.*[0-9])(?:([0-9]+)W)?(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]{1,6})?)S)?)?$"
)
"""Pattern of an ISO 8601 duration. Its groups are the sign, one group per unit of `DURATION_UNITS`, and seconds."""
DURATION_UNITS = tuple(UNITS[unit] for unit in ("WEEK", "DAY", "HOUR", "MINUTE"))


def duration_micros(text: str) -> int | None:
    """Return the microseconds of an ISO 8601 duration of weeks, days, hours, minutes and seconds; None for any other
    text."""
    found = re.match(ISO_DURATION, text.strip())
    if found is None:
        return None
    sign, *counts, seconds = found.groups(default="0")
    whole = sum(int(n) * size for n, size in zip(counts, DURATION_UNITS, strict=True))
    return (whole + round(float(seconds) * 1_000_000)) * (-1 if sign == "-" else 1)
