"""Validation of literals of times and numbers: whether the text of `DATE '...'` or `TIMESTAMP '...'` is valid.

In: a cast that sqlglot created for a typed literal, and the token of its text. Out: a problem if Spark would reject the
text.
"""

from __future__ import annotations

import re
from datetime import date

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from belvedere.syntax.problems import Problem

TIME_TYPES = frozenset(
    (TokenType.DATE, TokenType.TIMESTAMP, TokenType.TIMESTAMPTZ, TokenType.TIMESTAMPLTZ, TokenType.TIMESTAMPNTZ)
)
_DAY = r"\s*(?P<year>[+-]?\d{4,7})(-(?P<month>\d{1,2})(-(?P<day>\d{1,2})"
_DATE = re.compile(_DAY + r"([ T].*)?)?)?\s*")
_CLOCK = r"(?P<hour>\d{1,2})(:(?P<minute>\d{1,2})(:(?P<second>\d{1,2})(\.\d*)?)?)?"
_TIMESTAMP = re.compile(_DAY + rf"([ T]+({_CLOCK}(\s*[A-Z+-].*)?)?)?)?)?\s*", re.IGNORECASE)
_MOST = {"hour": 23, "minute": 59, "second": 59}


def check_time(literal: exp.Cast, text: Token) -> None:
    """Reject a text that is not a valid date or time."""
    is_date = literal.to.this == exp.DataType.Type.DATE
    found = (_DATE if is_date else _TIMESTAMP).fullmatch(text.text)
    if found is not None and _exists(found.groupdict()):
        return
    hint = "write DATE '2024-12-31'" if is_date else "write TIMESTAMP '2024-12-31 23:59:59'"
    kind = "date" if is_date else "time"
    raise Problem("B1024", f"`{text.text}` is not a {kind}", text.start, text.end + 1, hint)


def _exists(fields: dict[str, str | None]) -> bool:
    """Return whether the calendar has the day, and the day has the time."""
    year, month, day = (int(fields[name] or 1) for name in ("year", "month", "day"))
    try:
        date(year if 1 <= year <= 9999 else 2000, month, day)
    except ValueError:
        return False
    return all(int(value) <= _MOST[name] for name, value in fields.items() if value and name in _MOST)
