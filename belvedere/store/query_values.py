"""From a client's value to the stored form that a statement is bound with.

In: a `Parameter` and a value as JSON carries it. Out: what the database driver takes, or `ValueError` with a text for the
client. The forms are those of `belvedere.store.codec`; nothing here touches SQL text.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from belvedere import instants
from belvedere.store.codec import decimal_form, escaped_text
from belvedere.store.query import Parameter, Role

Convert = Callable[[Any], Any]

_EXACT = Context(prec=200)
LONG_MOST = 2**63 - 1


def converter(parameter: Parameter, dialect: str) -> Convert:
    """The function that turns a client's value for `parameter` into its stored form in `dialect`."""
    role, type_ = parameter.role, parameter.type
    convert = _BY_ROLE[role](dialect) if role in _BY_ROLE else _by_type(type_, role, dialect)
    if not parameter.nullable:
        return convert
    return lambda value: None if value is None else convert(value)


def _by_type(type_: pa.DataType, role: Role, dialect: str) -> Convert:
    types = pa.types
    if types.is_boolean(type_):
        return _boolean if dialect == "postgres" else lambda value: int(_boolean(value))
    if types.is_integer(type_):
        return _integer
    if types.is_floating(type_):
        return _double if dialect == "postgres" else lambda value: "NaN" if math.isnan(x := _double(value)) else x
    if types.is_decimal(type_):
        return _decimal_postgres if dialect == "postgres" else _decimal_sqlite(type_, role)
    if types.is_timestamp(type_):
        return (lambda value: _instant(value).isoformat()) if dialect == "postgres" else microseconds
    if types.is_date(type_):
        return _date_text if dialect == "postgres" else lambda value: (_date(value) - date(1970, 1, 1)).days
    if types.is_binary(type_) or types.is_large_binary(type_):
        return _bytes
    return _text(dialect)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, not {value!r}")
    return value


def _integer(value: Any) -> int:
    if isinstance(value, str) and len(value) < 25:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"expected an integer, not {value!r}")
    if not -LONG_MOST - 1 <= value <= LONG_MOST:
        raise ValueError(f"{value} does not fit into 64 bits")
    return value


def _double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError(f"expected a number, not {value!r}")
    return float(value)


def decimal(value: Any) -> Decimal:
    """A decimal out of JSON: a string such as "12.30", or a number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise ValueError(f"expected a decimal, not {value!r}")
    text = str(value)
    if len(text) > 100:
        raise ValueError("a decimal of more than 100 characters")
    try:
        result = Decimal(text)
    except InvalidOperation:
        raise ValueError(f'expected a decimal such as "12.30", not {value!r}') from None
    if not result.is_finite() or abs(result.adjusted()) > 100:
        raise ValueError(f"expected a finite decimal, not {value!r}")
    return result


def _decimal_postgres(value: Any) -> str:
    return format(decimal(value), "f")


def _decimal_sqlite(type_: pa.DataType, role: Role) -> Convert:
    form = decimal_form(type_)
    bound = Decimal(10) ** (type_.precision - type_.scale)

    def convert(value: Any) -> Any:
        number = decimal(value)
        scaled = _EXACT.scaleb(number, type_.scale)
        whole = scaled.to_integral_value(ROUND_CEILING if role is Role.CEILING else ROUND_FLOOR, _EXACT)
        if role in (Role.EXACT, Role.ARGUMENT) and (whole != scaled or abs(number) >= bound):
            if role is Role.ARGUMENT:
                raise ValueError(f"{number} does not fit DECIMAL({type_.precision}, {type_.scale}) exactly")
            return form.never
        return form.encode(int(whole))

    return convert


def _instant(value: Any) -> datetime:
    if not isinstance(value, str):
        raise ValueError(f"expected a time such as 2020-01-01T08:07:00Z, not {value!r}")
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(f"expected a time such as 2020-01-01T08:07:00Z, not {value!r}") from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def microseconds(value: Any) -> int:
    """A time in RFC 3339 (without an offset: UTC) as microseconds since 1970."""
    return instants.microseconds(_instant(value))


def _date(value: Any) -> date:
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        raise ValueError(f"expected a date such as 2020-01-31, not {value!r}") from None


def _date_text(value: Any) -> str:
    return _date(value).isoformat()


def _bytes(value: Any) -> bytes:
    try:
        return bytes.fromhex(value)
    except (TypeError, ValueError):
        raise ValueError(f"expected hexadecimal digits, not {value!r}") from None


def _text(dialect: str) -> Convert:
    def convert(value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError(f"expected a string, not {value!r}")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("a string with half a surrogate pair") from None
        return escaped_text(value) if dialect == "postgres" else value

    return convert


def _bounded(most: int) -> Convert:
    def convert(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"expected a whole number, not {value!r}")
        if not 0 <= value <= most:
            raise ValueError(f"must be between 0 and {most}, not {value}")
        return value

    return convert


def _patterns(pattern: str) -> list[str | None]:
    """The characters of a LIKE pattern: a list of literal characters, `%` as None and `_` as the empty string."""
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
        raise ValueError("a pattern may have 1000 characters, 10 of them `%`")
    return result


def _cases(character: str) -> set[str]:
    return {character} | {c for c in (character.lower(), character.upper()) if len(c) == 1}


def _pattern(dialect: str, fold: bool) -> Convert:
    """LIKE as GLOB for SQLite and as a regular expression for Postgres, so that case and locale mean the same in both."""
    many, one = ("*", "?") if dialect == "sqlite" else (".*", ".")
    escape = "*?[" if dialect == "sqlite" else ".*+?()[]{}|^$\\"

    def piece(part: str | None) -> str:
        if not part:
            return many if part is None else one
        cases = sorted(_cases(part)) if fold else [part]
        if len(cases) > 1:
            return f"[{''.join(cases)}]"
        if part not in escape:
            return part
        return f"[{part}]" if dialect == "sqlite" else f"\\{part}"

    text = _text(dialect)

    def convert(value: Any) -> str:
        pattern = "".join(map(piece, _patterns(text(value))))
        return pattern if dialect == "sqlite" else f"(?s)^{pattern}$"

    return convert


_BY_ROLE: dict[Role, Callable[[str], Convert]] = {
    Role.LIMIT: lambda _: _bounded(2**31 - 1),
    Role.OFFSET: lambda _: _bounded(2**31 - 1),
    Role.LIKE: lambda dialect: _pattern(dialect, fold=False),
    Role.ILIKE: lambda dialect: _pattern(dialect, fold=True),
    Role.PREFIX: _text,
    Role.CURSOR: lambda _: lambda value: value,
}
