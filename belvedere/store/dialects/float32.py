"""Numbers of 32 bits (FLOAT), which Python holds as doubles.

In: a double. Out: the nearest number of 32 bits, or the fewest digits that say it.
"""

from __future__ import annotations

import struct

SINGLE_DIGITS = 9
"""Number of digits that represent any 32-bit float."""
_SINGLE = struct.Struct("f")


def single(value: float) -> float:
    """The nearest number of 32 bits; a value beyond their range is left as it is."""
    try:
        return float(_SINGLE.unpack(_SINGLE.pack(value))[0])
    except OverflowError:
        return value


def shortest_single(value: float) -> str:
    """The fewest digits that are read as this number of 32 bits."""
    for digits in range(1, SINGLE_DIGITS):
        text = repr(float(f"{value:.{digits}g}"))
        if single(float(text)) == value:
            return text
    return repr(float(f"{value:.{SINGLE_DIGITS}g}"))
