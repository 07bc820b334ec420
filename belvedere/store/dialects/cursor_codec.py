"""Decodes stored values from a cursor, which a client may have forged.

In: a value from JSON. Out: the value if it can be a stored one, else `TypeError` or `ValueError` without a text, so
that a client learns only that its cursor is invalid.
"""

from __future__ import annotations

import math
from typing import Any

_WHOLE = range(-(2**63), 2**63)


def text(value: Any) -> str:
    """Return a text of valid characters."""
    if not isinstance(value, str):
        raise TypeError
    value.encode()  # half a surrogate pair is a ValueError
    return value


def whole(value: Any) -> int:
    """Return a 64-bit integer."""
    if type(value) is not int or value not in _WHOLE:
        raise ValueError
    return value


def double(value: Any) -> float | str:
    """Return a double; NaN is a text."""
    if value == "NaN" or (type(value) is float and not math.isnan(value)):
        return value  # type: ignore[no-any-return]
    return whole(value)
