"""Numbers of JSON with all their digits: a double keeps some seventeen, a DECIMAL has up to 38.

In: JSON. Out: values as `json.loads` gives them, where a number whose digits a double may not keep also knows its text. And the text
again.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

_KEPT = 16
"""Characters of a number without an exponent, with its point: a double gives its at most fifteen digits back."""


class ExactNumber(float):
    """A double that knows the text which it was read from."""

    text: str

    def __new__(cls, text: str) -> ExactNumber:
        """The number of a text as JSON has it."""
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __repr__(self) -> str:
        return self.text


def exact(text: str) -> float:
    """The number of a text with a point or an exponent."""
    return float(text) if len(text) <= _KEPT and "e" not in text and "E" not in text else ExactNumber(text)


def decimal_of(number: float) -> Decimal:
    """All digits of a number, or those of the shortest text that gives the double. Raises InvalidOperation."""
    return Decimal(number.text if isinstance(number, ExactNumber) else repr(number))


DECODER = json.JSONDecoder(parse_float=exact)


def loads(text: str | bytes) -> Any:
    """The value of a JSON text. Raises ValueError, RecursionError."""
    return json.loads(text, parse_float=exact)


def dumps(value: Any) -> str:
    """A value as a JSON text, with all digits. Raises what `json.dumps` does."""
    if isinstance(value, ExactNumber):
        return value.text
    if isinstance(value, dict):
        members = (f"{json.dumps(str(k), ensure_ascii=False)}: {dumps(v)}" for k, v in value.items())
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(dumps, value))}]"
    return json.dumps(value, ensure_ascii=False)
