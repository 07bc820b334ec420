"""Runs a SQL++ query with WINDOW BY on Spark.

In: text, tables as DataFrames. Out: a DataFrame whose rows are in the order of rule 10. The query becomes a plan, as in
a script: its windows are found by kernels in Python workers, and Spark SQL computes the rest. Nothing runs before the
DataFrame is used, unless one partition may be so long that many tasks should process it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import count

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from belvedere.engine.sql.plan_sql import print_expression, render
from belvedere.engine.sql.staged_operators import WindowOperator, split_windows
from belvedere.errors import BelvedereError, Severity
from belvedere.functions.spark_types import quote
from belvedere.functions.sqlpp_functions import DURATION
from belvedere.plan.expressions import columns_of
from belvedere.plan.operators.nodes import Item, Project, Scan
from belvedere.plan.operators.project import item_of
from belvedere.plan.rewrites.prune_columns import prune
from belvedere.plan.rewrites.push_conditions import push_conditions
from belvedere.spark.window_by.frame_types import schema_of, sort_columns
from belvedere.spark.window_by.windows import Spread, windows
from belvedere.sqlpp.bindings import Result, output_items
from belvedere.sqlpp.check import check_query, row_type
from belvedere.sqlpp.lower import lowered_query
from belvedere.sqlpp.parser import mentions_window_by, parse_window_query

INTERVAL_MICROS = (
    "(extract(DAY FROM {0}) * 86400000000 + extract(HOUR FROM {0}) * 3600000000L + extract(MINUTE FROM {0}) * 60000000L"
    " + CAST(extract(SECOND FROM {0}) * 1000000 AS BIGINT))"
)
_RUNS = count()


def sql(spark: SparkSession, text: str, **tables: DataFrame) -> DataFrame:
    """Run one query of SQL++ with WINDOW BY, or of Spark SQL without WINDOW BY, over DataFrames by name.

    Raises `BelvedereError` with the diagnostics of `check_window_query` if the query is invalid.
    """
    if mentions_window_by(text):
        return run_window_query(spark, text, tables)
    for table, frame in tables.items():
        frame.createOrReplaceTempView(table)
    try:
        return spark.sql(text)
    finally:
        for table in tables:
            spark.catalog.dropTempView(table)


def run_window_query(
    spark: SparkSession,
    text: str,
    tables: Mapping[str, DataFrame],
    spread: Spread = Spread.ORDERED,
) -> DataFrame:
    """Return the query's results: the fields of objects as columns, other values as one column `value`.

    A partition that is much longer than a core's share of the rows is cut into blocks, if its windows can be found
    block by block. Some Spark jobs then run while the DataFrame is made; one of them (a sample) always runs if there
    may be enough rows. With another `spread` the rows are in any order, which saves a pass.
    """
    query = parse_window_query(text)
    schemas = {n: schema_of(t) for n, t in tables.items()}
    errors = [
        d for d in check_query(query, {n: row_type(s) for n, s in schemas.items()}) if d.severity == Severity.ERROR
    ]
    if errors:
        raise BelvedereError(errors)
    scans = {n: Scan(f"of {n}", s) for n, s in schemas.items()}
    utc = (spark.conf.get("spark.sql.session.timeZone") or "") in ("UTC", "Etc/UTC", "GMT", "Z")
    return _answer(spark, lowered_query(query, scans, utc=utc), {f"of {n}": t for n, t in tables.items()}, spread)


def _answer(spark: SparkSession, result: Result, tables: Mapping[str, DataFrame], spread: Spread) -> DataFrame:
    """Return the rows of a lowered query."""
    outputs = output_items(result.value)
    order = () if result.sorted else result.order
    schema = result.node.schema
    read = dict.fromkeys(
        c for e in (*(i.expr for i in outputs), *(o.expr for o in order)) for c in sorted(columns_of(e))
    )
    plan = prune(push_conditions(Project(result.node, tuple(item_of(schema[c]) for c in read or schema.names[:1]))))
    prefix, views = f"belvedere_{os.getpid()}_{next(_RUNS)} ", []

    def put(name: str, frame: DataFrame) -> None:
        views.append(prefix + name)
        frame.createOrReplaceTempView(f"`{prefix}{name}`")

    try:
        for name in {n.relation for n in plan.walk() if isinstance(n, Scan)}:
            put(name, _plain(tables[name]))
        rest, operators = split_windows(plan, prefix.__add__, "clock")
        for operator in operators:
            assert isinstance(operator, WindowOperator)
            ordered = spread is not Spread.ORDERED or (operator is operators[-1] and result.sorted)
            put(operator.name, windows(operator.node, spark.sql(operator.text), spread if ordered else Spread.HASHED))
        frame = spark.sql(render(rest, prefix.__add__))
    finally:
        for view in views:
            spark.catalog.dropTempView(view)
    frame = frame.orderBy(*sort_columns(order)) if order else frame
    return frame.select(*map(_shown, outputs))


def _plain(frame: DataFrame) -> DataFrame:
    """Return the rows with intervals as numbers of microseconds."""
    long = {c.name for c in schema_of(frame) if c.type == DURATION}
    if not long:
        return frame
    text = {n: INTERVAL_MICROS.format(f"CAST({quote(n)} AS INTERVAL DAY TO SECOND)") for n in long}
    return frame.select(*(F.expr(text.get(n, quote(n))).alias(n) for n in frame.columns))


def _shown(item: Item) -> Column:
    text = print_expression(item.expr)
    if item.type == DURATION:
        text = f"CAST(INTERVAL '0.000001' SECOND * {text} AS INTERVAL DAY TO SECOND)"
    return F.expr(text).alias(item.name)
