"""Counts of a window's groups: the number of groups, the number of rows, and the number of rows of each group.

In: the groups of firings. Out: the groups with these counts.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from sqlglot import exp, parse_one

from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Expr, Item, Node, Project, Window
from belvedere.plan.operators.project import item_of
from belvedere.plan.operators.spl_aggregate import GroupCount, SplAggregate
from belvedere.spark_sql.dialect import SparkSql

ROWS = Item("$rows_of_group", exp.Count(this=exp.Star(), big_int=True), pa.int64(), nullable=False, hidden=True)
"""Number of rows of a group."""
PAIRS = pa.list_(pa.struct([("at", pa.int64()), ("rows", pa.int64())]))


def needed(node: SplAggregate) -> tuple[Item, ...]:
    """Return the counts that the groups need."""
    return (ROWS,) if node.counts else ()


def with_counts(groups: Node, node: SplAggregate, firing: str, arrived: str) -> Node:
    """Return the groups with the node's counts: `firing` identifies firings, `arrived` orders the groups of one."""
    if not node.counts:
        return groups
    calls = [(c, _call(c.count, arrived)) for c in node.counts]
    over = tuple(
        Item(c.name, exp.Window(this=call, partition_by=[column(firing)], over="OVER"), type_, nullable=False)
        for c, (call, type_) in calls
    )
    return Project(Window(groups, over), (*map(item_of, groups.schema), *_items(node)))


def _call(count: GroupCount, arrived: str) -> tuple[Expr, pa.DataType]:
    match count:
        case GroupCount.GROUPS:
            return exp.Count(this=exp.Star(), big_int=True), pa.int64()
        case GroupCount.ROWS:
            return exp.Sum(this=column(ROWS.name)), pa.int64()
    parts = [exp.Literal.string("at"), column(arrived), exp.Literal.string("rows"), column(ROWS.name)]
    pair = exp.Anonymous(this="named_struct", expressions=parts)
    return exp.ArrayAgg(this=pair, nulls_excluded=True), PAIRS


def _items(node: SplAggregate) -> Iterator[Item]:
    """Yield the counts as they are shown. Rows per group are in the order in which the groups arrived."""
    for c in node.counts:
        expr: Expr = column(c.name)
        if c.count is GroupCount.BY_GROUP:
            sort = parse_one("transform(sort_array(`x`), g -> g.rows)", dialect=SparkSql)
            expr = sort.transform(lambda n, own=expr: own.copy() if isinstance(n, exp.Column) and n.name == "x" else n)
        yield Item(c.name, expr, c.count.type, nullable=False)
