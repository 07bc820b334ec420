"""Conversion of Postgres' texts to columns.

In: values of a column as Postgres writes them (`server.SETTINGS`). Out: an Arrow array, and the reasons of values that
do not fit (infinite times, NaN in a DECIMAL, bytes that are not text): such rows are rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.connectors.reading.misfits import misfit_of
from belvedere.schema import Column
from belvedere.values.decimals import decimals_of
from belvedere.values.rejections import Reason, RejectionKind

T = pa.types
_BOOLEANS = {"t": True, "true": True, "f": False, "false": False}
Text = bytes | None
MISFITS = (pa.ArrowException, ValueError, KeyError)


def column_of(texts: Sequence[Text] | pa.StringArray, column: Column) -> tuple[pa.Array, dict[int, Reason]]:
    """Return the values, with NULL for values that do not fit, and the reasons of these by index."""
    try:
        array = texts if isinstance(texts, pa.StringArray) else pa.array(texts, pa.binary()).cast(pa.string())
        return _cast(array, column.type), {}
    except MISFITS:
        values, misfits = list[Any](), dict[int, Reason]()
        for place, text in enumerate(texts):
            value = text.as_py() if isinstance(text, pa.Scalar) else text
            try:
                values.append(_one(value, column.type))
            except MISFITS as error:
                values.append(None)
                misfits[place] = _why(value or b"", column, error)
        return pa.array(values, column.type), misfits


def _one(text: bytes | str | None, type_: pa.DataType) -> Any:
    said = text.decode() if isinstance(text, bytes) else text
    if said is not None and T.is_floating(type_):
        if "_" in said:  # accepted by Python alone
            raise ValueError(said)
        return float(said)
    return None if said is None else _cast(pa.array([said], pa.string()), type_)[0].as_py()


def _why(text: bytes | str, column: Column, error: Exception) -> Reason:
    if isinstance(error, UnicodeDecodeError):
        return Reason(f'column "{column.name}": byte {error.start + 1} is not UTF-8', RejectionKind.ENCODING)
    return misfit_of(column, (text if isinstance(text, str) else text.decode(errors="replace"))[:200])


def _cast(array: pa.StringArray, type_: pa.DataType) -> pa.Array:
    if T.is_boolean(type_):
        places = pc.index_in(array, value_set=pa.array(_BOOLEANS))
        if places.null_count > array.null_count:
            raise ValueError("not a boolean")
        return pa.array(_BOOLEANS.values()).take(places)
    if T.is_binary(type_):
        return pa.array([None if t is None else bytes.fromhex(t.removeprefix("\\x")) for t in array.to_pylist()], type_)
    if T.is_decimal(type_):
        return decimals_of(array, type_)
    if T.is_timestamp(type_):
        array = pc.replace_substring_regex(array, r"(\+00)?$", "Z")
    return array.cast(type_)
