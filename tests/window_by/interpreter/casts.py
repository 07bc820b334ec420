"""CAST and the functions that turn a value into another type, on Python values.

In: a value. Out: it in the other type, or NULL where it has no such form; the same as Spark's `try_cast` where the
query is Spark SQL.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any

from tests.window_by.interpreter.values import EXACT, MISSING, instant, whole

WHOLE = re.compile(r"[+-]?[0-9]+")
REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?|[+-]?(inf|infinity)|nan", re.IGNORECASE)
DATE = re.compile(r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
BLANKS = "".join(map(chr, range(33)))


def to_text(value: Any) -> str:
    """A value as Spark's CAST to STRING prints it, for the simple types."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return instant(value).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f").rstrip("0").rstrip(".")
    if isinstance(value, float):
        return _real_text(value)
    if isinstance(value, list | dict | timedelta):
        raise TypeError
    return str(value)


def _real_text(value: float) -> str:
    """A double as Java prints it: 1.0E10, 1.0E-4, else plain digits."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    shown = "".join(map(str, digits))
    return f"{'-' * sign}{shown[0]}.{shown[1:] or '0'}E{len(digits) + int(exponent) - 1}"


def to_date(value: Any) -> date | None:
    """A date from text (a year, a month or a day), a date or an instant (UTC)."""
    if not isinstance(value, str):
        return (
            instant(value).astimezone(UTC).date()
            if isinstance(value, datetime)
            else date.fromisoformat(value.isoformat())
        )
    found = DATE.fullmatch(value.strip(BLANKS))
    return None if found is None else date(int(found[1]), int(found[2] or 1), int(found[3] or 1))


def to_instant(value: Any) -> datetime:
    """An instant from text (UTC where it names no zone), a date or an instant."""
    return instant(datetime.fromisoformat(value.strip()) if isinstance(value, str) else value).astimezone(UTC)


def to_whole(value: Any) -> int | None:
    """A whole number: fractions of numbers are cut, text must be one; NULL for more than 64 bits."""
    if isinstance(value, str):
        text = value.strip(BLANKS)
        return whole(int(text)) if WHOLE.fullmatch(text) else None
    if isinstance(value, bool | int | float | Decimal):
        return whole(value)
    raise TypeError


def to_real(value: Any) -> float | None:
    """A double."""
    if isinstance(value, str):
        text = value.strip(BLANKS)
        return float(text.rstrip("dDfF") if text[-2:-1].isdigit() else text) if REAL.fullmatch(text) else None
    if isinstance(value, bool | int | float | Decimal):
        return float(value)
    raise TypeError


def to_decimal(value: Any, precision: int, scale: int) -> Decimal | None:
    """A decimal, rounded half up; NULL where it does not fit."""
    number = Decimal(value.strip(BLANKS).replace("_", "?") if isinstance(value, str) else str(value))
    if not number.is_finite():
        return None
    found = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, EXACT)
    return found if not found or found.adjusted() < precision - scale else None


def cast(value: Any, target: str, precision: int = 10, scale: int = 0) -> Any:
    """CAST: NULL where the value has no such form."""
    if value is MISSING or value is None:
        return value
    try:
        if target == "DECIMAL":
            return to_decimal(value, precision, scale)
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
