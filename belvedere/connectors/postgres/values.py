"""Texts of Postgres as columns.

In: values of a column as Postgres writes them (`server.SETTINGS`). Out: an Arrow array, and why values have no place in it (infinite
times, NaN in a DECIMAL, bytes that are no text): such rows are rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.decimals import decimals_of
from belvedere.functions.types import type_text
from belvedere.schema import Column

T = pa.types
_BOOLEANS = {b"t": True, b"true": True, b"f": False, b"false": False}
Text = bytes | None
MISFITS = (pa.ArrowException, ValueError, KeyError)


def column_of(texts: Sequence[Text], column: Column) -> tuple[pa.Array, dict[int, str]]:
    """The values, NULL where one has no place; and by place why not."""
    try:
        return _cast(texts, column.type), {}
    except MISFITS:
        values, misfits = list[Any](), dict[int, str]()
        for place, text in enumerate(texts):
            try:
                values.append(_cast([text], column.type)[0].as_py())
            except MISFITS as error:
                values.append(None)
                misfits[place] = f'column "{column.name}": {_why(text or b"", column.type, error)}'
        return pa.array(values, column.type), misfits


def _why(text: bytes, type_: pa.DataType, error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start + 1} is not UTF-8"
    return f"{text.decode(errors='replace')[:200]} is not of type {type_text(type_)}"


def _cast(values: Sequence[Text], type_: pa.DataType) -> pa.Array:
    if T.is_boolean(type_):
        return pa.array([None if t is None else _BOOLEANS[t] for t in values], type_)
    if T.is_floating(type_):
        return pa.array([None if t is None else float(t) for t in values], type_)
    if T.is_binary(type_):
        return pa.array([None if t is None else bytes.fromhex(t.decode().removeprefix("\\x")) for t in values], type_)
    array = pa.array([None if t is None else t.decode() for t in values], pa.string())
    if T.is_decimal(type_):
        return decimals_of(array, type_)
    if T.is_timestamp(type_):
        array = pc.replace_substring_regex(array, r"(\+00)?$", "Z")
    return array.cast(type_)
