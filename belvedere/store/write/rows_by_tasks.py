"""Rows that tasks of other processes copy into the database without passing through this process.

In: a task's rows as batches. Out: batches that say which rows count. Every attempt of a task marks its rows in the
staging table. The marks of a failed or redundant attempt are not returned, and its rows are not used.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.schema import WEIGHT
from belvedere.store.dialects import dialect_of
from belvedere.store.dialects.session import MARK
from belvedere.store.layout import Layout
from belvedere.store.stored_table import StoredTable

COPIED = pa.schema([("mark", pa.string()), ("rows", pa.int64()), ("gained", pa.int64()), ("long", pa.string())])
CopyTask = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def copying(url: str, table: StoredTable, stage: str, weighted: bool = False) -> CopyTask:
    """Return a task's function, which copies its rows of a table, or its weighted changes, into the staging table."""

    def copy(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        dialect = dialect_of(url)
        layout, mark, long = Layout(dialect, table), uuid.uuid4().hex, set[tuple[str, ...]]()
        count = gained = 0
        session = dialect.session(url)
        try:
            for batch in (b for b in batches if b.num_rows):
                rows = layout.flatten(batch)
                if weighted:
                    rows = rows.append_column(WEIGHT, batch.column(WEIGHT).cast(pa.int64()))
                long |= session.copy_to_stage(layout, stage, rows.append_column(MARK, pa.repeat(mark, rows.num_rows)))
                count += rows.num_rows
                gained += pc.sum(batch.column(WEIGHT)).as_py() if weighted else rows.num_rows
        finally:
            session.close()
        if count:
            reported = {"mark": mark, "rows": count, "gained": gained, "long": json.dumps(sorted(long))}
            yield pa.RecordBatch.from_pylist([reported], COPIED)

    return copy


def marks_of(copied: pa.Table, rows: int) -> tuple[list[str], set[tuple[str, ...]]]:
    """Return the marks of the `rows` rows that count, and the indexes that cannot hold some of their values."""
    assert sum(copied["rows"].to_pylist()) == rows
    return copied["mark"].to_pylist(), {tuple(c) for text in copied["long"].to_pylist() for c in json.loads(text)}


Put = Callable[[CopyTask], pa.Table]
"""Function that runs a task's function over all parts of some rows."""
