"""The exact stored form of each Arrow type: the part that dialects share.

In: a dialect, an Arrow type, arrays of it. Out: a `StoredForm`: the column's SQL type, the flat Arrow type that the
driver transfers, and the conversions both ways. Stored values are equal if their flat arrays are equal (NaN equals
NaN).

| Arrow | SQLite | Postgres |
|---|---|---|
| bool | INTEGER 0 or 1 | boolean |
| integers | INTEGER | smallint, integer, bigint |
| float, double | no type; NaN is the text `NaN`, which sorts last as in Spark | real, double precision |
| decimal, up to 18 digits | INTEGER, times 10^scale | numeric |
| decimal, more digits | TEXT of fixed width that sorts as the number (`sqlite_decimals`) | numeric |
| string | TEXT | text COLLATE "C"; U+0000 as U+0001 U+0001, U+0001 as U+0001 U+0002 |
| binary | BLOB | bytea |
| date | INTEGER, days since 1970 | date |
| timestamp in microseconds | INTEGER, microseconds since 1970 UTC | timestamptz; without a zone timestamp |
| other timestamps, times, durations | INTEGER in the type's unit | bigint |
| list, struct, map, calendar interval | TEXT, `nested_json` | text |
| values packed in a group's state | BLOB, eight bytes each | bytea |
| null | INTEGER, always NULL | bigint |

It does not handle tables, connections or SQL statements.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.errors import fail
from belvedere.schema import PACKED
from belvedere.store.dialects.dialect import Dialect
from belvedere.store.dialects.nested_json import from_json, is_bytes, is_list, to_json
from belvedere.store.dialects.stored_form import StoredForm, TypeNames, casting, is_text

_TYPES = pa.types


@lru_cache(maxsize=4096)
def form(dialect: Dialect, type_: pa.DataType) -> StoredForm:
    """Return the form of a type in a dialect.

    Raises B7012 for a type that no view can have (64-bit unsigned, dictionaries).
    """
    found = dialect.native(type_) or _general(dialect.names, type_)
    if found is None:
        hint = "cast it in the query to another type of Spark"
        raise fail("B7012", f"a column of the type {type_} cannot be stored", hint=hint)
    return found


def scalar(dialect: Dialect, type_: pa.DataType, value: Any) -> Any:
    """Convert one Python value to its stored form, as a Python value to bind.

    Raises B7012 if the value is not of the type.
    """
    try:
        return form(dialect, type_).encode(pa.array([value], type_))[0].as_py()
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise fail("B7012", f"the value {value!r} does not have the type {type_}", detail=str(error)) from error


def _general(names: TypeNames, type_: pa.DataType) -> StoredForm | None:
    """Return the form of a type for which a database needs only integers, doubles, texts and bytes."""
    integer, text = pa.int64(), pa.string()
    if _TYPES.is_null(type_):
        return StoredForm(names.integer, integer, lambda a: pa.nulls(len(a), integer), lambda a: pa.nulls(len(a)))
    if _TYPES.is_time32(type_):
        return casting(names.integer, type_, pa.int32(), integer)
    if _TYPES.is_integer(type_) and not _TYPES.is_uint64(type_):
        return casting(names.integer, type_, integer)
    if _TYPES.is_timestamp(type_) or _TYPES.is_duration(type_) or _TYPES.is_time64(type_):
        return casting(names.integer, type_, integer)
    if _TYPES.is_floating(type_):
        return casting(names.double, type_, pa.float64())
    if is_text(type_):
        return casting(names.text, type_, text)
    if type_ == PACKED:
        return StoredForm(names.blob, pa.binary(), _bytes_of, _packed_of)
    if is_bytes(type_):
        return casting(names.blob, type_, pa.binary())
    if _TYPES.is_struct(type_) or _TYPES.is_map(type_) or is_list(type_) or _TYPES.is_interval(type_):
        return StoredForm(names.text, text, to_json, lambda a: from_json(a, type_))
    return None


def _bytes_of(lists: pa.Array) -> pa.Array:
    """Return the values of each list as bytes: the same buffers under another type."""
    compact = pa.concat_arrays([lists])
    offsets = pc.multiply(compact.offsets, 8).cast(pa.int32())
    values = compact.values
    data = values.buffers()[1]
    if data is None:
        data = pa.py_buffer(b"")
    buffers = [compact.buffers()[0], offsets.buffers()[1], data.slice(8 * values.offset)]
    return pa.Array.from_buffers(pa.binary(), len(compact), buffers, null_count=compact.null_count)


def _packed_of(texts: pa.Array) -> pa.Array:
    """Convert the result of `_bytes_of` back."""
    compact = pa.concat_arrays([texts.cast(pa.large_binary())])
    validity, places, data = compact.buffers()
    ends = pa.Array.from_buffers(pa.int64(), len(compact) + 1, [None, places])
    offsets = pc.divide(ends, 8)
    content = pa.py_buffer(b"") if data is None else data
    values = pa.Array.from_buffers(pa.float64(), offsets[-1].as_py(), [None, content])
    return pa.Array.from_buffers(
        PACKED, len(compact), [validity, offsets.buffers()[1]], null_count=compact.null_count, children=[values]
    )
