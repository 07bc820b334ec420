"""Stored values out of a cursor, which a client may have made up.

In: a value as JSON gave it. Out: the value where it may be a stored one, else `TypeError` or `ValueError` without a text: all that a
client learns is that its cursor is none.
"""

from __future__ import annotations

import math
from typing import Any

_WHOLE = range(-(2**63), 2**63)


def text(value: Any) -> str:
    """A text of whole characters."""
    if not isinstance(value, str):
        raise TypeError
    value.encode()  # half a surrogate pair is a ValueError
    return value


def whole(value: Any) -> int:
    """A number of 64 bits."""
    if type(value) is not int or value not in _WHOLE:
        raise ValueError
    return value


def double(value: Any) -> float | str:
    """A double; NaN is a text."""
    if value == "NaN" or (type(value) is float and not math.isnan(value)):
        return value  # type: ignore[no-any-return]
    return whole(value)
