"""Transfer of rows between the driver and Spark.

In: rows of an epoch. Out: temporary views to query, and query results. Few rows become a local relation in one
partition (no exchange, no file); many become a scratch Parquet file that executors read. Results that are, or may be,
too large for the driver are written to scratch files by the executors.
"""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from belvedere.catalog.catalog import Catalog
from belvedere.connectors.executor_tasks import SparkTasks
from belvedere.connectors.into_spark import into_spark
from belvedere.engine.by_tasks.buckets import Sent
from belvedere.engine.by_tasks.file_tasks import FileTask
from belvedere.engine.by_tasks.tasks import BucketTask, RunTask
from belvedere.engine.query_batching import QueryBatching, Task
from belvedere.engine.rows.epoch_rows import PASSED, Memory, Rows, conform, fits_parquet
from belvedere.engine.rows.scratch_rows import NumberedFile, uri, write_frame
from belvedere.engine.sql.stage_sql import PreparedStage
from belvedere.engine.sql.staged_operators import WindowOperator
from belvedere.functions.spark_types import quote
from belvedere.process.temporary_folders import scratch_folder
from belvedere.spark.buckets import ALONE, Spreading, run_buckets
from belvedere.spark.cluster import is_cluster
from belvedere.spark.code_generation import FEW, Interpreting
from belvedere.spark.joint_queries import one_query, parted
from belvedere.spark.nullable_structs import collected, with_nullable_fields
from belvedere.spark.prepared_queries import StandingViews
from belvedere.spark.spark_failures import explain_failure
from belvedere.spark.type_encoding import arrow_schema, encoded, encoded_type, packed, unpacked
from belvedere.spark.window_by.windows import Spread
from belvedere.spark.window_by.windows import windows as find_windows

SMALL = 20_000
"""Maximum number of rows that are sent to Spark as a local relation."""
DRIVER_MEMORY = 1 << 30
WIDTH = 16
"""Estimated bytes of a value of a data frame."""


class SparkCompute:
    """Creates temporary views and runs queries. It owns the scratch folder of one engine."""

    def __init__(
        self,
        spark: SparkSession,
        prefix: str,
        small: int = SMALL,
        memory: int = DRIVER_MEMORY,
        spreading: Spreading = ALONE,
    ):
        """`small`: maximum number of rows of a local relation in Spark; `memory`: maximum bytes of rows in the
        driver."""
        self.spark = spark
        self.prefix = prefix
        self.memory = Memory(memory)
        self.spreading = spreading
        self.small = small if spreading.small is None else spreading.small
        self._named = re.compile(f"`({re.escape(prefix)}_[^`]+)`")
        """Pattern of the views in a query, and of the common table expressions that replace some of them."""
        self._defined = re.compile(f"WITH `({re.escape(prefix)}_[^`]+)` AS ")
        self.scratch = scratch_folder("epochs-")
        self._files = itertools.count()
        self._large: dict[str, int] = {}
        self._many: set[str] = set()
        """Large views. Executors write the results of queries over them."""
        self._views: set[str] = set()
        self._schemas: dict[str, pa.Schema] = {}
        """The types of queries without a schema. Their texts stay the same from epoch to epoch."""
        self._rows: dict[str, int | None] = {}
        """Approximate number of rows of each view; None if not counted."""
        self._interpreting = Interpreting(spark)
        self._standing = None if is_cluster(spark) else StandingViews(spark, self.scratch / "few")
        self._batching: QueryBatching[tuple[str, pa.Schema], Rows] = QueryBatching(self._compute_together)
        self.last_query = ""
        """The last query, which is the failed one after a failure."""

    def view_name(self, name: str) -> str:
        """Return the temporary view's name. Views of several engines can be in one session."""
        return f"{self.prefix}_{name}"

    def put(self, name: str, rows: Rows) -> None:
        """Create the view `name` of these rows."""
        view = self.view_name(name)
        if not self._put_standing(view, rows):
            self._frame(rows).createOrReplaceTempView(view)
        self._views.add(view)
        self._rows[quote(view)] = rows.num_rows if rows.frame is None else rows.guess or None
        size = self._size(rows)
        self._large.pop(quote(view), None)
        (self._many.add if self.spreads(rows.known_rows) else self._many.discard)(quote(view))
        if size > self.memory.large:
            self._large[quote(view)] = size

    def _put_standing(self, view: str, rows: Rows) -> bool:
        if self._standing is not None and rows.frame is not None and rows.text and not rows.is_collected:
            return self._standing.put_query(
                view, unpacked(rows.frame, rows.schema), rows.text, self._views_in(rows.text)
            )
        few = rows.is_collected and rows.num_rows <= self.small
        return self._standing is not None and self._standing.put(view, rows.table if few else None)

    def _size(self, rows: Rows) -> int:
        """Return the approximate bytes that the rows would take in the driver."""
        if rows.is_collected:
            return int(rows.table.nbytes)
        if rows.files is not None:
            return sum(_plain_bytes(f) for f in rows.files)
        return rows.known_values * WIDTH

    def _frame(self, rows: Rows) -> DataFrame:
        if rows.frame is not None and not rows.is_collected:
            return unpacked(rows.frame, rows.schema)
        if rows.files is not None:
            return self._read(rows.files, rows.schema)
        table = rows.table
        if table.num_rows <= self.small or not fits_parquet(table.schema):
            # one chunk: PySpark reads only the first batch of each slice, which may be empty, and no nested column
            # without batches
            whole = table.combine_chunks() if table.num_rows else table.schema.empty_table()
            return unpacked(into_spark(self.spark, encoded(whole)).coalesce(1), whole.schema)
        return self._read((self._write(table.to_batches(), table.schema, max(1, table.num_rows // 8)),), table.schema)

    def _read(self, files: tuple[Path, ...], schema: pa.Schema) -> DataFrame:
        numbered = pa.schema([f.with_name(f"c{n}") for n, f in enumerate(schema)])
        types = into_spark(self.spark, numbered.empty_table()).schema
        # a filter that looks into a dictionary of more than 8 KB that lz4 has packed fails (parquet-java's #3478)
        reader = self.spark.read.schema(types).option("parquet.filter.dictionary.enabled", "false")
        return reader.parquet(*map(uri, files)).toDF(*schema.names)

    def _write(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows: int = SMALL * 4) -> Path:
        """Write one scratch file.

        `rows` is the number of rows of a row group, which a reader or writer holds at once.
        """
        file = NumberedFile(self.scratch / f"{next(self._files)}.parquet", schema, rows)
        file.add(pa.RecordBatch.from_pylist([], schema))  # there is a file even for few rows
        for batch in batches:
            file.add(batch)
        file.close()
        return file.path

    def keep(self, rows: pa.RecordBatchReader) -> Rows:
        """Store streamed rows: in the driver if they fit, else in a scratch file."""
        schema = rows.schema
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in rows:
            held.append(batch)
            size += batch.nbytes
            if not self.memory.has_room(size) and fits_parquet(schema):
                break
        else:
            return self.memory.hold(Rows(pa.Table.from_batches(held, schema)), size)
        path = self._write(itertools.chain(_emptied(held), rows), schema)
        return Rows(schema=schema, files=(path,), count=pq.read_metadata(path).num_rows)

    def compute(self, sql: str, schema: pa.Schema | None = None, ordered: bool = False) -> Rows:
        """Run one query; without a schema, in its own types.

        A query over few rows waits for those of other stages, unless an order is requested.

        If its inputs are large, or its result turns out to be, executors write the rows to scratch files.
        """
        if schema is None:
            schema = self._schemas.get(sql) or arrow_schema(self.spark.sql(sql))
            self._schemas[sql] = schema
        if self._batching.is_on and not ordered and self._has_at_most(self.small, sql) and not self._is_large(sql):
            return self._batching.ask((sql, schema))
        return self._compute(sql, schema)

    def _compute(self, sql: str, schema: pa.Schema) -> Rows:
        self.last_query = sql
        if (self._is_large(sql) or any(name in sql for name in self._many)) and fits_parquet(schema):
            return self._compute_apart(sql, schema)
        try:
            table = self.collect(sql, schema)
        except (PySparkException, Py4JJavaError) as error:
            if "maxResultSize" not in str(error):
                raise
            return self._compute_apart(sql, schema)
        return self.keep(table.to_reader())

    def run_batched(self, tasks: Sequence[Task]) -> None:
        """Run stages. Queries over few rows for which several stages wait are combined into one."""
        self._batching.run(tasks)

    def _compute_together(self, queries: Sequence[tuple[str, pa.Schema]]) -> list[Rows | Exception]:
        """Return the rows of each query.

        If one fails, each is run alone, so that the error is attributed to the right one.
        """
        if len(queries) > 1:
            few = all(self._has_at_most(FEW, sql) for sql, _ in queries)
            sql, schema = one_query(queries, few)
            try:
                return [self.keep(t.to_reader()) for t in parted(self.collect(sql, schema))]
            except (PySparkException, Py4JJavaError):
                pass
        return list(map(self._answer, queries))

    def collect_all(self, queries: Sequence[tuple[str, pa.Schema]]) -> list[pa.Table]:
        """Return the rows of each query in the driver.

        Those over few rows are one query. Raises the error of the first failed one.
        """
        few = [n for n, (sql, _) in enumerate(queries) if self._has_at_most(self.small, sql)]
        together = dict(
            zip(few, self._compute_together([queries[n] for n in few]) if len(few) > 1 else (), strict=False)
        )
        return [
            _raised(together[n]).table if n in together else self.collect(*query) for n, query in enumerate(queries)
        ]

    def _answer(self, query: tuple[str, pa.Schema]) -> Rows | Exception:
        try:
            return self._compute(*query)
        except Exception as error:  # raised where the query was requested
            return error

    def defer(self, sql: str, schema: pa.Schema) -> Rows:
        """Return the rows of a query that is run when they are read, or at once for types that Arrow does not read."""
        if any(encoded_type(f.type) != f.type for f in schema):
            return self._compute(sql, schema)
        most = max((rows or 0 for name, rows in self._rows.items() if name in sql), default=0)
        frame = with_nullable_fields(self.spark.sql(sql).select(*[quote(n) for n in schema.names]))
        return Rows(frame=frame, schema=schema, guess=most, text=sql)

    def _views_in(self, sql: str) -> set[str]:
        """Return the views that a query reads."""
        return set(self._named.findall(sql)) - set(self._defined.findall(sql))

    def _has_at_most(self, rows: int, sql: str) -> bool:
        """Return whether each view in the query has at most `rows` rows."""
        return all(found is not None and found <= rows for name, found in self._rows.items() if name in sql)

    def _is_large(self, sql: str) -> bool:
        return bool(self._large) and sum(size for name, size in self._large.items() if name in sql) > self.memory.large

    def _compute_apart(self, sql: str, schema: pa.Schema) -> Rows:
        """Let the executors write the result, and load it if it has few rows."""
        self._interpreting.choose(False)
        folder = self.scratch / f"{next(self._files)}.parquet"
        frame = self.spark.sql(sql).select(*[quote(n) for n in schema.names])
        numbered = frame.toDF(*[f"c{n}" for n in range(len(schema))])
        rows = write_frame(numbered, folder, schema, max(1 << 20, self.memory.chunk))
        return self.near(rows)

    def collect(self, sql: str, schema: pa.Schema) -> pa.Table:
        """Run one query and return its rows in the driver in the given Arrow types."""
        views = self._views_in(sql)
        interprets = self._interpreting.choose(self._has_at_most(FEW, sql), sql)
        if self._standing is not None and self._standing.holds(views):
            return conform(PASSED.count(self._standing.collect(sql, interprets)), schema)
        return conform(PASSED.count(collected(self.spark.sql(sql))), schema)

    def spreads(self, rows: int) -> bool:
        """Return whether tasks in other processes should store, look up or change this number of rows."""
        return self.spreading.rows is not None and rows >= self.spreading.rows

    def near(self, rows: Rows) -> Rows:
        """Load rows that tasks have written into this process if they are few."""
        few = not rows.is_collected and rows.num_rows <= self.small and self.memory.has_room(self._size(rows))
        return self.keep(rows.reader()) if few else rows

    def filed(self, rows: Rows, column: str) -> tuple[tuple[Path, str], ...]:
        """Return scratch files with a column of the rows, and its name in each."""
        if rows.files is not None:
            return tuple((f, f"c{rows.schema.get_field_index(column)}") for f in rows.files)
        if rows.is_collected:
            part = rows.table.select([column])
            return ((self._write(part.to_batches(), part.schema), "c0"),)
        frame = self._frame(rows).select(quote(column)).toDF("c0")
        folder = self.scratch / f"{next(self._files)}.parquet"
        written = write_frame(frame, folder, pa.schema([rows.schema.field(column)]))
        return tuple((f, "c0") for f in written.files or ())

    def buckets(self, rows: int) -> int:
        """Return the number of parts for this number of rows: a power of two."""
        return self.spreading.buckets(rows)

    def run_buckets(self, sent: Sequence[Sent], task: BucketTask, schema: pa.Schema) -> pa.Table:
        """Run a function over the rows of each bucket, with the bucket's mark, and return its results."""
        return run_buckets(self.spark, sent, task, schema, self._frame)

    def run_tasks(self, tasks: Sequence[FileTask]) -> list[Any]:
        """Run tasks on files in executors and return their answers."""
        return SparkTasks(self.spark).run_tasks(tasks)

    def run_apart(self, rows: Rows, task: RunTask, schema: pa.Schema) -> pa.Table:
        """Run a function over the batches of each part of the rows, in executors, and return its results."""
        names = rows.schema.names
        numbered = self._frame(rows).toDF(
            *[f"c{n}" for n in range(len(names))]
        )  # mapInArrow accepts no name with a dot

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return task(b.rename_columns(names) for b in batches)

        return conform(numbered.mapInArrow(run, from_arrow_schema(schema)).toArrow(), schema)

    def explaining(self, prepared: PreparedStage, catalog: Catalog) -> AbstractContextManager[None]:
        """Run a stage.

        Spark's errors are raised as diagnostics about the stage's view, with the row at fault if known.
        """
        return explain_failure(prepared, catalog, self)

    def windows(self, windows: WindowOperator, few: bool) -> Rows:
        """Return the rows of a WINDOW BY operator over the present rows of its views."""
        self._interpreting.choose(False)
        found = find_windows(
            windows.node, packed(self.spark.sql(windows.text)), Spread.SINGLE if few else Spread.HASHED
        )
        return Rows(frame=found, schema=windows.node.schema.arrow)

    def rest(self) -> None:
        """Restore the session's original settings."""
        self._interpreting.restore()

    def sweep(self) -> None:
        """Delete scratch files. Nothing of an epoch is needed after it."""
        self._large.clear()
        self._many.clear()
        self._rows.clear()
        if self._standing is not None:
            self._standing.sweep()
        self.rest()
        for path in self.scratch.glob("*.parquet"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Delete the scratch folder and the views."""
        self.forget()
        self.discard()

    def forget(self) -> None:
        """Delete the views and their scratch files."""
        for view in self._views:
            self.spark.catalog.dropTempView(view)
        self._views.clear()
        if self._standing is not None:
            self._standing.clear()
        self.sweep()

    def discard(self) -> None:
        """Delete only the scratch folder. The views end with Spark's process."""
        shutil.rmtree(self.scratch, ignore_errors=True)


def _raised(answer: Rows | Exception) -> Rows:
    if isinstance(answer, Exception):
        raise answer
    return answer


def _emptied(held: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches, and release them one by one."""
    held.reverse()
    while held:
        yield held.pop()


def _plain_bytes(file: Path) -> int:
    metadata = pq.read_metadata(file)
    return sum(metadata.row_group(n).total_byte_size for n in range(metadata.num_row_groups))
