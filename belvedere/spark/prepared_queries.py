"""Prepared queries over few rows, since Spark's planning takes longer than the execution.

In: views of few rows, query texts. Out: the rows of each query. A view is a file that each epoch rewrites, so a planned
query can run again over the new contents. Only plans that read their files at each run are kept: an exchange, a
subquery or a broadcast keeps its first result.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from belvedere.engine.rows.epoch_rows import fits_parquet
from belvedere.engine.rows.scratch_rows import uri
from belvedere.functions.spark_types import quote
from belvedere.spark.nullable_structs import collected, with_nullable_fields
from belvedere.spark.type_encoding import packed

LENGTH = 4 << 20
"""Length in bytes that Spark assumes for each file. It reads the row groups whose middle is before it."""
MAX_BYTES = LENGTH // 2
"""Maximum number of bytes of rows that are certainly one row group."""
PLANS = 500
"""Maximum number of cached plans."""
BROADCAST = "spark.sql.autoBroadcastJoinThreshold"
HOLDING = ("Exchange", "Subquery", "InMemoryTableScan")
"""Operators that keep the rows of their first run."""


@dataclass
class StandingView:
    """A view over a file."""

    schema: pa.Schema
    file: Path
    frame: DataFrame
    is_current: bool = True
    """Whether the temporary view is this one; otherwise it is one of other rows."""
    is_written: bool = False
    """Whether the file has rows of this epoch, which data frames may still read."""


@dataclass
class StandingQuery:
    """A view of a query over standing views."""

    text: str
    views: frozenset[str]
    is_current: bool = True


class StandingViews:
    """The standing views of one engine and the plans of queries over them. `folder` need not exist."""

    def __init__(self, spark: SparkSession, folder: Path):
        self._spark = spark
        self._folder = folder
        self._views: dict[str, StandingView] = {}
        self._queries: dict[str, StandingQuery] = {}
        self._plans: OrderedDict[tuple[str, bool], DataFrame | None] = OrderedDict()
        """Plan of each query, by whether it is interpreted; None if it cannot run again."""

    def put(self, name: str, rows: pa.Table | None) -> bool:
        """Create the view of these few rows, once per epoch.

        Return False if this is not possible and the caller must create the view.
        """
        if query := self._queries.get(name):
            query.is_current = False
        view = self._views.get(name)
        if (
            rows is None
            or rows.nbytes > MAX_BYTES
            or (view is not None and view.is_written)
            or not fits_parquet(rows.schema)
        ):
            if view is not None:
                view.is_current = False
            return False
        if self._queries.pop(name, None) is not None:
            self._forget(name)
        if view is None or not view.schema.equals(rows.schema):
            view = self._views[name] = self._made(name, rows.schema, view)
        elif not view.is_current:
            view.frame.createOrReplaceTempView(name)
        pq.write_table(_numbered(rows), view.file, compression="none", use_dictionary=False, write_statistics=False)
        view.is_current = view.is_written = True
        return True

    def put_query(self, name: str, frame: DataFrame, text: str, views: Collection[str]) -> bool:
        """Create the view of a query's rows, which are computed when they are read.

        Return whether this is possible.
        """
        query = self._queries.get(name)
        if not self.holds(views):
            if query is not None:
                query.is_current = False
            return False
        if query is None or query.text != text:
            self._forget(name)
            query = None
        if query is None or not query.is_current:
            frame.createOrReplaceTempView(name)
            self._queries[name] = StandingQuery(text, frozenset(views))
        if name in self._views:
            self._views[name].is_current = False
        return True

    def _made(self, name: str, schema: pa.Schema, former: StandingView | None) -> StandingView:
        if former is not None:
            self._forget(name)
        self._folder.mkdir(exist_ok=True)
        file = former.file if former else self._folder / f"{len(self._views)}.parquet"
        with file.open("wb") as made:
            made.truncate(LENGTH)  # takes no room on the disk
        types = from_arrow_schema(_numbered(schema.empty_table()).schema)
        frame = self._spark.read.schema(types).parquet(uri(file)).toDF(*schema.names).coalesce(1)
        frame.createOrReplaceTempView(name)
        return StandingView(schema, file, frame)

    def _forget(self, name: str) -> None:
        """Forget all plans over this view."""
        for text, interpreted in [key for key in self._plans if quote(name) in key[0]]:
            del self._plans[text, interpreted]
        for above in [n for n, q in self._queries.items() if name in q.views]:
            del self._queries[above]
            self._forget(above)

    def holds(self, names: Collection[str]) -> bool:
        """Return whether all these views exist, with rows of this epoch."""
        return all(map(self._holds, names))

    def _holds(self, name: str) -> bool:
        if (query := self._queries.get(name)) is not None and query.is_current:
            return self.holds(query.views)
        view = self._views.get(name)
        return view is not None and view.is_current and view.is_written

    def collect(self, sql: str, interpreted: bool) -> pa.Table:
        """Return the rows of a query over only standing views."""
        key = sql, interpreted
        if (frame := self._plans.get(key)) is not None:
            self._plans.move_to_end(key)
            return frame.toArrow()
        if key in self._plans:
            return collected(self._spark.sql(sql))
        frame = self._planned(sql)
        self._plans[key] = frame if _runs_again(frame) else None
        if len(self._plans) > PLANS:
            self._plans.popitem(last=False)
        return frame.toArrow()

    def _planned(self, sql: str) -> DataFrame:
        """Return the query with its plan, which does not broadcast a side of a join."""
        conf = self._spark.conf
        own = conf.get(BROADCAST)
        conf.set(BROADCAST, "-1")
        try:
            frame = packed(with_nullable_fields(self._spark.sql(sql)))
            frame._jdf.queryExecution().executedPlan()
        finally:
            conf.set(BROADCAST, own or "")
        return frame

    def sweep(self) -> None:
        """Mark the files as unused after the end of the epoch."""
        for view in self._views.values():
            view.is_written = False

    def clear(self) -> None:
        """Forget views and plans."""
        self._views.clear()
        self._queries.clear()
        self._plans.clear()


def _runs_again(frame: DataFrame) -> bool:
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return not any(operator in plan for operator in HOLDING)


def _numbered(rows: pa.Table) -> pa.Table:
    """Return the columns under names that any file supports, all nullable."""
    names = [f.with_name(f"c{n}").with_nullable(True) for n, f in enumerate(rows.schema)]
    return pa.Table.from_arrays(rows.columns, schema=pa.schema(names))
