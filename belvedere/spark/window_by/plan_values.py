"""Constants as the kernels hold them."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from belvedere.kernels.values import MISSING, instant

EPOCH = instant(date(1970, 1, 1))


def plain_constant(value: Any) -> Any:
    """A constant as the kernels compare it: times and durations as microseconds."""
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if isinstance(value, date):
        return (instant(value) - EPOCH) // timedelta(microseconds=1)
    return None if value is MISSING else value
