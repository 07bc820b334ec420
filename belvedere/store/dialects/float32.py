"""32-bit floats (FLOAT), which Python represents as doubles.

In: a double. Out: the nearest 32-bit float, or the fewest digits that represent it.
"""

from __future__ import annotations

import struct

SINGLE_DIGITS = 9
"""Number of digits that represent any 32-bit float."""
_SINGLE = struct.Struct("f")


def single(value: float) -> float:
    """Return the nearest 32-bit float. A value beyond their range is unchanged."""
    try:
        return float(_SINGLE.unpack(_SINGLE.pack(value))[0])
    except OverflowError:
        return value


def shortest_single(value: float) -> str:
    """Return the fewest digits that are read as this 32-bit float."""
    for digits in range(1, SINGLE_DIGITS):
        text = repr(float(f"{value:.{digits}g}"))
        if single(float(text)) == value:
            return text
    return repr(float(f"{value:.{SINGLE_DIGITS}g}"))
