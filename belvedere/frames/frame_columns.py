"""Frames of callers -> their columns as Arrow arrays.

In: a DataFrame of pandas, Polars or Spark, a Table or RecordBatch of Arrow, or any object with Arrow's PyCapsule
interface (https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html), such as a relation of DuckDB.
Out: its columns by name, or an Arrow table in the types that Spark and the stores share. Other values, and columns
without such a type, raise B6015.
"""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

import pyarrow as pa

from belvedere.errors import BelvedereError, fail
from belvedere.frames.plain_values import plain
from belvedere.schema import TIMESTAMP

NO_FRAME = "B6015"
REQUESTED = "a DataFrame of pandas or Polars, or a Table of Arrow"
Values: TypeAlias = pa.ChunkedArray | list[Any]
"""A column: an Arrow array, or a list of values if pandas' objects have no common type."""


def is_frame(value: Any) -> bool:
    """Return whether a value has columns that Arrow can read."""
    return any(hasattr(value, name) for name in ("__arrow_c_stream__", "__arrow_c_array__", "toArrow"))


def no_frame(value: Any, what: str, requested: str = REQUESTED) -> BelvedereError:
    """Return the diagnostic for a value that is neither a frame nor another accepted form of `what`."""
    if hasattr(value, "to_frame"):
        hint = "convert a single column by .to_frame()"
    elif hasattr(value, "collect"):
        hint = "compute a lazy frame by .collect()"
    else:
        hint = f"give {requested}"
    return fail(NO_FRAME, f"{what} needs a frame, not {type(value).__name__}", hint=hint)


def frame_columns(frame: Any, what: str) -> dict[str, Values]:
    """Return the columns of a frame by name.

    pandas' NaN, NaT and NA are NULL; the levels of a named index are columns, too. Raises B6015 if the value is not a
    frame, or two columns have the same name.
    """
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(frame, pandas.DataFrame):
        pairs = [(str(name), _of_series(values)) for name, values in _with_index(frame, what).items()]
    else:
        table = _arrow_table(frame, what)
        pairs = [(name, _decoded(values)) for name, values in zip(table.column_names, table.columns, strict=True)]
    columns = dict(pairs)
    if len(columns) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(n for n in names if names.count(n) > 1)
        raise fail(NO_FRAME, f'the frame for {what} has two columns "{twice}"', hint="rename one of them")
    return columns


def frame_table(frame: Any, what: str) -> pa.Table:
    """Return the frame with types that Spark has. Times are instants in UTC (naive times are UTC)."""
    return pa.table({name: _known(values, name, what) for name, values in frame_columns(frame, what).items()})


def _with_index(frame: Any, what: str) -> Any:
    if all(name is None for name in frame.index.names):
        return frame
    try:
        return frame.reset_index()
    except ValueError as error:
        hint = "rename the index, or drop it by .reset_index(drop=True)"
        raise fail(NO_FRAME, f"the index of the frame for {what} cannot become a column: {error}", hint=hint) from None


def _arrow_table(frame: Any, what: str) -> pa.Table:
    if not is_frame(frame):
        raise no_frame(frame, what)
    try:
        return frame.toArrow() if hasattr(frame, "toArrow") else pa.table(frame)
    except (TypeError, ValueError, pa.ArrowException):
        raise no_frame(frame, what) from None


def _of_series(series: Any) -> Values:
    """Return a column of pandas. Arrow would merge different dicts into one struct, so nested objects are read one by
    one."""
    try:
        found = pa.Array.from_pandas(series)
    except (TypeError, ValueError, OverflowError, pa.ArrowException):
        return list(series)
    if series.dtype == object and pa.types.is_nested(found.type):
        return list(series)
    return _decoded(found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found]))


def _decoded(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return categories as their values; Arrow cannot decode Polars' string views."""
    if not pa.types.is_dictionary(values.type):
        return values
    type_ = pa.string() if is_text(values.type.value_type) else values.type.value_type
    chunks = [pa.DictionaryArray.from_arrays(c.indices, c.dictionary.cast(type_)).cast(type_) for c in values.chunks]
    return pa.chunked_array(chunks, type_)


def _known(values: Values, name: str, what: str) -> pa.ChunkedArray:
    try:
        found = (
            values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([pa.array([plain(v) for v in values])])
        )
        return found.cast(_known_type(found.type))
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        message = f'column "{name}" of the frame for {what} cannot be read'
        raise fail(NO_FRAME, message, hint="cast it to a type of SQL", detail=str(error)) from None


def _known_type(type_: pa.DataType) -> pa.DataType:
    """Return the SQL type that holds all values of a type. Raises TypeError if there is none."""
    if is_text(type_):
        return pa.string()
    if is_bytes(type_):
        return pa.binary()
    if pa.types.is_timestamp(type_):
        return TIMESTAMP
    if pa.types.is_date64(type_):
        return pa.date32()
    if pa.types.is_duration(type_):
        return pa.duration("us")
    if pa.types.is_float16(type_):
        return pa.float32()
    if pa.types.is_unsigned_integer(type_):
        return {8: pa.int16(), 16: pa.int32(), 32: pa.int64()}.get(type_.bit_width) or pa.decimal128(20, 0)
    if pa.types.is_decimal(type_):
        return pa.decimal128(min(type_.precision, 38), type_.scale)
    if pa.types.is_time(type_):
        raise TypeError("times of day are not supported: convert it to a text or a timestamp")
    if is_list(type_):
        return pa.list_(_known_type(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([f.with_type(_known_type(f.type)) for f in type_])
    if pa.types.is_map(type_):
        return pa.map_(_known_type(type_.key_type), _known_type(type_.item_type))
    return type_


def is_text(type_: pa.DataType) -> bool:
    """Return whether values of the type are texts."""
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def is_bytes(type_: pa.DataType) -> bool:
    """Return whether values of the type are bytes."""
    is_plain = pa.types.is_binary(type_) or pa.types.is_large_binary(type_)
    return bool(is_plain or pa.types.is_binary_view(type_) or pa.types.is_fixed_size_binary(type_))


def is_list(type_: pa.DataType) -> bool:
    """Return whether values of the type are lists."""
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_))
