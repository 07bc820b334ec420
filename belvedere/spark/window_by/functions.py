"""What the functions of a SQL++ query do, on Python values.

In: evaluated arguments. Out: the value. Names, arities and types are in `belvedere.lang.window_by_functions`; every name
there is here (a test checks it).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any

from belvedere.lang.window_by_functions import duration_micros
from belvedere.spark.window_by.values import MISSING, compare, instant, order_key, rank, unknown


def call(name: str, arguments: list[Any]) -> Any:
    """The function's value. Most give MISSING or NULL for an argument that is; those in `TOLERANT` decide themselves."""
    if name in TOLERANT:
        return TOLERANT[name](*arguments)
    blank = unknown(*arguments)
    if blank is not False:
        return blank
    try:
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
        return math.fsum(float(v) for v in numbers)
    return sum(numbers)


def mean(numbers: list[Any]) -> float:
    """The arithmetic mean as a double."""
    return float(total(numbers) / len(numbers))


def _moment(numbers: list[Any], power: int) -> float:
    middle = mean(numbers)
    return math.fsum((float(v) - middle) ** power for v in numbers)


def _variance(freedom: int) -> Callable[[list[Any]], float | None]:
    return lambda n: _moment(n, 2) / (len(n) - freedom) if len(n) > freedom else None


def _deviation(freedom: int) -> Callable[[list[Any]], float | None]:
    variance = _variance(freedom)

    def deviation(numbers: list[Any]) -> float | None:
        found = variance(numbers)
        return None if found is None else math.sqrt(found)

    return deviation


def _skewness(numbers: list[Any]) -> float | None:
    second = _moment(numbers, 2)
    return None if second == 0 else math.sqrt(len(numbers)) * _moment(numbers, 3) / second**1.5


def _kurtosis(numbers: list[Any]) -> float | None:
    second = _moment(numbers, 2)
    return None if second == 0 else len(numbers) * _moment(numbers, 4) / second**2 - 3


def percentile(numbers: list[Any], fraction: Any) -> float | None:
    """The continuous percentile: linear between the two nearest ranks."""
    if not numbers or rank(fraction) != 3 or not 0 <= fraction <= 1:
        return None
    ordered = sorted(numbers, key=order_key)
    place = float(fraction) * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    below, above = float(ordered[low]), float(ordered[high])
    return below if below == above or place == low else below + (above - below) * (place - low)


NUMERIC_AGGREGATES: dict[str, Callable[[list[Any]], Any]] = {
    "SUM": total, "AVG": mean, "STDDEV_SAMP": _deviation(1), "STDDEV_POP": _deviation(0), "VAR_SAMP": _variance(1),
    "VAR_POP": _variance(0), "SKEWNESS": _skewness, "KURTOSIS": _kurtosis,
}  # fmt: skip


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
    n.replace("ARRAY_", "STRICT_"): _strict(f) for n, f in AGGREGATES.items() if n not in ("ARRAY_MEDIAN", "ARRAY_PERCENTILE")
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


def to_text(value: Any) -> str:
    """A value as Spark's CAST to STRING prints it, for the simple types."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        text = instant(value).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f").rstrip("0").rstrip(".")
        return text
    if isinstance(value, float):
        return (
            "NaN"
            if math.isnan(value)
            else "Infinity"
            if value == math.inf
            else "-Infinity"
            if value == -math.inf
            else repr(value)
        )
    if isinstance(value, list | dict | timedelta):
        raise TypeError
    return str(value)


def to_date(value: Any) -> date:
    """A date from text, a date or an instant (UTC)."""
    if isinstance(value, str):
        return date.fromisoformat(value.strip()[:10])
    return instant(value).astimezone(UTC).date() if isinstance(value, datetime) else date.fromisoformat(value.isoformat())


def to_instant(value: Any) -> datetime:
    """An instant from text (UTC where it names no zone), a date or an instant."""
    return instant(datetime.fromisoformat(value.strip()) if isinstance(value, str) else value)


def to_whole(value: Any) -> int:
    """A whole number: fractions are cut."""
    if isinstance(value, str):
        return int(Decimal(value.strip()))
    if isinstance(value, bool | int | float | Decimal):
        return int(value)
    raise TypeError


def to_real(value: Any) -> float:
    """A double."""
    if isinstance(value, bool | int | float | Decimal | str):
        return float(value)
    raise TypeError


def to_duration(value: Any) -> timedelta | None:
    """A duration from its ISO 8601 text; None where it has years or months."""
    micros = duration_micros(value)
    return None if micros is None else timedelta(microseconds=micros)


def _round(value: Any, digits: int = 0) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return value
    rounded = Decimal(repr(value) if isinstance(value, float) else value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return float(rounded) if isinstance(value, float) else int(rounded) if isinstance(value, int) else rounded


def _substring(text: str, start: int, length: int | None = None) -> str | None:
    begin = start if start >= 0 else len(text) + start
    if begin < 0 or begin > len(text) or (length is not None and length < 0):
        return None
    return text[begin:] if length is None else text[begin : begin + length]


def _greatest(pick: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: pick(values, key=order_key)


def _sign(value: Any) -> int:
    return int(value > 0) - int(value < 0)


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
        r"\\(.)|(%)|(_)|(.)", lambda m: ".*" if m[2] else "." if m[3] else re.escape(m[1] or m[4]), pattern, flags=re.DOTALL
    )
    return re.fullmatch(regex, text, re.DOTALL) is not None


PLAIN: dict[str, Callable[..., Any]] = {
    "LEN": len, "ARRAY_LENGTH": len, "LENGTH": len,
    "YEAR": lambda d: instant(d).astimezone(UTC).year, "MONTH": lambda d: instant(d).month, "DAY": lambda d: instant(d).day,
    "HOUR": lambda d: instant(d).astimezone(UTC).hour, "MINUTE": lambda d: instant(d).minute, "SECOND": lambda d: instant(d).second,
    "ARRAY_DISTINCT": _distinct, "ARRAY_AGG": lambda a: [v for v in a if v is not None and v is not MISSING],
    "ARRAY_SORT": lambda a: sorted(a, key=order_key), "ARRAY_REVERSE": lambda a: a[::-1], "ARRAY_CONTAINS": _contains,
    "ABS": abs, "CEIL": math.ceil, "CEILING": math.ceil, "FLOOR": math.floor, "ROUND": _round, "SIGN": _sign,
    "SQRT": _root, "EXP": math.exp, "LN": _logarithm, "POWER": lambda a, b: float(a) ** float(b),
    "GREATEST": _greatest(max), "LEAST": _greatest(min),
    "LOWER": str.lower, "UPPER": str.upper, "TRIM": lambda s: s.strip(" "), "TO_STRING": to_text, "TO_BIGINT": to_whole,
    "TO_DOUBLE": to_real, "TO_NUMBER": to_real, "SUBSTR": _substring, "CONTAINS": lambda a, b: b in a,
    "STARTS_WITH": str.startswith, "DATE": to_date, "DATETIME": to_instant, "DURATION": to_duration,
}  # fmt: skip


def cast(value: Any, target: str, scale: int = 0) -> Any:
    """CAST: NULL where the value has no such form."""
    if value is MISSING or value is None:
        return value
    try:
        if target == "DECIMAL":
            return Decimal(str(value)).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
        if target == "BOOLEAN":
            return {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else bool(value)
        return CASTS[target](value)
    except (TypeError, ValueError, OverflowError, InvalidOperation, AttributeError):
        return None


CASTS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), to_whole),
    **dict.fromkeys(("FLOAT", "DOUBLE"), to_real),
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR"), to_text),
    "DATE": to_date,
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ", "DATETIME"), to_instant),
}
