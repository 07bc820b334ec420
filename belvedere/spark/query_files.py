"""One query over files or rows, in batch: the answer in the query's order.

In: a compiled query template or the text of a WINDOW BY query, and the files or rows of each table. Out: Arrow rows,
and the rows that were rejected while reading. It stores nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import Input, InputKind
from belvedere.catalog.templates import QueryTemplate
from belvedere.catalog.views import View
from belvedere.connectors.into_spark import into_spark
from belvedere.connectors.reading.reader import RowsOfFiles, read_files
from belvedere.connectors.run_records import RejectedRow, SourceFile
from belvedere.engine.epoch_report import EpochReport
from belvedere.engine.ingest import UID_BITS, stamp, stamp_frame
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.engine.rows.scratch_rows import scratch_rows, uri
from belvedere.errors import BelvedereError
from belvedere.functions.spark_types import quote
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Expr, Filter, Item, Node, Project, TopK, Window
from belvedere.process.activity import NOW
from belvedere.schema import Column
from belvedere.spark.batch import BatchAnswers, InputLog, SingleEpochLog, run_batch
from belvedere.spark.file_scans import UNREAD, scan_of
from belvedere.spark.spark_failures import WINDOW_HINTS, explain_query_failure
from belvedere.spark.window_by.windows_query import run_window_query

QUERY = "query~"
POSITION = "_position~"


@dataclass(frozen=True)
class QueryAnswer:
    """The rows of a query in its order, and the rows rejected while its tables were read."""

    rows: pa.Table
    rejected: tuple[RejectedRow, ...] = ()


def query_template(
    spark: SparkSession, catalog: Catalog, template: QueryTemplate, paths: Mapping[str, Path]
) -> QueryAnswer:
    """Answer a template without parameters over the files of the catalog's inputs (`paths` by input id)."""
    tables = {i: (t.name, paths[i], [c for c in t.schema if not c.hidden]) for i, t in catalog.inputs.items()}
    ordered = any(
        t.kind is InputKind.STREAM for t in catalog.inputs.values()
    )  # windows of SPL: rows come in their order

    def answer(taken: Mapping[str, RowsOfFiles]) -> pa.Table:
        now = datetime.now(UTC)
        inputs, free = {i: replace(t, kind=InputKind.IMPORT) for i, t in catalog.inputs.items()}, 1
        rows: dict[str, pa.Table | Rows] = {}
        for id_, found in taken.items():
            rows[id_], free = _stamped(found.rows, inputs[id_], free, now)
        return _answer_of(
            spark, replace(catalog, inputs=inputs), template, partial(SingleEpochLog, rows=rows, now=now), now
        )

    return _over_files(spark, tables, answer, may_scan=not ordered)


def _over_files(
    spark: SparkSession,
    tables: Mapping[str, tuple[str, Path, Sequence[Column]]],
    answer: Callable[[Mapping[str, RowsOfFiles]], pa.Table],
    may_scan: bool = True,
) -> QueryAnswer:
    """Return the answer over tables in files by their ids.

    Parquet files with fitting types are read by Spark's own scan, if it can read them.
    """
    for scans in (True, False) if may_scan else (False,):
        taken = {}
        for id_, (name, path, columns) in tables.items():
            NOW.begin(f"reading {name}")
            taken[id_] = read_table(spark, id_, path, columns, scans)
        NOW.begin("computing")
        try:
            return QueryAnswer(answer(taken), tuple(r for t in taken.values() for r in t.rejected))
        except BelvedereError as error:
            if not scans or UNREAD not in str(error.__cause__):
                raise
    raise AssertionError("the last attempt must return or raise")


def _stamped(given: Rows, table: Input, first: int, now: datetime) -> tuple[pa.Table | Rows, int]:
    """Return the rows of an input with all its columns, and the next free number.

    `engine.ingest.receive` does this for an epoch: with times of arrival, and in files of the epoch. A query has
    neither.
    """
    names, schema = table.schema.names, table.schema.arrow
    if given.frame is not None and not given.is_collected:
        return Rows(
            frame=stamp_frame(given.frame, table, first, now).select(*map(quote, names)), schema=schema
        ), first + (1 << UID_BITS)
    if given.is_collected:
        return stamp(given.table, table, first, now).select(names), first + given.num_rows

    def stamped() -> Iterator[pa.RecordBatch]:
        number = first
        for batch in given.batches():
            yield from stamp(pa.Table.from_batches([batch]), table, number, now).select(names).cast(schema).to_batches()
            number += batch.num_rows

    return scratch_rows(pa.RecordBatchReader.from_batches(schema, stamped())), first + given.num_rows


def answer_template(
    spark: SparkSession,
    catalog: Catalog,
    template: QueryTemplate,
    tables: Mapping[str, pa.Table],
    now: datetime | None = None,
) -> pa.Table:
    """Return the answer of a template without parameters over the rows of the catalog's inputs (by id), in its order.

    `now` is `now()`.
    """
    now = now or datetime.now(UTC)
    # rows are read once, so they only ever arrive
    inputs = {i: replace(t, kind=InputKind.IMPORT) for i, t in catalog.inputs.items()}
    first, arrivals = 1, {}
    for id_, given in tables.items():
        arrivals[id_] = stamp(given, inputs[id_], first, now)
        first += given.num_rows

    def log_of(whole: Catalog) -> InputLog:
        log = InputLog(whole, ends=True)
        log.add(EpochReport(1, now, arrivals=arrivals))
        return log

    return _answer_of(spark, replace(catalog, inputs=inputs), template, log_of, now)


def _answer_of(
    spark: SparkSession, catalog: Catalog, template: QueryTemplate, log_of: Callable[[Catalog], InputLog], now: datetime
) -> pa.Table:
    """Return the answer of a template over a log of the catalog's inputs, in its order."""
    plan, ordered = with_position(template.plan)
    whole = replace(catalog, views={**catalog.views, QUERY: View(QUERY, QUERY, plan, plan.schema)})
    log = log_of(whole)
    with explain_query_failure():
        rows = run_batch(spark, whole, QUERY, log, now)
    if ordered:
        rows = rows.sort_by(POSITION)
    return rows.select([c.name for c in template.schema.visible])


def answer_plans(
    spark: SparkSession, catalog: Catalog, plans: Sequence[Node], rows: Mapping[str, pa.Table | Rows], now: datetime
) -> list[pa.Table]:
    """Return the rows of each plan, including hidden columns, over the rows of the catalog's inputs (by id), at the
    time `now`, by one query."""
    views = {f"{QUERY}{n}": View(f"{QUERY}{n}", f"{QUERY}{n}", p, p.schema) for n, p in enumerate(plans)}
    whole = replace(catalog, views={**catalog.views, **views})
    with explain_query_failure():
        batch = BatchAnswers(spark, whole, SingleEpochLog(whole, rows, now))
        try:
            found = batch.answers(tuple(views), now)
        finally:
            batch.close()
    return [found[v] for v in views]


def query_window_by(spark: SparkSession, text: str, paths: Mapping[str, tuple[Path, Sequence[Column]]]) -> QueryAnswer:
    """Answer a WINDOW BY query over files: a path and its columns per table."""

    def answer(taken: Mapping[str, RowsOfFiles]) -> pa.Table:
        frames = {name: _frame(spark, t.rows) for name, t in taken.items()}
        with explain_query_failure(WINDOW_HINTS):
            return run_window_query(spark, text, frames).toArrow()

    return _over_files(spark, {name: (name, *found) for name, found in paths.items()}, answer)


def _frame(spark: SparkSession, rows: Rows) -> DataFrame:
    """Return rows that were read as a data frame."""
    if rows.frame is not None and not rows.is_collected:
        return cast("DataFrame", rows.frame)
    if rows.files is None:
        return into_spark(spark, rows.table)
    return spark.read.parquet(*map(uri, rows.files)).toDF(*rows.schema.names)


def read_table(
    spark: SparkSession, table: str, path: Path, columns: Sequence[Column], scans: bool = True
) -> RowsOfFiles:
    """Read all rows of a file, or of the files of a directory in the order of their names.

    Many rows do not come to the driver.

    `scans`: whether Spark can read files by itself.
    """
    names = (
        sorted(f for f in path.rglob("*") if f.is_file() and not f.name.startswith((".", "_")))
        if path.is_dir()
        else [path]
    )
    files = [_source_file(name) for name in names]
    frame = scan_of(spark, files, columns) if scans else None
    if frame is not None:
        return RowsOfFiles(Rows(frame=frame, schema=pa.schema([pa.field(c.name, c.type) for c in columns])))
    return read_files(spark, table, files, columns, {}, apart=True)


def _source_file(path: Path) -> SourceFile:
    stat = path.stat()
    return SourceFile(str(path), stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC))


def with_position(plan: Node) -> tuple[Node, bool]:
    """Add a column that numbers the rows of a plan in the order of its outermost ORDER BY.

    Return the plan, and whether it has one.
    """
    if isinstance(plan, Project):
        inner, ordered = with_position(plan.input)
        if not ordered:
            return plan, False
        return Project(
            inner, (*plan.items, Item(POSITION, column(POSITION), pa.int64(), nullable=False, hidden=True))
        ), True
    if not isinstance(plan, TopK) or plan.partition or not plan.order:
        return plan, False
    keys: list[Expr] = [
        exp.Ordered(this=o.expr.copy(), desc=o.descending, nulls_first=o.nulls_come_first) for o in plan.order
    ]
    keys += [exp.Ordered(this=column(k), desc=False, nulls_first=True) for k in plan.input.schema.key or ()]
    number: Any = exp.Window(this=exp.RowNumber(), order=exp.Order(expressions=keys))
    numbered: Node = Window(plan.input, (Item(POSITION, number, pa.int64(), nullable=False, hidden=True),))
    if plan.offset:
        numbered = Filter(numbered, exp.GT(this=column(POSITION), expression=exp.Literal.number(plan.offset)))
    if plan.limit is not None:
        numbered = Filter(
            numbered, exp.LTE(this=column(POSITION), expression=exp.Literal.number(plan.offset + plan.limit))
        )
    return numbered, True
