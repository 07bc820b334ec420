"""The engine's interface to Spark: few calls, so that all rules can be read, and most be tested, without it.

In: nothing. Out: the protocol that `belvedere.spark.compute` implements.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.engine.by_tasks.buckets import Sent
from belvedere.engine.by_tasks.tasks import BucketTask, RunTask
from belvedere.engine.query_batching import Task
from belvedere.engine.rows.epoch_rows import Memory, Rows
from belvedere.engine.sql.stage_sql import PreparedStage
from belvedere.engine.sql.staged_operators import WindowOperator


class Compute(Protocol):
    """Makes temporary views and runs queries over them."""

    @property
    def memory(self) -> Memory:
        """Return the memory of this process for an epoch's rows."""

    @property
    def small(self) -> int:
        """Return the maximum number of rows that one task, and this process, handles."""

    def view_name(self, name: str) -> str:
        """A temporary view's full name."""

    def put(self, name: str, rows: Rows) -> None:
        """Make the view `name` of these rows."""

    def keep(self, rows: pa.RecordBatchReader) -> Rows:
        """Rows that stream in: in this process where it has room, else in a file."""

    def compute(self, sql: str, schema: pa.Schema | None = None, ordered: bool = False) -> Rows:
        """Run one query; without a schema its rows have the types that the query gives them. `ordered`: they come in its ORDER BY."""

    def defer(self, sql: str, schema: pa.Schema) -> Rows:
        """The rows of a query that is run where they are read, as a part of the reader's query."""

    @property
    def scratch(self) -> Path:
        """The folder for files of this epoch, which tasks in other processes see."""

    def spreads(self, rows: int) -> bool:
        """Whether tasks in other processes should store, look up or change this number of rows."""

    def near(self, rows: Rows) -> Rows:
        """Rows that tasks have written: in this process where they are few."""

    def filed(self, rows: Rows, column: str) -> tuple[tuple[Path, str], ...]:
        """Scratch files with a column of the rows, and its name in each."""

    def buckets(self, rows: int) -> int:
        """Number of parts for this number of rows: a power of two."""

    def run_apart(self, rows: Rows, task: RunTask, schema: pa.Schema) -> pa.Table:
        """Run a function over the batches of each part of the rows, in executors; what the functions give."""

    def run_buckets(self, sent: Sequence[Sent], task: BucketTask, schema: pa.Schema) -> pa.Table:
        """Run a function over the rows of each bucket, with the bucket's mark; what the functions give."""

    def explaining(self, prepared: PreparedStage, catalog: Catalog) -> AbstractContextManager[None]:
        """Run a stage; a failure of its queries comes out as a diagnostic about the stage's view."""

    def run_batched(self, tasks: Sequence[Task]) -> None:
        """Run stages; queries over few rows that several of them wait for become one."""

    def sweep(self) -> None:
        """Forget the views and files of an epoch."""

    def discard(self) -> None:
        """Delete files alone: the views go with Spark's process."""

    def close(self) -> None:
        """Drop all views and files."""

    def windows(self, windows: WindowOperator, few: bool) -> Rows:
        """The rows of a WINDOW BY operator over the present rows of its views, not computed before they are read."""
