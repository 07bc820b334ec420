"""Numbers of JSON with all their digits: a double keeps about 17, a DECIMAL has up to 38.

In: JSON. Out: the values of `json.loads`, where a number whose digits a double may lose also keeps its text. The module
also writes such values as JSON.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

_KEPT = 16
"""Maximum characters of a number without exponent that a double surely preserves: 15 digits and the point."""


class ExactNumber(float):
    """A double that keeps the text from which it was parsed."""

    text: str

    def __new__(cls, text: str) -> ExactNumber:
        """Create the number of a JSON text."""
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __repr__(self) -> str:
        return self.text


def exact(text: str) -> float:
    """Return the number of a text with a decimal point or an exponent."""
    return float(text) if len(text) <= _KEPT and "e" not in text and "E" not in text else ExactNumber(text)


def decimal_of(number: float) -> Decimal:
    """Return all digits of a number, or those of the shortest text for the double. Raises InvalidOperation."""
    return Decimal(number.text if isinstance(number, ExactNumber) else repr(number))


DECODER = json.JSONDecoder(parse_float=exact)


def loads(text: str | bytes) -> Any:
    """Return the value of a JSON text. Raises ValueError, RecursionError."""
    return json.loads(text, parse_float=exact)


def dumps(value: Any) -> str:
    """Return a value as a JSON text, with all digits. Raises what `json.dumps` does."""
    if isinstance(value, ExactNumber):
        return value.text
    if isinstance(value, dict):
        members = (f"{json.dumps(str(k), ensure_ascii=False)}: {dumps(v)}" for k, v in value.items())
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(dumps, value))}]"
    return json.dumps(value, ensure_ascii=False)
