"""Rows between the driver and Spark.

In: Arrow tables or data frames. Out: temporary views to query, and query results as Arrow. Few rows become a local relation in
one partition (no exchange, no file); many become a scratch Parquet file that executors read.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

SMALL = 20_000


class Rows:
    """A relation's rows on either side: an Arrow table, a data frame, or both once both were asked for."""

    def __init__(self, table: pa.Table | None = None, frame: DataFrame | None = None, schema: pa.Schema | None = None):
        self._table = table
        self.frame = frame
        self._schema = schema

    @property
    def table(self) -> pa.Table:
        """The rows in the driver, as Arrow."""
        if self._table is None:
            if self.frame is None:
                raise AssertionError("rows without a table or a frame")
            self._table = conform(self.frame.toArrow(), self._schema) if self._schema else self.frame.toArrow()
        return self._table

    @property
    def is_collected(self) -> bool:
        """Whether the rows are in the driver already."""
        return self._table is not None

    @property
    def is_empty(self) -> bool:
        """Whether there is no row; a frame that was not collected counts as having some."""
        return self._table is not None and self._table.num_rows == 0


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same rows with exactly the names, order and types of `schema`."""
    return table.select(schema.names).cast(schema)


class Exchange:
    """Makes temporary views and collects queries; owns the scratch folder of one engine."""

    def __init__(self, spark: SparkSession, prefix: str, small: int = SMALL):
        self.spark = spark
        self.prefix = prefix
        self.small = small
        self._scratch = Path(tempfile.mkdtemp(prefix="belvedere-"))
        self._files = itertools.count()

    def view_name(self, name: str) -> str:
        """The temporary view's name: views of several engines live in one session."""
        return f"{self.prefix}_{name}"

    def put(self, name: str, rows: Rows) -> None:
        """Make the view `name` of these rows."""
        frame = rows.frame if rows.frame is not None else self._frame(rows.table)
        frame.createOrReplaceTempView(self.view_name(name))

    def _frame(self, table: pa.Table) -> DataFrame:
        if table.num_rows <= self.small:
            # one chunk: PySpark reads no further than the first batch of each slice, which may be empty, and no nested column of none
            whole = table.combine_chunks() if table.num_rows else table.schema.empty_table()
            return self.spark.createDataFrame(whole).coalesce(1)
        path = self._scratch / f"{next(self._files)}.parquet"
        pq.write_table(table, path, compression="lz4", row_group_size=max(1, table.num_rows // 8))
        schema = self.spark.createDataFrame(table.schema.empty_table()).schema
        return self.spark.read.schema(schema).parquet(str(path))

    def collect(self, sql: str, schema: pa.Schema) -> pa.Table:
        """Run one query and bring its rows to the driver in the given Arrow types."""
        return conform(self.spark.sql(sql).toArrow(), schema)

    def sweep(self) -> None:
        """Delete scratch files: nothing of an epoch is needed after it."""
        for path in self._scratch.glob("*.parquet"):
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Delete the scratch folder and the views."""
        for view in self.spark.catalog.listTables():
            if view.isTemporary and view.name.startswith(f"{self.prefix}_"):
                self.spark.catalog.dropTempView(view.name)
        self.discard()

    def discard(self) -> None:
        """Delete the scratch folder alone: the views go with Spark's process."""
        shutil.rmtree(self._scratch, ignore_errors=True)
