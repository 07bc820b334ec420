"""Rows in an order, and in pieces that do not split keys: as Arrow in the driver, else sorted by Spark.

In: rows of an epoch. Out: the same rows sorted (in scratch files if they are many), or tables that hold all rows of
each of their keys. No step holds more than a piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.engine.compute import Compute
from belvedere.engine.rows.epoch_rows import Rows, combined
from belvedere.functions.spark_types import quote
from belvedere.schema import KEY, WEIGHT


def in_order(rows: Rows, order: Sequence[str], view: str, compute: Compute) -> Rows:
    """Return the rows sorted by Spark SQL expressions over their columns. `view` is a free name for them."""
    compute.put(view, rows)
    names = ", ".join(quote(n) for n in rows.schema.names)
    return compute.compute(
        f"SELECT {names} FROM {quote(compute.view_name(view))} ORDER BY {', '.join(order)}", rows.schema, ordered=True
    )


def changes_by_key(
    delta: Rows, view: str, compute: Compute, first: Sequence[str] = ()
) -> Callable[[], Iterator[pa.Table]]:
    """Return the rows of a change grouped by key, old ones first. Each call re-reads them.

    Rows with the same key have the same value in the columns by which they are sorted `first`.
    """
    if delta.is_collected:
        return lambda: iter((delta.table,))
    ordered = in_order(delta, [quote(n) for n in (*first, KEY, WEIGHT)], view, compute)
    return lambda: whole_runs(ordered.batches(), KEY, compute.memory.chunk)


def whole_runs(batches: Iterable[pa.RecordBatch], column: str, size: int) -> Iterator[pa.Table]:
    """Yield tables of at least `size` bytes (the last may have fewer) that do not split a run of equal values."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        if sum(b.nbytes for b in held) < size:
            continue
        table = pa.Table.from_batches(held)
        start = _last_run(combined(table[column]))
        if start:
            yield table.slice(0, start)
            held = table.slice(start).to_batches()
    if held:
        yield pa.Table.from_batches(held)


def _last_run(values: pa.Array) -> int:
    """Return the start of the last run of equal values."""
    differs = combined(pc.not_equal(values.slice(1), values.slice(0, len(values) - 1))).to_numpy(zero_copy_only=False)
    found = np.flatnonzero(differs)
    return int(found[-1]) + 1 if len(found) else 0


def stream(schema: pa.Schema, tables: Iterable[pa.Table]) -> pa.RecordBatchReader:
    """Return the rows of these tables in sequence."""
    return pa.RecordBatchReader.from_batches(schema, (b for t in tables for b in t.to_batches() if b.num_rows))
