"""Rows on their way to an epoch stay in the driver while there is room for them, and go through a file beyond."""

from __future__ import annotations

import pyarrow as pa
import pytest

from belvedere.engine.rows.epoch_rows import Memory, Rows
from belvedere.engine.rows.scratch_rows import FEW_BYTES, Scratch

ROWS = pa.table({"n": pa.array(range(200_000), pa.int64())})
"""1.6 MB: more than what is held without a memory."""


def scratched(memory: Memory | None) -> pa.Table | Rows:
    scratch = Scratch(ROWS.schema, memory=memory)
    for batch in ROWS.to_batches(max_chunksize=10_000):
        scratch.add(batch)
    return scratch.rows()


def values(rows: pa.Table | Rows) -> pa.ChunkedArray:
    return (rows.table if isinstance(rows, Rows) else rows)["n"]


@pytest.mark.parametrize(("bound", "stays"), [(None, False), (4 * FEW_BYTES, False), (16 * FEW_BYTES, True)])
def test_rows_stay_where_there_is_room(bound: int | None, stays: bool) -> None:
    found = scratched(None if bound is None else Memory(bound))
    assert isinstance(found, pa.Table) == stays
    assert values(found).to_pylist() == values(ROWS).to_pylist()
