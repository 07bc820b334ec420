"""Fields and members of SQL++ values in Python.

In: Python values (None is NULL, `MISSING` is MISSING, dict an object, list an array). Out: the same.
"""

from __future__ import annotations

from typing import Any

from tests.window_by.interpreter.values import MISSING, unknown


def member(value: Any, name: str) -> Any:
    """The field of an object: exact name first, then one that differs in case only."""
    if value is MISSING or value is None:
        return value
    if not isinstance(value, dict):
        return MISSING
    if name in value:
        return value[name]
    folded = name.casefold()
    found = [v for k, v in value.items() if k.casefold() == folded]
    return found[0] if len(found) == 1 else MISSING


def at(value: Any, index: Any) -> Any:
    """The element of an array, from 0, or from -1 backwards; MISSING out of range."""
    if unknown(value, index) is not False:
        return unknown(value, index)
    if not isinstance(value, list) or not isinstance(index, int) or not -len(value) <= index < len(value):
        return MISSING
    return value[index]


def part(value: Any, start: Any, end: Any) -> Any:
    """`value[start:end]`, half open; MISSING out of range."""
    if unknown(value, start, end) is not False:
        return unknown(value, start, end)
    if not isinstance(value, list) or not isinstance(start, int) or not isinstance(end, int):
        return MISSING
    low, high = (i + len(value) if i < 0 else i for i in (start, end))
    return value[low:high] if 0 <= low <= high <= len(value) else MISSING


def star(value: Any) -> Any:
    """`value[*]`: an array of objects as an object of arrays; MISSING for an array without objects."""
    if value is MISSING or value is None:
        return value
    objects = [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []
    if not objects:
        return MISSING
    names = dict.fromkeys(k for v in objects for k in v)
    return {n: star_member(value, n) for n in names}


def star_member(value: Any, name: str) -> Any:
    """`value[*].name`: the array of that field, NULL where it is not; MISSING for an array without objects."""
    if value is MISSING or value is None:
        return value
    if not isinstance(value, list) or not any(isinstance(v, dict) for v in value):
        return MISSING
    found = (member(v, name) if isinstance(v, dict) else None for v in value)
    return [None if v is MISSING else v for v in found]
