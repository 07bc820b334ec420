"""How a function is called in a SQL++ query with WINDOW BY, and the types that such queries know.

In: Arrow types (None where not known before the run). Out: Arrow types, `SqlppFunction` forms. Names are those of the SQL++ of AsterixDB's
built-in functions, in upper case. A value that is MISSING or NULL is none that a function computes with: callers see to that.
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
    """A function that Spark SQL has in the same sense, for arguments of some types: its text with `{0}` and `{1}` for these."""

    text: str
    accepts: Callable[[Any], bool]
    type: pa.DataType | None = None
    """The type of the text's value; None: that of the first argument."""
    reads: str = ""
    """In which form the text reads a date or an instant: its `day` (in UTC), its `micros` since 1970; else as it is."""


@dataclass(frozen=True)
class SqlppFunction:
    """A function of SQL++: its name, other names, how many arguments it takes (most -1: any number), what type it gives."""

    name: str
    least: int
    most: int
    result: TypeOf
    natives: tuple[Native, ...] = ()
    """By the types of its arguments, the first that accepts them counts."""
    also: tuple[str, ...] = ()


def window_by(
    call: str,
    result: TypeOf | pa.DataType,
    native: Native | tuple[Native, ...] = (),
    also: str = "",
) -> SqlppFunction:
    """A form: `call` is a name with numbers of arguments, `UPPER:1`, `SUBSTR:2-3`, `CONCAT:1+`."""
    name, _, counts = call.partition(":")
    least, _, most = counts.rstrip("+").partition("-")
    rule = fixed(result) if isinstance(result, pa.DataType) else result
    last = -1 if counts.endswith("+") else int(most or least)
    natives = native if isinstance(native, tuple) else (native,)
    return SqlppFunction(name, int(least), last, rule, natives, tuple(also.split()))


def is_number(type_: Type) -> bool:
    """Integer, floating or decimal."""
    return type_ is not None and (
        pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    )


def unify(types: Sequence[Type]) -> Type:
    """The one type that holds values of all; `pa.null()` gives way; None where there is none."""
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
    """Floating wins over decimal over integer; integers are 64 bits wide."""
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
    """A date or an instant."""
    return type_ is not None and (pa.types.is_date(type_) or pa.types.is_timestamp(type_))


def holds_duration(type_: pa.DataType) -> bool:
    """Whether a nested type has a duration in it."""
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
    """The same type whatever the arguments."""
    return lambda _: type_


def first(types: Sequence[Type]) -> Type:
    """The type of the first argument."""
    return types[0]


def number(types: Sequence[Type]) -> Type:
    """A number like the first argument."""
    return unify_numbers(types[:1]) if is_number(types[0]) else (pa.null() if types[0] == pa.null() else None)


def total(types: Sequence[Type]) -> Type:
    """The sum of an array's elements."""
    inner = element(types[0])
    if inner is None or not is_number(inner):
        return pa.float64() if inner is None else pa.int64()
    return unify_numbers([inner])


def elements(types: Sequence[Type]) -> Type:
    """One of an array's elements."""
    return element(types[0])


def is_numeral(type_: pa.DataType) -> bool:
    """Return whether a number can be made from the type: from a number, its text, TRUE and FALSE."""
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
"""Its groups are the sign, as many groups as `DURATION_UNITS` has, and seconds."""
DURATION_UNITS = tuple(UNITS[unit] for unit in ("WEEK", "DAY", "HOUR", "MINUTE"))


def duration_micros(text: str) -> int | None:
    """The microseconds of an ISO 8601 duration of weeks, days, hours, minutes and seconds; None for any other text."""
    found = re.match(ISO_DURATION, text.strip())
    if found is None:
        return None
    sign, *counts, seconds = found.groups(default="0")
    whole = sum(int(n) * size for n, size in zip(counts, DURATION_UNITS, strict=True))
    return (whole + round(float(seconds) * 1_000_000)) * (-1 if sign == "-" else 1)
