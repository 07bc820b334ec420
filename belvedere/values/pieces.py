"""Regrouping of a stream of batches into tables of similar size, so that memory does not depend on the caller.

In: flat batches of any size. Out: tables of at most about `size` bytes, without copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa


def in_pieces(batches: Iterable[pa.RecordBatch], limit: int, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield tables of about `limit` bytes, with at least one row each."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in _cut(batches, limit):
        if held and size + batch.nbytes > limit:
            yield pa.Table.from_batches(held, schema)
            held, size = [], 0
        held.append(batch)
        size += batch.nbytes
    if held:
        yield pa.Table.from_batches(held, schema)


def _cut(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """Yield batches of at most about `limit` bytes."""
    for batch in batches:
        size = max(1, batch.nbytes)
        rows = max(1, batch.num_rows * limit // size) if size > limit else batch.num_rows
        for start in range(0, batch.num_rows, max(1, rows)):
            yield batch.slice(start, rows)
