"""A Python value as one of an Arrow type."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pyarrow as pa

from belvedere.functions.sqlpp_functions import DURATION
from tests.window_by.interpreter.values import EXACT, MISSING, instant, whole


def conform(value: Any, type_: pa.DataType) -> Any:
    """The value as one of the Arrow type: MISSING is NULL, and so is what does not fit."""
    if value is MISSING or value is None or pa.types.is_null(type_):
        return None
    if type_ == DURATION:
        return value // timedelta(microseconds=1) if isinstance(value, timedelta) else None
    for test, convert in CONVERSIONS:
        if test(type_):
            return convert(value, type_)
    return value


def _whole(value: Any, type_: pa.DataType) -> Any:
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        return None
    found = whole(value)
    if found is None and math.isfinite(value):
        raise OverflowError("a whole number has more than 64 bits")
    return found


def _real(value: Any, type_: pa.DataType) -> Any:
    return float(value) if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else None


def _decimal(value: Any, type_: pa.DataType) -> Any:
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        return None
    if not math.isfinite(value):
        return None
    found = Decimal(str(value)).quantize(Decimal(1).scaleb(-type_.scale), ROUND_HALF_UP, EXACT)
    if found.adjusted() >= type_.precision - type_.scale and found:
        raise OverflowError(f"a decimal has more than {type_.precision - type_.scale} digits before its point")
    return found


def _list(value: Any, type_: pa.DataType) -> Any:
    return [conform(x, type_.value_type) for x in value] if isinstance(value, list) else None


def _struct(value: Any, type_: pa.DataType) -> Any:
    return {f.name: conform(value.get(f.name), f.type) for f in type_} if isinstance(value, dict) else None


CONVERSIONS: Sequence[tuple[Callable[[Any], bool], Callable[[Any, Any], Any]]] = (
    (pa.types.is_boolean, lambda x, t: x if isinstance(x, bool) else None),
    (pa.types.is_integer, _whole),
    (pa.types.is_floating, _real),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_string, lambda x, t: x if isinstance(x, str) else None),
    (pa.types.is_date, lambda x, t: x if isinstance(x, date) and not isinstance(x, datetime) else None),
    (pa.types.is_timestamp, lambda x, t: instant(x) if isinstance(x, date) else None),
    (pa.types.is_list, _list),
    (pa.types.is_struct, _struct),
)
