"""Conversion of a client's value to the stored form that a statement binds.

In: a `BoundValue` and a value from JSON. Out: a value for the database driver, or `ValueError` with a text for the
client. The forms are those of `belvedere.store.dialects.codec`; nothing here changes SQL text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from belvedere.schema import MONTHS
from belvedere.store.dialects.dialect import Dialect, is_binary
from belvedere.store.dialects.float32 import single
from belvedere.store.dialects.nested_json import member_text
from belvedere.store.dialects.stored_form import is_text
from belvedere.store.read.query import BoundValue, Role
from belvedere.values import instants
from belvedere.values.intervals import interval_of
from belvedere.values.json_numbers import decimal_of
from belvedere.values.months import months_of

Convert = Callable[[Any], Any]

LONG_MOST = 2**63 - 1
_DIGITS = re.compile(r"-?[0-9]{1,19}")
_DECIMAL = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(
    rf"({_DAY.pattern})(?:[Tt ]([0-9]{{2}}:[0-9]{{2}}(?::[0-9]{{2}}(?:\.([0-9]{{1,30}}))?)?) "
    rf"?([Zz]|[-+][0-9]{{2}}:?[0-9]{{2}})?)?"
)
_HEXADECIMAL = re.compile(r"([0-9a-fA-F]{2})*")


def is_long(type_: pa.DataType) -> bool:
    """Return whether an integer type needs more than the 32 bits of GraphQL's Int."""
    return bool(type_.bit_width == 64 or type_ == pa.uint32())


def converter(parameter: BoundValue, dialect: Dialect) -> Convert:
    """Return the function that converts a client's value for `parameter` to its stored form in `dialect`."""
    convert = _converter(parameter.role, parameter.type, dialect)
    if not parameter.nullable:
        return convert
    return lambda value: None if value is None else convert(value)


def _converter(role: Role, type_: pa.DataType, dialect: Dialect) -> Convert:
    match role:
        case Role.LIMIT | Role.OFFSET:
            return _bound
        case Role.LIKE | Role.ILIKE:
            return lambda value: _pattern(dialect.stored(_text(value), type_, role), dialect, fold=role is Role.ILIKE)
        case Role.MEMBER:
            return lambda value: dialect.stored(member_text(_reader(type_)(value), type_), pa.string(), role)
        case Role.CURSOR:
            return lambda value: _taken_back(value, type_, dialect)
    read = _text if role is Role.PREFIX else _reader(type_)
    return lambda value: dialect.stored(read(value), type_, role)


def _reader(type_: pa.DataType) -> Convert:
    return next((read for test, read in _READERS if test(type_)), _text)


def _taken_back(value: Any, type_: pa.DataType, dialect: Dialect) -> Any:
    try:
        return dialect.taken_back(value, type_)
    except (TypeError, ValueError):
        raise ValueError("not a value of this cursor") from None


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, not {value!r}")
    return value


def long_number(value: Any) -> int:
    """Return a 64-bit integer from a number, or from a text of digits, as sent by clients whose numbers are doubles."""
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not -LONG_MOST - 1 <= value <= LONG_MOST:
        raise ValueError(f"expected a whole number of 64 bits, not {_shown(value)}")
    return value


def _int_number(value: Any) -> int:
    """Return a 32-bit integer. 5.0 is one, as in GraphQL."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**31) <= value < 2**31:
        raise ValueError(f"expected a whole number of 32 bits, not {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 50 else text[:50] + "..."


def _double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError(f"expected a number, not {_shown(value)}")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise ValueError("a number beyond the range of a double")
    return found


def decimal(value: Any) -> Decimal:
    """Return a decimal from JSON: a string such as "12.30", or a number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise ValueError(f"expected a decimal, not {value!r}")
    text = str(value)
    if len(text) > 100:
        raise ValueError("a decimal of more than 100 characters")
    if isinstance(value, str) and not _DECIMAL.fullmatch(text):
        raise ValueError(f'expected a decimal such as "12.30", not {value!r}')
    try:
        result = decimal_of(value) if isinstance(value, float) else Decimal(text)
    except InvalidOperation:
        raise ValueError(f'expected a decimal such as "12.30", not {value!r}') from None
    if not result.is_finite() or abs(result.adjusted()) > 100:
        raise ValueError(f"expected a finite decimal, not {value!r}")
    return result


def _instant(value: Any) -> datetime:
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"expected a time such as 2020-01-01T08:07:00Z, not {_shown(value)}")
    day, clock, fraction, offset = found.groups()
    if fraction and fraction[6:].strip("0"):
        raise ValueError(f"a time has at most microseconds: {_shown(value)}")
    text = f"{day}T{clock or '00:00'}" + (f".{fraction[:6]}" if fraction else "") + (offset or "Z").upper()
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        raise ValueError(f"expected a time such as 2020-01-01T08:07:00Z, not {_shown(value)}") from None
    except OverflowError:
        raise ValueError(f"a time outside the years 1 to 9999 of UTC: {value!r}") from None


def microseconds(value: Any) -> int:
    """Return a time in RFC 3339 (without an offset: UTC) as microseconds since 1970."""
    return instants.microseconds(_instant(value))


def _date(value: Any) -> date:
    try:
        if _DAY.fullmatch(value):
            return date.fromisoformat(value)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"expected a date such as 2020-01-31, not {_shown(value)}")


def interval(value: Any) -> timedelta:
    """Parse a day-time interval in the form of ISO 8601 or Spark."""
    if not isinstance(value, str):
        raise ValueError(f"expected an interval such as P1DT2H30M, not {value!r}")
    return interval_of(value)


def months(value: Any) -> int:
    """Parse a year-month interval in the form of ISO 8601 or Spark."""
    if not isinstance(value, str):
        raise ValueError(f"expected an interval such as P1Y2M, not {value!r}")
    return months_of(value)


def _bytes(value: Any) -> bytes:
    if not isinstance(value, str) or not _HEXADECIMAL.fullmatch(value):
        raise ValueError(f"expected hexadecimal digits, not {_shown(value)}")
    return bytes.fromhex(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected a string, not {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("a string with a lone surrogate") from None
    return value


def _bound(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"expected a whole number, not {value!r}")
    if not 0 <= value < 2**31:
        raise ValueError(f"must be between 0 and {2**31 - 1}, not {value}")
    return value


def _patterns(pattern: str) -> list[str | None]:
    """Return the characters of a LIKE pattern: literal characters, `%` as None and `_` as the empty string."""
    result: list[str | None] = []
    escaped = False
    for character in pattern:
        if escaped or character not in "%_\\":
            result.append(character)
            escaped = False
        elif character == "\\":
            escaped = True
        else:
            result.append(None if character == "%" else "")
    if escaped:
        raise ValueError("a pattern must not end with a single backslash")
    if sum(p is None for p in result) > 10 or len(result) > 1_000:
        raise ValueError("a pattern may have at most 1000 characters and 10 `%`")
    return result


def _cases(character: str) -> set[str]:
    return {character} | {c for c in (character.lower(), character.upper()) if len(c) == 1}


def _pattern(text: str, dialect: Dialect, fold: bool) -> str:
    """Translate LIKE to the dialect's own patterns, so that case and locale have the same effect in all databases."""
    how = dialect.patterns
    unsaid = next((c for c in how.unsaid if c in text), None)
    if unsaid is not None:
        raise ValueError(f"a pattern must not have U+{ord(unsaid):04X}")

    def piece(part: str | None) -> str:
        if not part:
            return how.many if part is None else how.one
        cases = sorted(_cases(part)) if fold else [part]
        if len(cases) > 1:
            return f"[{''.join(cases)}]"
        return how.escaped.format(part) if part in how.special else part

    return how.whole.format("".join(map(piece, _patterns(text))))


_READERS: tuple[tuple[Callable[[pa.DataType], bool], Convert], ...] = (
    (is_text, _text),
    (pa.types.is_boolean, _boolean),
    (lambda type_: pa.types.is_integer(type_) and is_long(type_), long_number),
    (pa.types.is_integer, _int_number),
    (pa.types.is_float32, lambda value: single(_double(value))),
    (pa.types.is_floating, _double),
    (pa.types.is_decimal, decimal),
    (pa.types.is_timestamp, _instant),
    (pa.types.is_date, _date),
    (lambda type_: type_ == MONTHS, months),
    (pa.types.is_duration, interval),
    (is_binary, _bytes),
)
