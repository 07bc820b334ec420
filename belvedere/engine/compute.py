"""The engine's interface to Spark. It has few calls, so that rules can be read, and mostly tested, without Spark.

In: nothing. Out: the protocol that `belvedere.spark.compute` implements.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.engine.by_tasks.buckets import Sent
from belvedere.engine.by_tasks.file_tasks import FileTask
from belvedere.engine.by_tasks.tasks import BucketTask, RunTask
from belvedere.engine.query_batching import Task
from belvedere.engine.rows.epoch_rows import Memory, Rows
from belvedere.engine.sql.stage_sql import PreparedStage
from belvedere.engine.sql.staged_operators import WindowOperator


class Compute(Protocol):
    """Creates temporary views and runs queries over them."""

    @property
    def memory(self) -> Memory:
        """Return the memory of this process for an epoch's rows."""

    @property
    def small(self) -> int:
        """Return the maximum number of rows that one task, and this process, handles."""

    def view_name(self, name: str) -> str:
        """Return a temporary view's full name."""

    def put(self, name: str, rows: Rows) -> None:
        """Create the view `name` of these rows."""

    def keep(self, rows: pa.RecordBatchReader) -> Rows:
        """Store streamed rows: in this process if they fit, otherwise in a file."""

    def compute(self, sql: str, schema: pa.Schema | None = None, ordered: bool = False) -> Rows:
        """Run one query.

        Without a schema, its rows have the types of the query. `ordered`: they are in the order of its ORDER BY.
        """

    def defer(self, sql: str, schema: pa.Schema) -> Rows:
        """Return the rows of a query that is run when they are read, as a part of the reader's query."""

    @property
    def scratch(self) -> Path:
        """Return the folder for files of this epoch, which tasks in other processes can see."""

    def spreads(self, rows: int) -> bool:
        """Return whether tasks in other processes should store, look up or change this number of rows."""

    def near(self, rows: Rows) -> Rows:
        """Load rows that tasks have written into this process if they are few."""

    def filed(self, rows: Rows, column: str) -> tuple[tuple[Path, str], ...]:
        """Return scratch files with a column of the rows, and its name in each."""

    def buckets(self, rows: int) -> int:
        """Return the number of parts for this number of rows: a power of two."""

    def run_tasks(self, tasks: Sequence[FileTask]) -> list[Any]:
        """Run tasks on files in executors and return their answers."""

    def run_apart(self, rows: Rows, task: RunTask, schema: pa.Schema) -> pa.Table:
        """Run a function over the batches of each part of the rows, in executors, and return its results."""

    def run_buckets(self, sent: Sequence[Sent], task: BucketTask, schema: pa.Schema) -> pa.Table:
        """Run a function over the rows of each bucket, with the bucket's mark, and return its results."""

    def explaining(self, prepared: PreparedStage, catalog: Catalog) -> AbstractContextManager[None]:
        """Run a stage. A failure of its queries is raised as a diagnostic about the stage's view."""

    def run_batched(self, tasks: Sequence[Task]) -> None:
        """Run stages. Queries over few rows for which several stages wait are combined into one."""

    def sweep(self) -> None:
        """Delete the views and files of an epoch."""

    def discard(self) -> None:
        """Delete only files. The views end with Spark's process."""

    def close(self) -> None:
        """Drop all views and files."""

    def windows(self, windows: WindowOperator, few: bool) -> Rows:
        """Return the rows of a WINDOW BY operator over the present rows of its views, computed when they are read."""
