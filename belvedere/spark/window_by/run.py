"""Run a SQL++ query with WINDOW BY on Spark.

In: text, tables as DataFrames. Out: a DataFrame whose rows come in the order of rule 10. What Spark SQL can say is said in
Spark SQL (`native`), the windows are found by kernels where the boundaries have a known class, and everything else is done
by the interpreter in Python workers. Nothing runs before the DataFrame is used, except where a table stands in a
subquery: it is then collected (at most `COLLECT_LIMIT` rows).
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from belvedere.errors import BelvedereError, Severity
from belvedere.lang.window_by.check import check_query, row_type
from belvedere.lang.window_by.parser import mentions_window_by, parse_window_query
from belvedere.spark.window_by.relation import (
    Table,
    output,
)
from belvedere.spark.window_by.runner import QueryRunner
from belvedere.spark.window_by.tuples import Spread


def sql(spark: SparkSession, text: str, **tables: DataFrame) -> DataFrame:
    """One query of SQL++ with WINDOW BY, or of Spark SQL where there is no WINDOW BY, over DataFrames by name.

    Raises `BelvedereError` with the diagnostics of `check_window_query` where the query is wrong.
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
    """The query's results: the fields of objects as columns, other values as one column `value`.

    A partition that is much longer than a core's share of the rows is cut into blocks, where its windows can be found block by block; some
    Spark jobs then run while the DataFrame is made, one (a sample) in every case where there may be rows enough. With another `spread` the
    rows come in any order, which saves a pass.
    """
    query = parse_window_query(text)
    known = {n: Table(t) for n, t in tables.items()}
    errors = [d for d in check_query(query, {n: row_type(t.schema) for n, t in known.items()}) if d.severity == Severity.ERROR]
    if errors:
        raise BelvedereError(errors)
    return output(QueryRunner(spark, known, spread=spread).run(query))
