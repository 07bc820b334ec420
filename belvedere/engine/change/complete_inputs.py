"""Inputs with KEEP from which no row has been removed yet.

A new or corrected view over them is computed from their own tables.

In: the store's last epoch, the numbers of rows of tables. Out: these inputs, and their rows so far, with their original
stamps. Once a row has been removed, the answer would be incomplete.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import Input
from belvedere.engine.change.stored_relations import DEFINITIONS
from belvedere.engine.compute import Compute
from belvedere.engine.pipeline import Pipeline
from belvedere.engine.rows.epoch_rows import WEIGHT_FIELD, Rows
from belvedere.store.protocol import EpochRow, Store
from belvedere.time.event_time import Clocks


def complete_inputs(
    catalog: Catalog, pipeline: Pipeline, last: EpochRow, count: Callable[[str], int], ids: Collection[str]
) -> frozenset[str]:
    """Return the inputs with KEEP from which no row has been removed yet.

    `count` returns the number of rows of a table.
    """
    used = Clocks.of_document(last.bounds).counts
    kept = (
        i
        for i in ids
        if i in catalog.inputs and catalog.inputs[i].append_only and pipeline.relations[i].keep is not None
    )
    known = last.extra.get(DEFINITIONS, {})
    return frozenset(i for i in kept if i in known and i in used and used[i].used == count(i))


def count_rows_of(store: Store, table: str) -> int:
    """Return the number of rows of a table."""
    transaction = store.begin()
    try:
        return transaction.count(table)
    finally:
        transaction.rollback()


def rows_so_far(
    catalog: Catalog, ids: Collection[str], stored: Callable[[str], pa.RecordBatchReader], compute: Compute
) -> dict[str, Rows]:
    """Return the rows so far of these inputs, with their original stamps. `stored` returns those of a table."""
    return {i: compute.keep(_stamped(catalog.inputs[i], stored(i))) for i in ids}


def _stamped(table: Input, rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
    schema = table.schema.arrow.append(WEIGHT_FIELD)
    ones = (
        b.select(table.schema.names).append_column(WEIGHT_FIELD, pa.array(np.ones(b.num_rows, np.int64))) for b in rows
    )
    return pa.RecordBatchReader.from_batches(schema, (b.cast(schema) for b in ones))
