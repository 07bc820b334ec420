"""Rows on their way between Arrow and Postgres where ADBC's own way loses something, and our `?` as its `$1`.

In: results of the driver. Out: flat batches (see `belvedere.store.layout`). It runs no SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from belvedere.store.layout import Layout

_TOKEN = re.compile(r"""("(?:[^"]|"")*"|'(?:[^']|'')*')|\?""")


def numbered(sql: str, parameters: Sequence[Any] = ()) -> tuple[str, tuple[Any, ...] | None]:
    """A statement with `$1`, `$2` ... for its `?`, and what to bind; names and literals stay.

    Instants are bound as text: for a parameter with a time zone the driver sets the session's, in a transaction of its own, whose end
    ends the one around it.
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
    """The flat rows of a result: numbers of type numeric come as text."""
    for batch in batches:
        arrays = [_flat(column, field.type) for column, field in zip(batch.columns, layout.flat, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=layout.flat)


def _flat(values: pa.Array, flat: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    return values if values.type == flat else values.cast(flat)


class Counted:
    """Batches that are counted as they pass."""

    def __init__(self, batches: Iterable[pa.RecordBatch]):
        self.rows = 0
        self._batches = batches

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            yield batch


class Watched:
    """A stream of batches for the driver. It keeps the error of a batch: the driver reports only that there was one."""

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]):
        self.error: BaseException | None = None
        self.reader = pa.RecordBatchReader.from_batches(schema, self._watch(batches))

    def _watch(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except BaseException as error:
            self.error = error
            raise
