"""What the functions of a SQL++ query do, on Python values.

In: evaluated arguments. Out: the value. Names, numbers of arguments and types are in
`belvedere.functions.function_table` (a test checks it).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from functools import reduce
from operator import attrgetter
from typing import Any

import numpy as np

from belvedere.functions.sqlpp_functions import duration_micros
from belvedere.kernels import range_aggregates
from belvedere.kernels.aggregates import moment
from belvedere.kernels.search import Bools, Ints
from tests.window_by.interpreter.casts import to_date, to_instant, to_real, to_text, to_whole
from tests.window_by.interpreter.values import EXACT, MISSING, compare, instant, order_key, rank, unknown

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def call(name: str, arguments: list[Any]) -> Any:
    """The function's value. Most give MISSING or NULL for an argument that is; those in `TOLERANT` decide
    themselves."""
    blank = False if name in TOLERANT else unknown(*arguments)
    if blank is not False:
        return blank
    try:
        if name in TOLERANT:
            return TOLERANT[name](*arguments)
        return PLAIN[name](*arguments)
    except (TypeError, ValueError, OverflowError, InvalidOperation, AttributeError):
        return None


# -- aggregates over an array --


def _known(array: Any) -> list[Any] | None:
    return [v for v in array if v is not None and v is not MISSING] if isinstance(array, list) else None


def _numbers(array: Any) -> list[Any] | None:
    known = _known(array)
    return None if known is None else [v for v in known if rank(v) == 3]


def total(numbers: list[Any]) -> Any:
    """The sum: exact for whole and decimal numbers, correctly rounded for floating ones."""
    if any(isinstance(v, float) for v in numbers):
        return _real_sum([float(v) for v in numbers])
    return reduce(EXACT.add, numbers, Decimal(0)) if any(isinstance(v, Decimal) for v in numbers) else sum(numbers)


def _real_sum(numbers: list[float]) -> float:
    """Correctly rounded; infinities and NaN as IEEE 754 adds them."""
    try:
        return math.fsum(numbers)
    except (ValueError, OverflowError):
        return sum(numbers)


def mean(numbers: list[Any]) -> float:
    """The arithmetic mean as a double."""
    found = total(numbers)
    return float(EXACT.divide(found, len(numbers)) if isinstance(found, Decimal) else found / len(numbers))


def _moment(name: str) -> Callable[[list[Any]], float | None]:
    def aggregate(numbers: list[Any]) -> float | None:
        value, undefined = moment(name, range_aggregates.moments(np.array(numbers, np.float64), *_all(numbers)))
        return None if undefined[0] else float(value[0])

    return aggregate


def _all(numbers: list[Any]) -> tuple[Bools, Ints, Ints]:
    """Numbers as one range of valid rows, as the kernels take it."""
    return np.ones(len(numbers), np.bool_), np.zeros(1, np.int64), np.full(1, len(numbers) - 1)


def percentile(numbers: list[Any], fraction: Any) -> float | None:
    """The continuous percentile: linear between the two nearest ranks."""
    if not numbers or rank(fraction) != 3 or not 0 <= fraction <= 1:
        return None
    return float(range_aggregates.percentile(np.array(numbers, np.float64), *_all(numbers), float(fraction))[0])


NUMERIC_AGGREGATES: dict[str, Callable[[list[Any]], Any]] = {
    "SUM": total,
    "AVG": mean,
    **{n: _moment(n) for n in ("STDDEV_SAMP", "STDDEV_POP", "VAR_SAMP", "VAR_POP", "SKEWNESS", "KURTOSIS")},
}


def _array_numeric(function: Callable[[list[Any]], Any]) -> Callable[[Any], Any]:
    def aggregate(array: Any) -> Any:
        numbers = _numbers(array)
        return function(numbers) if numbers else None

    return aggregate


def _extreme(pick: Callable[..., Any]) -> Callable[[Any], Any]:
    def aggregate(array: Any) -> Any:
        known = _known(array)
        return pick(known, key=order_key) if known else None

    return aggregate


def _strict(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def aggregate(array: Any) -> Any:
        if not isinstance(array, list) or any(v is None or v is MISSING for v in array):
            return None
        return function(array)

    return aggregate


def _count(array: Any) -> Any:
    known = _known(array)
    return None if known is None else len(known)


def _percentile(array: Any, fraction: Any) -> Any:
    numbers = _numbers(array)
    return percentile(numbers, fraction) if numbers else None


AGGREGATES: dict[str, Callable[..., Any]] = {
    **{f"ARRAY_{n}": _array_numeric(f) for n, f in NUMERIC_AGGREGATES.items()},
    "ARRAY_MIN": _extreme(min),
    "ARRAY_MAX": _extreme(max),
    "ARRAY_COUNT": _count,
    "ARRAY_MEDIAN": lambda a: _percentile(a, 0.5),
    "ARRAY_PERCENTILE": _percentile,
}
AGGREGATES |= {
    n.replace("ARRAY_", "STRICT_"): _strict(f)
    for n, f in AGGREGATES.items()
    if n not in ("ARRAY_MEDIAN", "ARRAY_PERCENTILE")
}
AGGREGATES["STRICT_COUNT"] = lambda a: len(a) if isinstance(a, list) else None


# -- functions that look at MISSING and NULL themselves --


def _if_missing_or_null(*values: Any) -> Any:
    return next((v for v in values if v is not MISSING and v is not None), None)


def _if_null(*values: Any) -> Any:
    return next((v for v in values if v is not None), None)


def _if_missing(*values: Any) -> Any:
    return next((v for v in values if v is not MISSING), MISSING)


def _concat(*values: Any) -> Any:
    blank = unknown(*values)
    return blank if blank is not False else "".join(v if isinstance(v, str) else str(to_text(v)) for v in values)


def _replace_by(blank: Any) -> Callable[[Any, Any], Any]:
    return lambda a, b: blank if compare("=", a, b) is True else a


TOLERANT: dict[str, Callable[..., Any]] = {
    **AGGREGATES,
    "COALESCE": _if_missing_or_null,
    "IF_MISSING_OR_NULL": _if_missing_or_null,
    "IF_NULL": _if_null,
    "IF_MISSING": _if_missing,
    "NULL_IF": _replace_by(None),
    "MISSING_IF": _replace_by(MISSING),
    "CONCAT": _concat,
}


# -- plain functions --


def _distinct(array: list[Any]) -> list[Any]:
    return list({order_key(v): v for v in reversed(array)}.values())[::-1] if isinstance(array, list) else []


def _contains(array: list[Any], value: Any) -> bool:
    return any(compare("=", v, value) is True for v in array)


def to_duration(value: Any) -> timedelta | None:
    """A duration from its ISO 8601 text; None where it has years or months."""
    micros = duration_micros(value)
    return None if micros is None else timedelta(microseconds=micros)


def _round(value: Any, digits: int = 0) -> Any:
    if isinstance(value, float) and (
        not math.isfinite(value) or (abs(value) >= 1 << 53 and digits >= 0) or digits > 20
    ):
        return value
    rounded = Decimal(repr(value) if isinstance(value, float) else value).quantize(
        Decimal(1).scaleb(-digits), ROUND_HALF_UP, EXACT
    )
    return float(rounded) if isinstance(value, float) else int(rounded) if isinstance(value, int) else rounded


def _to_the_edge(function: Callable[[Any], int]) -> Callable[[Any], Any]:
    return lambda x: x if isinstance(x, float) and not math.isfinite(x) else function(x)


def _by_ieee(function: Callable[..., Any]) -> Callable[..., float]:
    def computed(*values: Any) -> float:
        with np.errstate(all="ignore"):
            return float(function(*(np.float64(v) for v in values)))

    return computed


def _part_of_time(pick: Callable[[datetime], int]) -> Callable[[Any], int]:
    return lambda d: pick(instant(d).astimezone(UTC))


def _absolute(value: Any) -> Any:
    return value.copy_abs() if isinstance(value, Decimal) else abs(value)


def _substring(text: str, start: int, length: int | None = None) -> str | None:
    begin = start if start >= 0 else len(text) + start
    if begin < 0 or begin > len(text) or (length is not None and length < 0):
        return None
    return text[begin:] if length is None else text[begin : begin + length]


def _greatest(pick: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: pick(values, key=order_key)


def _sign(value: Any) -> int | None:
    return None if value != value else int(value > 0) - int(value < 0)


def _root(value: Any) -> float:
    return math.nan if value < 0 else math.sqrt(value)


def _logarithm(value: Any) -> float | None:
    return math.log(value) if value > 0 else None


def like(text: Any, pattern: Any) -> Any:
    """LIKE with % and _; a backslash takes the next character as it is."""
    blank = unknown(text, pattern)
    if blank is not False:
        return blank
    if not isinstance(text, str) or not isinstance(pattern, str):
        return None
    regex = re.sub(
        r"\\(.)|(%)|(_)|(.)",
        lambda m: ".*" if m[2] else "." if m[3] else re.escape(m[1] or m[4]),
        pattern,
        flags=re.DOTALL,
    )
    return re.fullmatch(regex, text, re.DOTALL) is not None


PLAIN: dict[str, Callable[..., Any]] = {
    **{n: _part_of_time(attrgetter(n.lower())) for n in ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")},
    "UNIX_DATE": lambda d: (instant(d) - EPOCH).days,
    "UNIX_MICROS": lambda d: (instant(d) - EPOCH) // timedelta(microseconds=1),
    "ARRAY_DISTINCT": _distinct, "ARRAY_AGG": lambda a: [v for v in a if v is not None and v is not MISSING],
    "ARRAY_SORT": lambda a: sorted(a, key=order_key), "ARRAY_CONTAINS": _contains,
    "ABS": _absolute, "CEIL": _to_the_edge(math.ceil), "FLOOR": _to_the_edge(math.floor), "ROUND": _round,
    "SIGN": _sign,
    "SQRT": _root, "EXP": _by_ieee(np.exp), "LN": _logarithm, "POWER": _by_ieee(np.power),
    "GREATEST": _greatest(max), "LEAST": _greatest(min),
    "TO_STRING": to_text, "TO_BIGINT": to_whole,
    "TO_DOUBLE": to_real, "TO_NUMBER": to_real, "SUBSTR": _substring,
    "DATE": to_date, "DATETIME": to_instant, "DURATION": to_duration,
    "CONTAINS": lambda s, part: part in s, "STARTS_WITH": str.startswith, "TRIM": lambda s: s.strip(" "),
    "UPPER": str.upper,
    "LOWER": str.lower, "LENGTH": len, "LEN": len, "ARRAY_LENGTH": len, "ARRAY_REVERSE": lambda a: a[::-1],
}  # fmt: skip
