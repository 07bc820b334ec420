"""Rows that stand: bounds have made them final, and not all that they were made of is there any more.

In: the rows of some keys as they were computed from what is there, the same keys' stored rows, and the columns with bounds below which rows
stand. Out: the keys' rows as they must be: computed ones above the bounds, stored ones below.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.engine.rows import Rows


def beside_standing(computed: Rows, stored: Rows, limits: Mapping[str, int]) -> pa.RecordBatchReader:
    """The computed rows that may still change, then the stored ones that stand; bounds in microseconds."""

    def stands(batch: pa.RecordBatch) -> pa.Array:
        found = pa.array([False] * batch.num_rows, pa.bool_())
        for name, limit in limits.items():
            below = pc.less(batch.column(name).cast(pa.int64()), pa.scalar(limit, pa.int64()))
            found = pc.or_(found, pc.fill_null(below, False))
        return found

    schema = stored.schema
    moving = computed.where(lambda b: pc.invert(stands(b)), schema.names)
    return pa.RecordBatchReader.from_batches(schema, (b.cast(schema) for b in chain(moving, stored.where(stands))))
