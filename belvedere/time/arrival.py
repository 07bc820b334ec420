"""What a row gets when it arrives: its `rowtime`, and the columns METADATA FROM 'timestamp' and 'uuid'.

In: rows of an input as they were given, the clock at their arrival. Out: the rows with these columns. They are part of the row from here
on: of the intake's journal, of every epoch and of every replay, so an identity is made once.
"""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.catalog import Input, MetadataKind
from belvedere.schema import INGEST_TIME, PLACE, ROWTIME, TIMESTAMP


def with_arrival(table: Input, rows: pa.Table, now: int) -> pa.Table:
    """The rows with what they were not given: the clock at arrival in microseconds (`rowtime`, 'timestamp'), a UUID each ('uuid')."""
    for name in arrival_times(table):
        arrival = pa.array(np.full(rows.num_rows, now), pa.int64()).cast(TIMESTAMP)
        rows = _filled(rows, name, arrival)
    for name, found in table.metadata.items():
        if found.kind is MetadataKind.UUID:
            rows = _filled(rows, name, pa.array(identities(rows.num_rows), pa.string()))
    return rows


def with_place(rows: pa.Table, now: int, first: int) -> pa.Table:
    """The rows with the clock at their arrival in microseconds (`_ingest_time`) and their places (`PLACE`), which begin with `first`."""
    times = pa.array(np.full(rows.num_rows, now), pa.int64()).cast(TIMESTAMP)
    places = pa.array(np.arange(first, first + rows.num_rows), pa.int64())
    return rows.append_column(INGEST_TIME, times).append_column(PLACE, places)


def arrival_times(table: Input) -> list[str]:
    """The columns that hold the time of arrival where a row does not bring it."""
    known = table.schema.find(ROWTIME)
    implied = [ROWTIME] if known is not None and known.hidden else []
    return [*implied, *(n for n, found in table.metadata.items() if found.kind is MetadataKind.TIMESTAMP)]


def identities(count: int) -> list[str]:
    """So many random UUIDs (RFC 9562, version 4)."""
    numbers = np.frombuffer(os.urandom(16 * count), np.uint8).reshape(count, 16).copy()
    numbers[:, 6] = numbers[:, 6] & 0x0F | 0x40
    numbers[:, 8] = numbers[:, 8] & 0x3F | 0x80
    digits = numbers.tobytes().hex()
    texts = (digits[n : n + 32] for n in range(0, 32 * count, 32))
    return [f"{t[:8]}-{t[8:12]}-{t[12:16]}-{t[16:20]}-{t[20:]}" for t in texts]


def _filled(rows: pa.Table, name: str, made: pa.Array) -> pa.Table:
    if name not in rows.schema.names:
        return rows.append_column(name, made)
    filled = pc.coalesce(rows[name].cast(made.type), made)
    return rows.set_column(rows.schema.names.index(name), name, filled)
