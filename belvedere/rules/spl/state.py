"""What is stored of SPL windows between two epochs: the rows that they hold, and a row for each partition.

In: the rows and partitions of an epoch. Out: tables as the state has them, and when a partition next has something to do by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.engine.rows import combined
from belvedere.kernels.search import GREATEST, Bools, Ints
from belvedere.kernels.spl.rows import NEVER, Partitions, WindowRows
from belvedere.plan.spl_windows import PartitionAge, Sliding, SplWindow, Time, Tumbling
from belvedere.schema import KEY, Column, Schema

ROWS = "$rows"
"""Suffix of the relation with the rows that windows hold."""
PARTITIONS = "$partitions"
"""Suffix of the relation with a row for each partition."""
PART, UNDER, TIME = "$part", "$under", "$time"
"""Columns of the held rows: the text of the partition's values, the watermark at the arrival, the event time in microseconds."""
HELD_COLUMNS = (
    Column(PART, pa.string(), nullable=False),
    Column(UNDER, pa.int64(), nullable=False),
    Column(TIME, pa.int64(), nullable=False),
)
DUE, HASH = "due", "hash"
KNOWN = tuple(vars(Partitions.fresh(0)))
"""What is known of a partition, by the names of `Partitions`."""
PARTITION_SCHEMA = Schema(
    (
        Column("part", pa.string(), nullable=False),
        Column(HASH, pa.int64(), nullable=False),
        *(Column(n, pa.bool_() if n == "full" else pa.int64(), nullable=False) for n in KNOWN),
        Column(DUE, pa.int64()),
    ),
    ("part",),
)


def held_schema(given: Schema, order: str) -> Schema:
    """The columns of the rows that windows hold."""
    return Schema((*given.columns, *HELD_COLUMNS), (order,))


def partitions_of(table: pa.Table, parts: pa.Array) -> Partitions:
    """What is known of partitions, of unknown ones nothing."""
    known = Partitions.fresh(len(parts))
    if table.num_rows:
        index = pc.index_in(combined(table["part"]), value_set=parts).to_numpy(zero_copy_only=False)
        for name in KNOWN:
            getattr(known, name)[index] = combined(table[name]).to_numpy(zero_copy_only=False)
    return known


def partition_rows(parts: pa.Array, hashes: Ints, known: Partitions, due: Ints, chosen: Bools) -> pa.Table:
    """The rows of the chosen partitions, with `_key`."""
    made: dict[str, Any] = {"part": parts, HASH: pa.array(hashes)}
    made |= {n: pa.array(values) for n, values in vars(known).items()}
    made[DUE] = pa.array(due, mask=due == GREATEST)
    fields = [pa.field(c.name, c.type, c.nullable) for c in PARTITION_SCHEMA]
    schema = pa.schema([*fields, pa.field(KEY, pa.string(), nullable=False)])
    return pa.table([made[f.name] for f in fields] + [parts], schema=schema).filter(pa.array(chosen))


def next_due(window: SplWindow, rows: WindowRows, kept: Bools, after: Partitions, now: int) -> Ints:
    """For each partition the next time at which something happens without a row; GREATEST for none."""
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
