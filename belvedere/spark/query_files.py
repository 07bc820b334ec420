"""One query over files or rows, in batch: the answer in the query's order.

In: a compiled query template or the text of a WINDOW BY query, and the files or rows of each table. Out: Arrow rows and the rows that were
rejected while reading. Keeps nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from sqlglot import exp

from belvedere.activity import NOW
from belvedere.catalog import Catalog, InputKind, QueryTemplate, View
from belvedere.connectors.reading.reader import Taken, read_files
from belvedere.connectors.records import RejectedRow, SourceFile
from belvedere.engine.epoch import EpochReport
from belvedere.engine.ingest import stamp
from belvedere.engine.rows import Rows
from belvedere.plan.expressions import column
from belvedere.plan.nodes import Expr, Filter, Item, Node, Project, TopK, Window
from belvedere.schema import Column
from belvedere.spark.batch import BatchAnswers, GivenRows, InputLog, run_batch
from belvedere.spark.failures import WINDOW_HINTS, explain_query_failure
from belvedere.spark.window_by.run import run_window_query

QUERY = "query~"
POSITION = "_position~"


@dataclass(frozen=True)
class Answer:
    """The rows of a query in its order, and what was rejected while its tables were read."""

    rows: pa.Table
    rejected: tuple[RejectedRow, ...] = ()


def query_template(spark: SparkSession, catalog: Catalog, template: QueryTemplate, paths: Mapping[str, Path]) -> Answer:
    """Answer a template without parameters over the files of the catalog's inputs (`paths` by input id)."""
    taken = {}
    for id_, table in catalog.inputs.items():
        NOW.begin(f"reading {table.name}")
        taken[id_] = read_table(spark, id_, paths[id_], [c for c in table.schema if not c.hidden])
    NOW.begin("computing")
    rows = answer_template(spark, catalog, template, {i: t.rows.table for i, t in taken.items()})
    return Answer(rows, tuple(r for t in taken.values() for r in t.rejected))


def answer_template(
    spark: SparkSession,
    catalog: Catalog,
    template: QueryTemplate,
    tables: Mapping[str, pa.Table],
    now: datetime | None = None,
) -> pa.Table:
    """The answer of a template without parameters over the rows of the catalog's inputs (by id), in its order; `now` is `now()`."""
    now = now or datetime.now(UTC)
    # rows are read once, so they only ever arrive
    inputs = {i: replace(t, kind=InputKind.IMPORT) for i, t in catalog.inputs.items()}
    plan, ordered = with_position(template.plan)
    view = View(QUERY, QUERY, plan, plan.schema)
    whole = replace(catalog, inputs=inputs, views={**catalog.views, QUERY: view})
    log = InputLog(whole, ends=True)
    first, arrivals = 1, {}
    for id_, given in tables.items():
        arrivals[id_] = stamp(given, inputs[id_], first, now)
        first += given.num_rows
    log.add(EpochReport(1, now, arrivals=arrivals))
    with explain_query_failure():
        rows = run_batch(spark, whole, QUERY, log, now)
    if ordered:
        rows = rows.sort_by(POSITION)
    return rows.select([c.name for c in template.schema.visible])


def answer_plans(
    spark: SparkSession, catalog: Catalog, plans: Sequence[Node], rows: Mapping[str, pa.Table | Rows], now: datetime
) -> list[pa.Table]:
    """The rows of each plan, hidden columns too, over the rows of the catalog's inputs (by id), at the time `now`: by one query."""
    views = {f"{QUERY}{n}": View(f"{QUERY}{n}", f"{QUERY}{n}", p, p.schema) for n, p in enumerate(plans)}
    whole = replace(catalog, views={**catalog.views, **views})
    with explain_query_failure():
        batch = BatchAnswers(spark, whole, GivenRows(whole, rows, now))
        try:
            found = batch.answers(tuple(views), now)
        finally:
            batch.close()
    return [found[v] for v in views]


def query_window_by(spark: SparkSession, text: str, paths: Mapping[str, tuple[Path, Sequence[Column]]]) -> Answer:
    """Answer a WINDOW BY query over files: a path and its columns per table."""
    taken = {name: read_table(spark, name, path, columns) for name, (path, columns) in paths.items()}
    frames = {name: spark.createDataFrame(t.rows.table) for name, t in taken.items()}
    with explain_query_failure(WINDOW_HINTS):
        rows = run_window_query(spark, text, frames).toArrow()
    return Answer(rows, tuple(r for t in taken.values() for r in t.rejected))


def read_table(spark: SparkSession, table: str, path: Path, columns: Sequence[Column]) -> Taken:
    """All rows of a file, or of the files of a directory in the order of their names."""
    names = sorted(f for f in path.rglob("*") if f.is_file() and not f.name.startswith((".", "_"))) if path.is_dir() else [path]
    files = [_source_file(name) for name in names]
    return read_files(spark, table, files, columns, {})


def _source_file(path: Path) -> SourceFile:
    stat = path.stat()
    return SourceFile(str(path), stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC))


def with_position(plan: Node) -> tuple[Node, bool]:
    """The plan with a column that numbers its rows in the order of its outermost ORDER BY; whether it has one."""
    if isinstance(plan, Project):
        inner, ordered = with_position(plan.input)
        if not ordered:
            return plan, False
        return Project(inner, (*plan.items, Item(POSITION, column(POSITION), pa.int64(), nullable=False, hidden=True))), True
    if not isinstance(plan, TopK) or plan.partition or not plan.order:
        return plan, False
    keys: list[Expr] = [exp.Ordered(this=o.expr.copy(), desc=o.descending, nulls_first=o.nulls_come_first) for o in plan.order]
    keys += [exp.Ordered(this=column(k), desc=False, nulls_first=True) for k in plan.input.schema.key or ()]
    number: Any = exp.Window(this=exp.RowNumber(), order=exp.Order(expressions=keys))
    numbered: Node = Window(plan.input, (Item(POSITION, number, pa.int64(), nullable=False, hidden=True),))
    if plan.offset:
        numbered = Filter(numbered, exp.GT(this=column(POSITION), expression=exp.Literal.number(plan.offset)))
    if plan.limit is not None:
        numbered = Filter(numbered, exp.LTE(this=column(POSITION), expression=exp.Literal.number(plan.offset + plan.limit)))
    return numbered, True
