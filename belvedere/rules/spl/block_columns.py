"""Blocks of the rows in SPL windows: when blocks are used, and their columns.

In: an SPL aggregate. Out: the schema of its blocks. A block is `BLOCK_ROWS` consecutive rows of a partition, with their
accumulators.
"""

from __future__ import annotations

import pyarrow as pa

from belvedere.kernels.spl.blocks import can_hold_blocks
from belvedere.plan.operators.spl_aggregate import SplAggregate
from belvedere.plan.operators.spl_windows import Count, Sliding, Tumbling
from belvedere.rules.spl.accumulated import accumulated_columns, accumulators_of, not_accumulated
from belvedere.schema import Column, Schema

BLOCK_ROWS = 256
"""Number of rows of a block. A window of n rows is read as n / 256 blocks, plus up to 256 rows at either end."""
PATH, BLOCK_PATH = "_h0", "_h1"
"""Access paths of buffered rows: by partition, and by block."""
STEPS = ("evicting", "triggering")
"""Columns of `delta`: the code of a block's last row and the limit of its first."""
PLACED = ("number", "begun", "ended", *(f"{s}.{what}" for s in STEPS for what in ("code", "limit")))


def has_blocks(node: SplAggregate) -> bool:
    """Return whether aggregates are kept by blocks: all have accumulators, and a window can hold at least one block."""
    kind = node.window.kind
    if (
        isinstance(kind, Tumbling | Sliding)
        and isinstance(kind.eviction, Count)
        and kind.eviction.rows < 2 * BLOCK_ROWS
    ):
        return False
    return can_hold_blocks(node.window) and not not_accumulated(node)


def block_schema(node: SplAggregate) -> Schema:
    """Return the columns of blocks."""
    kept = accumulators_of(node)
    assert kept is not None
    numbers = tuple(Column(n, pa.int64(), nullable=False) for n in ("block", *PLACED))
    return Schema(
        (Column("part", pa.string(), nullable=False), *numbers, *accumulated_columns(kept)), ("part", "block")
    )
