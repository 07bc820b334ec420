"""Recognition of times in texts, by a datetime pattern of Spark (`dd.MM.yyyy HH:mm`), without a JVM.

In: a datetime pattern. Out: a regular expression for its texts; None if the pattern has unknown letters.
"""

from __future__ import annotations

import re
from functools import cache

MONTHS = r"[^\W\d_]+\.?"
TEXTS = {"a": "[AaPp][Mm]", "E": MONTHS, "G": r"\w+", "z": r"[\w/+:-]+", "V": r"[\w/+:-]+", "O": r"GMT[+\d:-]*"}
ZONES = {"X": r"(?:Z|[+-]\d{2}(?::?\d{2}){0,2})", "x": r"[+-]\d{2}(?::?\d{2}){0,2}", "Z": r"[+-]\d{4}"}
DIGITS = frozenset("yuMLdDHhkKmsnNAQqeF")


@cache
def time_shape(pattern: str) -> re.Pattern[str] | None:
    """Return the regular expression for the texts that a pattern parses."""
    parts: list[str] = []
    for found in re.finditer(r"'((?:[^']|'')*)'|([A-Za-z])\2*|\[|\]|.", pattern, re.DOTALL):
        part = _part(found)
        if part is None:
            return None
        parts.append(part)
    try:
        return re.compile("".join(parts))
    except re.error:
        return None


def _part(found: re.Match[str]) -> str | None:
    text, letter = found[0], found[2]
    if found[1] is not None:
        return re.escape(found[1].replace("''", "'") or "'")
    if text in "[]":
        return "(?:" if text == "[" else ")?"
    if letter is None:
        return re.escape(text)
    if letter == "S":
        return rf"\d{{1,{len(text)}}}"
    if letter in "ML" and len(text) > 2:
        return MONTHS
    if letter in DIGITS:
        width = len(text)
        return rf"\d{{{width}}}" if width > 1 else r"\d{1,9}"
    return ZONES.get(letter) or TEXTS.get(letter)
