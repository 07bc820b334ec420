"""Buckets: distribution of rows among tasks.

A bucket is a range of the hashes of one column; it needs no files of its own.

In: rows with the column. Out: the rows that Spark sends to the task of each bucket, and the parsing in the task. All
rows with the same value must go to one task. The exchange ensures this and the tasks check it: each bucket has one
mark, and a task with rows of a bucket must have its mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from belvedere.engine.rows.epoch_rows import Rows, conform
from belvedere.engine.rows.selected_rows import RowTest
from belvedere.schema import KEY
from belvedere.state.hashing import Numbers

BUCKET, KIND = "_b", "_kind"
MARK, KEY_ALONE, NEW = range(3)
"""Kinds of row sent to a task: the mark of a bucket, a key without a row, a new row."""


@dataclass(frozen=True)
class Sent:
    """Rows that are sent to tasks by their column `by`.

    `columns` maps the arrangement's columns to those of the rows. Rows that do not satisfy `new` (None: all do) are
    sent as keys alone, or not at all if it `drops` them. `is_keys`: all rows are keys.
    """

    rows: Rows
    columns: Mapping[str, str]
    by: str
    new: RowTest | None = None
    drops: bool = False
    is_keys: bool = False


def bits_of(buckets: int) -> int:
    """Return the number of leading bits of a hash that determine the bucket, for a power of two."""
    return buckets.bit_length() - 1


def bucket_sql(hash_: str, buckets: int) -> str:
    """Return the number of the bucket, as Spark SQL over a hash."""
    bits = bits_of(buckets)
    return f"CAST(shiftright({hash_}, {64 - bits}) + {buckets // 2}L AS INT)" if bits else "0"


def buckets_of(hashes: Numbers, buckets: int) -> Numbers:
    """Return the buckets of hashes in memory."""
    bits = bits_of(buckets)
    return (hashes >> np.int64(64 - bits)) + np.int64(buckets // 2) if bits else np.zeros(len(hashes), np.int64)


def hash_sql(column: str, is_text: bool) -> str:
    """Return the hash that determines the bucket. An access path is already a hash."""
    return f"xxhash64({column})" if is_text else column


@dataclass(frozen=True)
class KeyFiles:
    """Keys of an access path in scratch files, each with the name of its key column.

    Each task reads all files, and takes its share.
    """

    files: tuple[tuple[Path, str], ...]

    def share(self, own: set[int], buckets: int) -> pa.Array:
        """Return the keys of these buckets."""
        parts = []
        for path, column in self.files:
            with pq.ParquetFile(path, pre_buffer=False) as file:
                for batch in file.iter_batches(columns=[column], batch_size=1 << 20, use_threads=False):
                    values = batch.column(0).to_numpy()
                    parts.append(
                        values[np.isin(buckets_of(values, buckets), list(own))] if len(own) < buckets else values
                    )
        return pa.array(np.concatenate(parts) if parts else np.zeros(0, np.int64))


@dataclass
class Share:
    """The rows and keys of one task."""

    own: set[int] = field(default_factory=set)
    strays: set[int] = field(default_factory=set)
    rows: list[pa.RecordBatch] = field(default_factory=list)
    keys: pa.Array | None = None
    """Keys without a row, if rows are sent by `_key`."""


def share_of(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Share:
    """Parse the rows that Spark sends, whose columns have numbers as names. `schema` is the arrangement's."""
    found, seen, keys = Share(), set(), []
    for batch in batches:
        numbers, kinds = batch.column(BUCKET).to_numpy(), batch.column(KIND).to_numpy()
        found.own |= set(numbers[kinds == MARK].tolist())
        seen |= set(np.unique(numbers).tolist())
        if KEY in schema.names:
            place = batch.schema.get_field_index(f"c{schema.get_field_index(KEY)}")
            keys.append(batch.column(place).filter(pa.array(kinds == KEY_ALONE)))
        if (kinds == NEW).any():
            chosen = batch.filter(pa.array(kinds == NEW)).select([f"c{n}" for n in range(len(schema))])
            named = pa.Table.from_batches([chosen]).rename_columns(schema.names)
            found.rows += conform(named, schema).to_batches()
    found.strays = seen - found.own
    found.keys = pc.unique(pa.concat_arrays(keys).cast(pa.string())) if keys else pa.array([], pa.string())
    return found
