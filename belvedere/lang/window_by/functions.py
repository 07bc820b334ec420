"""The functions that a SQL++ query may call: how many arguments they take and what type they give.

In: a name and the Arrow types of the arguments (None where not known before the run). Out: the Arrow type of the result.
What a function does is written where it is evaluated (`belvedere/spark/window_by`); names are those of the SQL++ of
AsterixDB's built-in functions, in upper case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from belvedere.schema import TIMESTAMP

Type: TypeAlias = "pa.DataType | None"
DURATION = pa.duration("us")


@dataclass(frozen=True)
class Function:
    """Number of arguments (most -1: any number), and the rule of the result's type."""

    least: int
    most: int
    result: Callable[[Sequence[Type]], Type]


def is_number(type_: Type) -> bool:
    """Integer, floating or decimal."""
    return type_ is not None and (pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


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


def element(type_: Type) -> Type:
    """What an array holds."""
    return type_.value_type if type_ is not None and pa.types.is_list(type_) else (pa.null() if type_ == pa.null() else None)


def _fixed(type_: pa.DataType) -> Callable[[Sequence[Type]], Type]:
    return lambda _: type_


def _same(types: Sequence[Type]) -> Type:
    return types[0]


def _number(types: Sequence[Type]) -> Type:
    return unify_numbers(types[:1]) if is_number(types[0]) else (pa.null() if types[0] == pa.null() else None)


def _sum(types: Sequence[Type]) -> Type:
    inner = element(types[0])
    if inner is None or not is_number(inner):
        return pa.float64() if inner is None else pa.int64()
    return unify_numbers([inner])


def _array_like(types: Sequence[Type]) -> Type:
    return types[0]


def _elements(types: Sequence[Type]) -> Type:
    return element(types[0])


DOUBLE, LONG, TEXT, BOOL, DATE = pa.float64(), pa.int64(), pa.string(), pa.bool_(), pa.date32()
REAL_AGGREGATES = ("AVG", "STDDEV", "STDDEV_SAMP", "STDDEV_POP", "VARIANCE", "VAR_SAMP", "VAR_POP", "SKEWNESS", "KURTOSIS")


def _aggregates() -> dict[str, Function]:
    found: dict[str, Function] = {}
    for prefix in ("ARRAY_", "STRICT_"):
        found |= {prefix + n: Function(1, 1, _fixed(DOUBLE)) for n in REAL_AGGREGATES}
        found |= {prefix + "COUNT": Function(1, 1, _fixed(LONG)), prefix + "SUM": Function(1, 1, _sum)}
        found |= {prefix + n: Function(1, 1, _elements) for n in ("MIN", "MAX")}
    return found | {"ARRAY_MEDIAN": Function(1, 1, _fixed(DOUBLE)), "ARRAY_PERCENTILE": Function(2, 2, _fixed(DOUBLE))}


FUNCTIONS: dict[str, Function] = {
    **_aggregates(),
    **{
        n: Function(1, 1, _fixed(LONG))
        for n in (
            "LEN",
            "ARRAY_LENGTH",
            "LENGTH",
            "YEAR",
            "MONTH",
            "DAY",
            "HOUR",
            "MINUTE",
            "SECOND",
            "UNIX_DATE",
            "UNIX_MICROS",
        )
    },
    **{n: Function(1, 1, _array_like) for n in ("ARRAY_DISTINCT", "ARRAY_AGG", "ARRAY_SORT", "ARRAY_REVERSE")},
    "ARRAY_CONTAINS": Function(2, 2, _fixed(BOOL)),
    **{n: Function(1, 1, _number) for n in ("ABS", "CEIL", "CEILING", "FLOOR")},
    "ROUND": Function(1, 2, _number),
    **{n: Function(1, 1, _fixed(DOUBLE)) for n in ("SQRT", "EXP", "LN", "TO_DOUBLE", "TO_NUMBER")},
    "SIGN": Function(1, 1, _fixed(LONG)),
    "POWER": Function(2, 2, _fixed(DOUBLE)),
    "GREATEST": Function(1, -1, unify),
    "LEAST": Function(1, -1, unify),
    **{n: Function(1, 1, _fixed(TEXT)) for n in ("LOWER", "UPPER", "TRIM", "TO_STRING")},
    "TO_BIGINT": Function(1, 1, _fixed(LONG)),
    "CONCAT": Function(1, -1, _fixed(TEXT)),
    "SUBSTR": Function(2, 3, _fixed(TEXT)),
    "CONTAINS": Function(2, 2, _fixed(BOOL)),
    "STARTS_WITH": Function(2, 2, _fixed(BOOL)),
    **{n: Function(1, -1, unify) for n in ("COALESCE", "IF_NULL", "IF_MISSING", "IF_MISSING_OR_NULL")},
    **{n: Function(2, 2, _same) for n in ("NULL_IF", "MISSING_IF")},
    "DATE": Function(1, 1, _fixed(DATE)),
    "DATETIME": Function(1, 1, _fixed(TIMESTAMP)),
    "DURATION": Function(1, 1, _fixed(DURATION)),
}
SYNONYMS = {
    "IFNULL": "IF_NULL", "IFMISSING": "IF_MISSING", "IFMISSINGORNULL": "IF_MISSING_OR_NULL", "NVL": "IF_NULL",
    "NULLIF": "NULL_IF", "MISSINGIF": "MISSING_IF", "SUBSTRING": "SUBSTR", "TIMESTAMP": "DATETIME", "TO_TIMESTAMP": "DATETIME",
    "TO_DATE": "DATE", "DAY_TIME_DURATION": "DURATION", "POW": "POWER", "ARRAY_SIZE": "ARRAY_LENGTH",
    "ARRAY_STDDEV": "ARRAY_STDDEV_SAMP", "ARRAY_VARIANCE": "ARRAY_VAR_SAMP", "STRICT_STDDEV": "STRICT_STDDEV_SAMP",
    "STRICT_VARIANCE": "STRICT_VAR_SAMP", "CEILING": "CEIL", "GET_YEAR": "YEAR", "GET_MONTH": "MONTH", "GET_DAY": "DAY",
    "ARRAY_AVERAGE": "ARRAY_AVG",
}  # fmt: skip
AGGREGATES = frozenset({"COUNT", "SUM", "MIN", "MAX", "MEDIAN", *REAL_AGGREGATES})
WINDOW_AGGREGATES = frozenset(_aggregates())


def canonical(name: str) -> str:
    """The one name of a function, in upper case."""
    upper = name.upper()
    return SYNONYMS.get(upper, upper)


UNIT_MICROS = {
    "WEEK": 604_800_000_000, "DAY": 86_400_000_000, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000,
    "MILLISECOND": 1_000, "MICROSECOND": 1,
}  # fmt: skip
ISO_DURATION = re.compile(
    r"(?P<sign>-)?P(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,6})?)S)?)?"
)


def duration_micros(text: str) -> int | None:
    """The microseconds of an ISO 8601 duration of weeks, days, hours, minutes and seconds; None for any other text."""
    found = ISO_DURATION.fullmatch(text.strip())
    if found is None or not any(v for k, v in found.groupdict().items() if k != "sign"):
        return None
    parts = {k: v for k, v in found.groupdict().items() if v and k != "sign"}
    whole = sum(UNIT_MICROS[k[:-1].upper()] * int(v) for k, v in parts.items() if k != "seconds")
    micros = whole + round(float(parts.get("seconds", "0")) * 1_000_000)
    return -micros if found["sign"] else micros
