"""Rows that tasks of other processes copy into the database, so that they do not pass through this one.

In: a task's rows as batches. Out: batches that say which rows count. Every try of a task marks its rows in the staging table: the marks of
a try that failed, or that was one too many, do not come back, and its rows are not taken.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator

import pyarrow as pa

from belvedere.store.dialects import dialect_of
from belvedere.store.dialects.session import MARK
from belvedere.store.layout import Layout, flat_batches
from belvedere.store.stored_table import StoredTable

COPIED = pa.schema([("mark", pa.string()), ("rows", pa.int64()), ("long", pa.string())])
CopyTask = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def copying(url: str, table: StoredTable, stage: str) -> CopyTask:
    """A task's function: it copies its rows of a table into the staging table of a store."""

    def copy(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        dialect = dialect_of(url)
        layout, mark, count, long = Layout(dialect, table), uuid.uuid4().hex, 0, set[tuple[str, ...]]()
        session = dialect.session(url)
        try:
            for rows in flat_batches(layout, batches):
                long |= session.copy_to_stage(layout, stage, rows.append_column(MARK, pa.repeat(mark, rows.num_rows)))
                count += rows.num_rows
        finally:
            session.close()
        if count:
            yield pa.RecordBatch.from_pylist([{"mark": mark, "rows": count, "long": json.dumps(sorted(long))}], COPIED)

    return copy


def marks_of(copied: pa.Table, rows: int) -> tuple[list[str], set[tuple[str, ...]]]:
    """The marks of the rows that count, which are so many, and the indexes that cannot take some of their values."""
    assert sum(copied["rows"].to_pylist()) == rows
    return copied["mark"].to_pylist(), {tuple(c) for text in copied["long"].to_pylist() for c in json.loads(text)}


Put = Callable[[CopyTask], pa.Table]
"""Runs a task's function over all parts of some rows."""
