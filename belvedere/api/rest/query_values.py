"""Values in a query string, in their JSON form.

In: a text and the type of its column. Out: a boolean, number or text. Raises `ValueError` with a text for the client.
Times, decimals and intervals are validated when the value is bound.
"""

from __future__ import annotations

import math
import re
from typing import Any

import pyarrow as pa

_WHOLE = re.compile(r"[-+]?[0-9]{1,20}")
_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,4})?")
_BOOLEANS = {"true": True, "false": False}


def value_of(text: str, type_: pa.DataType) -> Any:
    """Return the value of a text."""
    if pa.types.is_boolean(type_):
        if text.lower() not in _BOOLEANS:
            raise ValueError(f"expected true or false, not {text!r}")
        return _BOOLEANS[text.lower()]
    if pa.types.is_integer(type_):
        return _whole(text, type_)
    if pa.types.is_floating(type_):
        if len(text) > 400 or not _NUMBER.fullmatch(text):
            raise ValueError(f"expected a number, not {text[:50]!r}")
        if math.isinf(float(text)):
            raise ValueError("a number beyond the range of a double")
        return float(text)
    return text


def _whole(text: str, type_: pa.DataType) -> int:
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"expected a whole number, not {text[:50]!r}")
    bits = type_.bit_width if pa.types.is_signed_integer(type_) else min(64, type_.bit_width + 1)
    if not -(2 ** (bits - 1)) <= int(text) < 2 ** (bits - 1):
        raise ValueError(f"{text} does not fit the column's type {type_}")
    return int(text)


def number_of_rows(text: str) -> int:
    """Return the value of `limit` or `offset`."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"expected a whole number, not {text[:50]!r}")
    return int(text)
