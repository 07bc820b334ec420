"""How each Arrow type is stored in SQLite and in Postgres, exactly.

In: an Arrow type, arrays of it. Out: a `Form`: the column's SQL type, the flat Arrow type that the driver moves, and the
conversions both ways. Equality of stored values is equality of their flat arrays (NaN equals NaN).

| Arrow | SQLite | Postgres |
|---|---|---|
| bool | INTEGER 0 or 1 | boolean |
| integers | INTEGER | smallint, integer, bigint |
| float, double | REAL; NaN is the text `NaN`, which sorts last as in Spark | real, double precision |
| decimal, up to 18 digits | INTEGER, times 10^scale | numeric |
| decimal, more digits | TEXT of fixed width that sorts as the number (`DecimalForm`) | numeric |
| string | TEXT | text COLLATE "C"; U+0000 as U+0001 U+0001, U+0001 as U+0001 U+0002 |
| binary | BLOB | bytea |
| date | INTEGER, days since 1970 | date |
| timestamp in microseconds | INTEGER, microseconds since 1970 UTC | timestamptz; without a zone timestamp |
| other timestamps, times, lengths of time | INTEGER in the type's unit | bigint |
| list, struct, map, calendar interval | TEXT, `belvedere.store.nested` | text |
| values packed in a group's state | BLOB, eight bytes each | bytea |
| null | INTEGER, always NULL | bigint |

It does not know tables, connections or SQL statements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.errors import fail
from belvedere.schema import PACKED
from belvedere.store.nested import from_json, is_bytes, is_list, to_json

Encode = Callable[[pa.Array], pa.Array]

_DIGITS = 38
_NARROW = 18
"""Decimals of so many digits fit into 64 bits."""
_TYPES = pa.types


@dataclass(frozen=True)
class Form:
    """How one type is stored. `encode` gives an array of the type `flat`; `decode` takes it back."""

    sql: str
    flat: pa.DataType
    encode: Encode
    decode: Encode


@lru_cache(maxsize=4096)
def form(dialect: str, type_: pa.DataType) -> Form:
    """The form of a type in a dialect; raises B7012 for a type that no view can have (64-bit unsigned, dictionaries)."""
    found = _native(type_) if dialect == "postgres" else None
    return found or _by_integer(dialect, type_) or _by_text(dialect, type_) or _unsupported(type_)


def _unsupported(type_: pa.DataType) -> Form:
    raise fail("B7012", f"a column of the type {type_} cannot be stored", hint="cast it in the query to a type that Spark has")


def _casting(sql: str, flat: pa.DataType, type_: pa.DataType) -> Form:
    return Form(sql, flat, lambda a: a if a.type == flat else a.cast(flat), lambda a: a if a.type == type_ else a.cast(type_))


def _native(type_: pa.DataType) -> Form | None:
    """The types that Postgres has itself."""
    if _TYPES.is_boolean(type_):
        return _casting("boolean", type_, type_)
    if _TYPES.is_int8(type_) or _TYPES.is_int16(type_) or _TYPES.is_uint8(type_):
        return _casting("smallint", pa.int16(), type_)
    if _TYPES.is_int32(type_) or _TYPES.is_uint16(type_):
        return _casting("integer", pa.int32(), type_)
    if _TYPES.is_float16(type_) or _TYPES.is_float32(type_):
        return _casting("real", pa.float32(), type_)
    if _TYPES.is_decimal(type_) and type_.precision <= _DIGITS and type_.scale >= 0:
        flat = pa.decimal128(type_.precision, type_.scale)
        return _casting(f"numeric({type_.precision},{type_.scale})", flat, type_)
    if _TYPES.is_date(type_):
        return _casting("date", pa.date32(), type_)
    if _TYPES.is_timestamp(type_) and type_.unit == "us":
        flat = pa.timestamp("us", tz="UTC") if type_.tz else pa.timestamp("us")
        return _casting("timestamptz" if type_.tz else "timestamp", flat, type_)
    return None


def _by_integer(dialect: str, type_: pa.DataType) -> Form | None:
    sql = "bigint" if dialect == "postgres" else "INTEGER"
    flat = pa.int64()
    if _TYPES.is_null(type_):
        return Form(sql, flat, lambda a: pa.nulls(len(a), flat), lambda a: pa.nulls(len(a)))
    if _TYPES.is_boolean(type_) or (_TYPES.is_integer(type_) and not _TYPES.is_uint64(type_)):
        return _casting(sql, flat, type_)
    if _TYPES.is_date(type_):
        days, date = pa.int32(), pa.date32()
        return Form(sql, flat, lambda a: a.cast(date).cast(days).cast(flat), lambda a: a.cast(days).cast(date).cast(type_))
    if _TYPES.is_timestamp(type_) and type_.unit == "us":
        return Form(sql, flat, lambda a: a.cast(flat), lambda a: a.cast(type_))
    if _TYPES.is_timestamp(type_) or _TYPES.is_duration(type_) or _TYPES.is_time64(type_):
        return Form(sql, flat, lambda a: a.cast(flat), lambda a: a.cast(type_))
    if _TYPES.is_time32(type_):
        return Form(sql, flat, lambda a: a.cast(pa.int32()).cast(flat), lambda a: a.cast(pa.int32()).cast(type_))
    if _TYPES.is_decimal(type_) and type_.precision <= _NARROW and type_.scale >= 0:
        return Form(sql, flat, _unscaled_integer, lambda a: _scaled(a, type_))
    return None


def _by_text(dialect: str, type_: pa.DataType) -> Form | None:
    postgres = dialect == "postgres"
    text = 'text COLLATE "C"' if postgres else "TEXT"
    flat = pa.string()
    if _TYPES.is_floating(type_):
        # no type in SQLite: the affinity REAL would make 0.0 of -0.0
        return _casting("double precision" if postgres else "", pa.float64(), type_)
    if _TYPES.is_string(type_) or _TYPES.is_large_string(type_) or _TYPES.is_string_view(type_):
        if postgres:
            return Form(text, flat, lambda a: _escape(a.cast(flat)), lambda a: _unescape(a).cast(type_))
        return _casting(text, flat, type_)
    if type_ == PACKED:
        return Form("bytea" if postgres else "BLOB", pa.binary(), _bytes_of, _packed_of)
    if is_bytes(type_):
        return _casting("bytea" if postgres else "BLOB", pa.binary(), type_)
    if _TYPES.is_decimal(type_) and type_.precision <= _DIGITS and type_.scale >= 0:
        return Form(text, flat, _wide_text, lambda a: _from_wide_text(a, type_))
    if _TYPES.is_struct(type_) or _TYPES.is_map(type_) or is_list(type_) or _TYPES.is_interval(type_):
        return Form(text, flat, to_json, lambda a: from_json(a, type_))
    return None


# --- decimals -----------------------------------------------------------------------------------------------------------


def _unscaled(values: pa.Array) -> pa.Array:
    """A decimal array times 10^scale, as decimal(38, 0): the same bytes under another type."""
    plain = values.cast(pa.decimal128(values.type.precision, values.type.scale))
    return pa.Array.from_buffers(pa.decimal128(_DIGITS, 0), len(plain), plain.buffers(), offset=plain.offset)


def _unscaled_integer(values: pa.Array) -> pa.Array:
    return _unscaled(values).cast(pa.int64())


def _scaled(integers: pa.Array, type_: pa.DataType) -> pa.Array:
    wide = integers.cast(pa.decimal128(19, 0)) if integers.type == pa.int64() else integers
    compact = pa.concat_arrays([wide])
    exact = pa.decimal128(type_.precision, type_.scale)
    return pa.Array.from_buffers(exact, len(compact), compact.buffers(), offset=compact.offset).cast(type_)


def _wide_text(values: pa.Array) -> pa.Array:
    """`1` and the digits of a number from zero on; `0` and the nines' complement of the digits of one below."""
    digits = values.type.precision
    number = _unscaled(values).cast(pa.decimal256(_DIGITS, 0))
    whole, nines = _constant(10**digits), _constant(10**digits - 1)
    shifted = pc.add(number, pc.if_else(pc.less(number, _constant(0)), nines, whole))
    return pc.utf8_lpad(shifted.cast(pa.string()), digits + 1, "0")


def _from_wide_text(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    digits = type_.precision
    shifted = texts.cast(pa.decimal256(digits + 1, 0))
    whole, nines = _constant(10**digits), _constant(10**digits - 1)
    number = pc.subtract(shifted, pc.if_else(pc.less(shifted, whole), nines, whole))
    return _scaled(number.cast(pa.decimal128(_DIGITS, 0), safe=True), type_)


def _constant(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.decimal256(_DIGITS + 1, 0))


@dataclass(frozen=True)
class DecimalForm:
    """A decimal's stored form in SQLite, one value at a time: what a query binds and reads."""

    precision: int
    scale: int

    @property
    def never(self) -> int | str:
        """A value that no stored decimal equals."""
        return -(2**63) if self.precision <= _NARROW else ""

    def encode(self, unscaled: int) -> int | str:
        """The stored form of `unscaled` / 10^scale; beyond the type's range: a value on that side of all stored ones."""
        bound: int = 10**self.precision
        if self.precision <= _NARROW:
            return max(-bound, min(bound, unscaled))
        if abs(unscaled) >= bound:
            return "2" if unscaled > 0 else ""
        return str(unscaled + (bound if unscaled >= 0 else bound - 1)).rjust(self.precision + 1, "0")

    def decode(self, stored: int | str) -> int:
        """The unscaled number of a stored value."""
        if isinstance(stored, int):
            return stored
        bound: int = 10**self.precision
        return int(stored) - (bound if stored.startswith("1") else bound - 1)


def decimal_form(type_: pa.DataType) -> DecimalForm:
    """The form of a decimal type in SQLite."""
    return DecimalForm(type_.precision, type_.scale)


def decimal_to_text_sql(sql: str, type_: pa.DataType) -> str:
    """SQLite's SQL for a stored decimal as text with all digits of its scale, such as `-12.30`; NULL for NULL."""
    precision, scale = type_.precision, type_.scale
    if precision <= _NARROW:
        if scale == 0:
            return f"CAST({sql} AS TEXT)"
        power = 10**scale
        return f"(CASE WHEN {sql}<0 THEN '-' ELSE '' END||(abs({sql})/{power})||printf('.%0{scale}d',abs({sql})%{power}))"
    positive, negative = _digits_sql(f"substr({sql},2)", type_), _digits_sql(_complement_sql(f"substr({sql},2)"), type_)
    return f"CASE substr({sql},1,1) WHEN '1' THEN {positive} WHEN '0' THEN '-'||{negative} END"


def _complement_sql(digits: str) -> str:
    for low in range(5):
        for old, new in ((low, "x"), (9 - low, low), ("x", 9 - low)):
            digits = f"replace({digits},'{old}','{new}')"
    return digits


def _digits_sql(digits: str, type_: pa.DataType) -> str:
    before = type_.precision - type_.scale
    whole = f"coalesce(nullif(ltrim(substr({digits},1,{before}),'0'),''),'0')" if before else "'0'"
    return whole if type_.scale == 0 else f"{whole}||'.'||substr({digits},{before + 1})"


# --- packed values --------------------------------------------------------------------------------------------------------


def _bytes_of(lists: pa.Array) -> pa.Array:
    """The values of each list as its bytes: the same buffers under another type."""
    compact = pa.concat_arrays([lists])
    offsets = pc.multiply(compact.offsets, 8).cast(pa.int32())
    values = compact.values
    data = values.buffers()[1]
    if data is None:
        data = pa.py_buffer(b"")
    buffers = [compact.buffers()[0], offsets.buffers()[1], data.slice(8 * values.offset)]
    return pa.Array.from_buffers(pa.binary(), len(compact), buffers, null_count=compact.null_count)


def _packed_of(texts: pa.Array) -> pa.Array:
    """The inverse of `_bytes_of`."""
    compact = pa.concat_arrays([texts.cast(pa.large_binary())])
    validity, places, data = compact.buffers()
    ends = pa.Array.from_buffers(pa.int64(), len(compact) + 1, [None, places])
    offsets = pc.divide(ends, 8)
    content = pa.py_buffer(b"") if data is None else data
    values = pa.Array.from_buffers(pa.float64(), offsets[-1].as_py(), [None, content])
    return pa.Array.from_buffers(
        PACKED, len(compact), [validity, offsets.buffers()[1]], null_count=compact.null_count, children=[values]
    )


# --- strings in Postgres, which has no U+0000 ----------------------------------------------------------------------------


def _escape(texts: pa.Array) -> pa.Array:
    if not _has_low_bytes(texts):
        return texts
    return pc.replace_substring(pc.replace_substring(texts, "\x01", "\x01\x02"), "\x00", "\x01\x01")


def _unescape(texts: pa.Array) -> pa.Array:
    if not _has_low_bytes(texts):
        return texts
    return pc.replace_substring(pc.replace_substring(texts, "\x01\x01", "\x00"), "\x01\x02", "\x01")


def _has_low_bytes(texts: pa.Array) -> bool:
    data = texts.buffers()[-1]
    if data is None:
        return False
    content = data.to_pybytes()
    return b"\x00" in content or b"\x01" in content


def escaped_text(text: str) -> str:
    """A string as Postgres stores it."""
    return text.replace("\x01", "\x01\x02").replace("\x00", "\x01\x01")


def unescaped_text(text: str) -> str:
    """The inverse of `escaped_text`."""
    return text.replace("\x01\x01", "\x00").replace("\x01\x02", "\x01")


def scalar(dialect: str, type_: pa.DataType, value: Any) -> Any:
    """One Python value in its stored form, as a Python value to bind; raises B7012 where it is none of the type."""
    try:
        return form(dialect, type_).encode(pa.array([value], type_))[0].as_py()
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise fail("B7012", f"the value {value!r} does not have the type {type_}", detail=str(error)) from error
