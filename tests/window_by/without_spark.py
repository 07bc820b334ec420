"""Runs a planned WINDOW BY query without Spark: DuckDB computes the row columns, the kernels the windows.

The planner's SQL texts are Spark's; sqlglot turns them into DuckDB's.
"""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from belvedere.kernels.windows import window_tables
from belvedere.lang.window_by.parser import parse_window_query
from belvedere.spark.window_by.native import translate
from belvedere.spark.window_by.plan import BlockPlanner, WindowPlan
from belvedere.spark.window_by.sql_values import Object, SqlValue, merge

TYPES = {"id": pa.int64(), "k": pa.int64(), "o": pa.int64(), "v": pa.int64(), "x": pa.float64(), "s": pa.string()}


def plan_of(text: str) -> WindowPlan:
    """The plan of a query over a table `rows` of columns TYPES."""
    block = parse_window_query(text).blocks[0]
    item = Object({n: SqlValue(f"`_{n}0`", t) for n, t in TYPES.items()})
    variable = block.sources[0].variable.text
    assert block.window is not None
    keys = [merge(translate(p, {variable: item})) for p in block.window.partition]
    return BlockPlanner(block, {variable: item}, keys, {}).plan()


def duck(text: str) -> str:
    return sqlglot.transpile(text, read="spark", write="duckdb")[0]


def prepared(plan: WindowPlan, rows: list[dict[str, Any]]) -> pa.Table:
    """The sorted rows with the columns that Spark would prepare."""
    table = pa.table({f"_{n}0": pa.array([r[n] for r in rows], t) for n, t in TYPES.items()})
    with duckdb.connect() as connection:
        connection.register("input", table)
        columns = ", ".join(f"{duck(t)} AS {duck(f'`{c}`')}" for t, c in plan.columns.items())
        order = ", ".join([*(f'"{k}" NULLS FIRST' for k in plan.spec.keys), *(t.replace("`", '"') for t in plan.sort)])
        return connection.sql(f"SELECT {columns} FROM input ORDER BY {order}").to_arrow_table()


def run(text: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The query's results over the rows."""
    plan = plan_of(text)
    found = pa.concat_tables(window_tables(prepared(plan, rows), plan.spec))
    with duckdb.connect() as connection:
        connection.register("windows", found)
        select = []
        for item in plan.block.select.items:
            assert isinstance(item.expr, exp.Expr)
            value = merge(translate(item.expr, plan.variables))
            text = value.sql if value.missing is None else f"IF({value.missing}, NULL, {value.sql})"
            select.append(f'{duck(text)} AS "{item.name}"')
        sort = ", ".join(f'"{c}" NULLS FIRST' for c in (*plan.spec.keys, plan.spec.position))
        return connection.sql(f"SELECT {', '.join(select)} FROM windows ORDER BY {sort}").to_arrow_table().to_pylist()
