"""Conversion of rows from users and programs to Arrow rows of a table.

In: dicts with Python or JSON values. Out: an Arrow table with the column types of a schema. An invalid row raises a
diagnostic with table, row and column; values are never guessed or truncated.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, InvalidOperation
from functools import cache, partial
from reprlib import Repr
from typing import Any

import pyarrow as pa

from belvedere.errors import BelvedereError, fail
from belvedere.schema import MONTHS, Column
from belvedere.values.instants import EPOCH
from belvedere.values.intervals import interval_of
from belvedere.values.json_numbers import decimal_of
from belvedere.values.months import months_of
from belvedere.values.type_names import a_type

NO_DEFAULTS: Mapping[str, Any] = {}


def arrow_rows(
    table: str, columns: Iterable[Column], rows: Iterable[Mapping[str, Any]], defaults: Mapping[str, Any] = NO_DEFAULTS
) -> pa.Table:
    """Return the rows as Arrow. A missing column has its default, or is NULL; an unknown one is an error. Case is
    ignored.

    Raises BelvedereError B6001 (value), B6002 (unknown column), B6003 (NULL in a NOT NULL column).
    """
    requested = list(columns)
    names = names_of(requested)
    return arrow_of([converted_row(table, n, row, requested, names, defaults) for n, row in enumerate(rows)], requested)


def arrow_of(converted: list[dict[str, Any]], columns: Sequence[Column]) -> pa.Table:
    """Return converted rows as Arrow; missing values are NULL."""
    schema = pa.schema([pa.field(c.name, c.type) for c in columns])
    return pa.table({c.name: pa.array([r.get(c.name) for r in converted], c.type) for c in columns}, schema=schema)


def names_of(columns: Iterable[Column]) -> dict[str, str]:
    """Return the columns' names by their folded form, which rows are matched with."""
    return {c.name.casefold(): c.name for c in columns}


def converted_row(
    table: str,
    number: int,
    row: Mapping[str, Any],
    columns: Sequence[Column],
    names: Mapping[str, str],
    defaults: Mapping[str, Any] = NO_DEFAULTS,
) -> dict[str, Any]:
    """Return row `number` (from 0) with values that Arrow accepts; `names` are `names_of(columns)`.

    Raises the errors of `arrow_rows`.
    """
    given: dict[str, Any] = dict(defaults)
    for name, value in row.items():
        known = names.get(name.casefold())
        if known is None:
            raise unknown_column(f'row {number + 1} of "{table}"', name, columns)
        given[known] = value
    result: dict[str, Any] = {}
    for column in columns:
        value = given.get(column.name)
        if value is None and not column.nullable and not column.hidden:
            raise missing_value(table, number, column)
        try:
            result[column.name] = convert(value, column.type)
        except (ValueError, TypeError, InvalidOperation, OverflowError, pa.ArrowException) as error:
            raise misfit(table, number, column, value, error) from error
    return result


def unknown_column(of: str, name: str, columns: Iterable[Column]) -> BelvedereError:
    """Return the diagnostic for a column in `of` that the table does not have."""
    hint = f"its columns are {', '.join(c.name for c in columns if not c.hidden)}"
    return fail("B6002", f'{of} has a column "{name}" that the table does not have', hint=hint)


def missing_value(table: str, number: int, column: Column) -> BelvedereError:
    """Return the diagnostic for row `number` (from 0) without a required value."""
    return fail("B6003", f'row {number + 1} of "{table}" has no value for "{column.name}", which may not be NULL')


def misfit(table: str, number: int, column: Column, value: Any, error: Exception) -> BelvedereError:
    """Return the diagnostic for a value of row `number` (from 0) that does not match its column; `error` is the
    cause."""
    return fail(
        "B6001",
        f'row {number + 1} of "{table}": {shown(value)} is not {a_type(column.type)} for column "{column.name}"',
        detail=str(error),
    )


_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 200
_SHORT.maxlist = _SHORT.maxdict = _SHORT.maxtuple = 20


def shown(value: Any) -> str:
    """Return a value as text for messages, shortened if it is large or deep."""
    return _SHORT.repr(value)


def convert(value: Any, type_: pa.DataType) -> Any:
    """Return a Python or JSON value in the form that Arrow accepts for the type. Raises ValueError or TypeError."""
    return None if value is None else converter(type_)(value)


@cache
def converter(type_: pa.DataType) -> Callable[[Any], Any]:
    """Return the function by which `convert` handles non-NULL values of the type."""
    if pa.types.is_timestamp(type_):
        return as_instant
    if pa.types.is_date(type_):
        return _as_date
    if type_ == MONTHS:
        return _as_months
    if pa.types.is_duration(type_):
        return _as_interval
    if pa.types.is_decimal(type_):
        return partial(_as_decimal, type_=type_)
    if pa.types.is_boolean(type_):
        return _as_boolean
    if pa.types.is_integer(type_):
        return partial(_as_integer, bits=type_.bit_width)
    if pa.types.is_floating(type_):
        return _as_float
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return _as_text
    if pa.types.is_binary(type_):
        return _as_binary
    return partial(_as_nested, type_=type_)


def _as_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise TypeError("expected true or false")


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        value.encode()  # raises for a lone surrogate
        return value
    raise TypeError("expected a text")


def _as_binary(value: Any) -> bytes:
    if isinstance(value, str):
        return base64.b64decode(value, validate=True)
    if isinstance(value, bytes | bytearray | memoryview):  # `bytes` of a number would return that many zeros
        return bytes(value)
    raise TypeError("expected bytes, or text in base64")


def _as_nested(value: Any, type_: pa.DataType) -> Any:
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
            raise TypeError("expected a list")
        return [convert(v, type_.value_type) for v in value]
    if pa.types.is_struct(type_):
        if not isinstance(value, Mapping):
            raise TypeError("expected an object")
        unknown = set(value) - {f.name for f in type_}
        if unknown:
            raise ValueError(f"unknown field {min(unknown)!r}")
        return {f.name: convert(value.get(f.name), f.type) for f in type_}
    if pa.types.is_map(type_):
        pairs = value.items() if isinstance(value, Mapping) else map(_pair, value)
        return [(convert(k, type_.key_type), convert(v, type_.item_type)) for k, v in pairs]
    return value


def _pair(entry: Any) -> tuple[Any, Any]:
    """Return an entry of a map: a list of key and value, or an object with these two names."""
    if isinstance(entry, Mapping) and entry.keys() == {"key", "value"}:
        return entry["key"], entry["value"]
    if isinstance(entry, list | tuple) and len(entry) == 2:
        return entry[0], entry[1]
    raise TypeError("expected an object, or a list of keys with their values")


_NANOSECONDS = re.compile(r"[.,]\d{6}\d*[1-9]")
"""Pattern of a fraction of a second with digits other than zero below a microsecond."""


def as_instant(value: Any) -> datetime:
    """Return a timestamp from a datetime (naive = UTC), ISO 8601 text, or seconds since 1970."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(value, str):
        parsed = datetime.fromisoformat(value.strip())
        if _NANOSECONDS.search(value):
            raise ValueError("a time has at most microseconds: further digits would be lost")
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return EPOCH + timedelta(seconds=value)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    raise TypeError("expected a time such as 2020-01-01 08:07:00")


def _as_date(value: Any) -> date:
    if isinstance(value, datetime):
        if value.time().replace(tzinfo=None) != time():
            raise ValueError("expected a date: the time of day would be lost")
        return value.date()
    if isinstance(value, str) and len(value.strip()) > len("2020-01-31"):
        return _as_date(datetime.fromisoformat(value.strip()))
    return value if isinstance(value, date) else date.fromisoformat(value)


def _as_interval(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str):
        return interval_of(value)
    raise TypeError("expected a timedelta, or text such as P1DT2H30M")


def _as_months(value: Any) -> int:
    if isinstance(value, str):
        return months_of(value)
    raise TypeError("expected text such as P1Y2M")


_WIDE = Context(prec=100)
"""Decimal context with more digits than any type has; the default of 28 digits would reject valid numbers."""


def _as_decimal(value: Any, type_: pa.DataType) -> Decimal:
    if isinstance(value, bool):
        raise TypeError("expected a number")
    number = decimal_of(value) if isinstance(value, float) else Decimal(_digits(value))
    if not number.is_finite():
        raise ValueError("expected a finite number")
    scaled = number.quantize(Decimal(1).scaleb(-type_.scale), context=_WIDE)
    if len(scaled.as_tuple().digits) > type_.precision and scaled != 0:
        raise ValueError(f"more than {type_.precision} digits")
    if scaled != number:
        places = f"at most {type_.scale} digits after the point" if type_.scale else "a whole number"
        raise ValueError(f"expected {places}: the column is DECIMAL({type_.precision}, {type_.scale})")
    return scaled


def _digits(value: Any) -> Any:
    """Return a value that must be a number. In texts Python would also read `1_000`, and digits of other scripts."""
    if isinstance(value, str) and ("_" in value or not value.isascii()):
        raise ValueError("expected a number")
    return value


def _as_integer(value: Any, bits: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise TypeError("expected a whole number")
    number = int(_digits(value))
    if not isinstance(value, str) and number != value:
        raise ValueError("expected a whole number")
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise ValueError(f"does not fit in {bits} bits")
    return number


def _as_float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise TypeError("expected a number")
    number = float(_digits(value))
    if isinstance(value, str) and not math.isfinite(number) and value.strip().lower().lstrip("+-") not in _SPECIAL:
        raise ValueError("expected a number")
    return number


_SPECIAL = {"nan", "inf", "infinity"}
