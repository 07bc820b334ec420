"""Runs a query with WINDOW BY without Spark: DuckDB computes what is SQL around the windows, the kernels find these.

The plan's texts are Spark's; sqlglot turns them into DuckDB's.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from belvedere.engine.sql.plan_sql import order_text, quote, render
from belvedere.engine.sql.staged_operators import WindowOperator, split_windows
from belvedere.kernels.windows import window_tables
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Expr, Item, Node, Order, Project, Scan
from belvedere.plan.operators.predicate_window import PredicateWindow
from belvedere.plan.rewrites.prune_columns import prune
from belvedere.schema import Column, Schema
from belvedere.sqlpp.bindings import output_items
from belvedere.sqlpp.lower import lowered_query
from belvedere.sqlpp.parser import parse_window_query

TYPES = {"id": pa.int64(), "k": pa.int64(), "o": pa.int64(), "v": pa.int64(), "x": pa.float64(), "s": pa.string()}
ROWS = Scan("rows", Schema(tuple(Column(n, t, n != "id") for n, t in TYPES.items())))


@lru_cache(maxsize=4096)
def duck(text: str) -> str:
    for own, like in ((" AS VOID)", " AS STRING)"), ("MAKE_VALID_UTF8(", "(")):
        text = text.replace(own, like)
    return sqlglot.transpile(text, read="spark", write="duckdb")[0]


def plan_of(text: str) -> tuple[Node, tuple[Order, ...]]:
    """The plan of a query over a table `rows` of columns TYPES, and the order of its results."""
    result = lowered_query(parse_window_query(text), {"rows": ROWS})
    order = tuple(Item(f"order{n}", o.expr, _type(o.expr, result.node)) for n, o in enumerate(result.order))
    return Project(result.node, (*output_items(result.value), *order)), result.order


def _type(expr: Expr, node: Node) -> pa.DataType:
    return node.schema[expr.name].type if isinstance(expr, exp.Column) else pa.int32()


def window_of(plan: Node) -> PredicateWindow:
    """The only operator of a plan that finds windows."""
    (found,) = (n for n in plan.walk() if isinstance(n, PredicateWindow))
    return found


def table_of(rows: list[dict[str, Any]], types: Mapping[str, pa.DataType] = TYPES) -> pa.Table:
    return pa.table({n: pa.array([r[n] for r in rows], t) for n, t in types.items()})


def sorted_input(window: PredicateWindow, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The rows that an operator reads, as Spark would sort them."""
    keys = [f"{quote(k)} ASC NULLS FIRST" for k in window.spec.keys]
    order = ", ".join([*keys, *map(order_text, window.order)])
    return queried(f"SELECT * FROM ({render(window.input, str)}) AS i ORDER BY {order}", tables)


def queried(text: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(duck(text)).to_arrow_table()


def found_windows(window: PredicateWindow, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The operator's results."""
    found = pa.concat_tables(window_tables(sorted_input(window, tables), window.spec))
    return found.select(window.schema.names).cast(window.schema.arrow)


def run(text: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The query's results over the rows, in their order."""
    plan, order = plan_of(text)
    columns = len(plan.schema.names) - len(order)
    tables = {"rows": table_of(rows)}
    rest, operators = split_windows(prune(plan), str, "clock")
    for operator in operators:
        assert isinstance(operator, WindowOperator)
        tables[operator.name] = found_windows(operator.node, tables)
    sort = ", ".join(order_text(Order(column(f"order{n}"), o.descending, o.nulls_first)) for n, o in enumerate(order))
    text = f"SELECT * FROM ({render(rest, str)}) AS r" + (f" ORDER BY {sort}" if order else "")
    return queried(text, tables).select(plan.schema.names[:columns]).to_pylist()
