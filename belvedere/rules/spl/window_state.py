"""Stored state of SPL windows between two epochs: the windows' rows, and a row for each partition.

In: the rows and partitions of an epoch. Out: tables in the form of the state, and the next time at which a partition
fires or evicts without a new row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.engine.rows.epoch_rows import combined
from belvedere.kernels.search import GREATEST, Bools, Ints
from belvedere.kernels.spl.window_rows import NEVER, Partitions, WindowRows
from belvedere.plan.operators.spl_windows import PartitionAge, Sliding, SplWindow, Time, Tumbling
from belvedere.schema import KEY, Column, Schema

ROWS = "$rows"
"""Suffix of the relation with the rows in windows."""
PARTITIONS = "$partitions"
"""Suffix of the relation with a row for each partition."""
PART, UNDER, TIME = "$part", "$under", "$time"
"""Columns of the buffered rows: the text of the partition's values, the watermark at arrival, and the event time in
microseconds."""
HELD_COLUMNS = (
    Column(PART, pa.string(), nullable=False),
    Column(UNDER, pa.int64(), nullable=False),
    Column(TIME, pa.int64(), nullable=False),
)
BLOCK = "$block"
"""Additional column of buffered rows if blocks are used: the number of earlier blocks of the partition."""
BLOCKS = "$blocks"
"""Suffix of the relation of the blocks."""
DUE, HASH, LEFT, CAME = "due", "hash", "left", "came"
"""Columns of partitions.

CAME is the number of rows that arrived, LEFT a lower limit of the number of oldest rows that left.
"""
KNOWN = tuple(vars(Partitions.fresh(0)))
"""Columns of a partition, by the names of `Partitions`."""
PARTITION_SCHEMA = Schema(
    (
        Column("part", pa.string(), nullable=False),
        Column(HASH, pa.int64(), nullable=False),
        *(Column(n, pa.bool_() if n == "full" else pa.int64(), nullable=False) for n in KNOWN),
        Column(LEFT, pa.int64(), nullable=False),
        Column(CAME, pa.int64(), nullable=False),
        Column(DUE, pa.int64()),
    ),
    ("part",),
)


def buffered_schema(given: Schema, order: str, in_blocks: bool) -> Schema:
    """Return the columns of the rows in windows."""
    block = (Column(BLOCK, pa.int64(), nullable=False),) if in_blocks else ()
    return Schema((*given.columns, *HELD_COLUMNS, *block), (order,))


def partitions_of(table: pa.Table, parts: pa.Array) -> Partitions:
    """Return the known partitions; unknown ones are empty."""
    known = Partitions.fresh(len(parts))
    for name in KNOWN:
        of_parts(table, parts, name, getattr(known, name))
    return known


def of_parts(table: pa.Table, parts: pa.Array, name: str, values: Any) -> Any:
    """Return a column of the stored partitions in the order of `parts`, with `values` for unknown ones."""
    if table.num_rows:
        index = pc.index_in(combined(table["part"]), value_set=parts).to_numpy(zero_copy_only=False)
        values[index] = combined(table[name]).to_numpy(zero_copy_only=False)
    return values


def partition_rows(
    parts: pa.Array, hashes: Ints, known: Partitions, span: tuple[Ints, Ints], due: Ints, chosen: Bools
) -> pa.Table:
    """Return the rows of the chosen partitions, with `_key`. `span` is their LEFT and CAME."""
    made: dict[str, Any] = {"part": parts, HASH: pa.array(hashes), LEFT: pa.array(span[0]), CAME: pa.array(span[1])}
    made |= {n: pa.array(values) for n, values in vars(known).items()}
    made[DUE] = pa.array(due, mask=due == GREATEST)
    fields = [pa.field(c.name, c.type, c.nullable) for c in PARTITION_SCHEMA]
    schema = pa.schema([*fields, pa.field(KEY, pa.string(), nullable=False)])
    return pa.table([made[f.name] for f in fields] + [parts], schema=schema).filter(pa.array(chosen))


def next_due(window: SplWindow, rows: WindowRows, kept: Bools, after: Partitions, now: int) -> Ints:
    """Return for each partition the next time at which it acts without a new row; GREATEST if there is none."""
    due = np.full(len(after), GREATEST, np.int64)
    latest = np.full(len(after), NEVER, np.int64)
    np.maximum.at(latest, rows.partition[kept], rows.at[kept])
    holds = latest != NEVER
    kind = window.kind
    assert isinstance(kind, Tumbling | Sliding)
    timer = kind.eviction if isinstance(kind, Tumbling) else kind.trigger
    if isinstance(timer, Time):
        due[holds] = (now // timer.micros + 1) * timer.micros
    elif isinstance(kind, Sliding) and isinstance(kind.eviction, Time):
        due[holds] = latest[holds] + kind.eviction.micros + 1
    if isinstance(window.forgetting, PartitionAge):
        there = after.last != NEVER
        due[there] = np.minimum(due[there], after.last[there] + window.forgetting.micros + 1)
    return due
