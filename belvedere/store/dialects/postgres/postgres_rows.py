"""Conversion of rows between Arrow and Postgres where ADBC's own conversion loses information, and of `?` placeholders
to `$1`.

In: results of the driver. Out: flat batches (see `belvedere.store.layout`). It runs no SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.store.layout import Layout

_TOKEN = re.compile(r"""("(?:[^"]|"")*"|'(?:[^']|'')*')|\?""")


def numbered(sql: str, parameters: Sequence[Any] = ()) -> tuple[str, tuple[Any, ...] | None]:
    """Return a statement with `$1`, `$2` ... for each `?`, and the values to bind. Names and literals stay unchanged.

    Timestamps are bound as text. For a parameter with a time zone the driver would set the session's time zone in a
    transaction of its own, and the end of that transaction would end the surrounding one.
    """
    count = 0

    def place(found: re.Match[str]) -> str:
        nonlocal count
        if found[1]:
            return found[1]
        count += 1
        value = parameters[count - 1] if count <= len(parameters) else None
        if not isinstance(value, datetime):
            return f"${count}"
        return f"CAST(${count} AS timestamp{'' if value.tzinfo is None else 'tz'})"

    written = _TOKEN.sub(place, sql)
    return written, tuple(v.isoformat() if isinstance(v, datetime) else v for v in parameters) or None


def selected(layout: Layout, batches: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Return the flat rows of a result. Numbers of type numeric arrive as text."""
    for batch in batches:
        arrays = [_flat(column, field.type) for column, field in zip(batch.columns, layout.flat, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=layout.flat)


def _flat(values: pa.Array, flat: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    return values if values.type == flat else values.cast(flat)


def in_array(keys: pa.Array) -> pa.RecordBatch:
    """Return keys as the single parameter of a statement with `= ANY($1)`."""
    return pa.record_batch([pa.array([keys], pa.list_(keys.type))], ["keys"])


def python_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return a result of the driver as Python values."""
    columns = [_python_values(c) for c in table.columns]
    return list(zip(*columns, strict=True)) if columns else []


def _python_values(column: pa.ChunkedArray) -> list[Any]:
    if isinstance(column.type, pa.OpaqueType) and column.type.type_name == "numeric":
        return [None if v is None else Decimal(v) for v in column.to_pylist()]
    return list(column.to_pylist())


def escaped(texts: pa.Array) -> pa.Array:
    """Return strings as Postgres stores them. Postgres has no U+0000."""
    if not _has_low_bytes(texts):
        return texts
    return pc.replace_substring(pc.replace_substring(texts, "\x01", "\x01\x02"), "\x00", "\x01\x01")


def unescaped(texts: pa.Array) -> pa.Array:
    """Convert the strings of `escaped` back."""
    if not _has_low_bytes(texts):
        return texts
    return pc.replace_substring(pc.replace_substring(texts, "\x01\x01", "\x00"), "\x01\x02", "\x01")


def _has_low_bytes(texts: pa.Array) -> bool:
    data = texts.buffers()[-1]
    if data is None:
        return False
    content = data.to_pybytes()
    return b"\x00" in content or b"\x01" in content
