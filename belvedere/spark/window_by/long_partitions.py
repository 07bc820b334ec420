"""Detection of one partition that is so long that many tasks should process it.

In: the rows' DataFrame, the keys of its partitions and their order. Out: the `Giant` partition, estimated from a
sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame
from sqlglot import exp

from belvedere.functions.spark_types import quote
from belvedere.plan.operators.nodes import Order
from belvedere.spark.window_by.frame_types import arrow_schema

MIN_ROWS = 2_000_000
"""Minimum number of rows of a partition that is cut.

For shorter ones, re-reading the rows for the cuts takes as long as is saved.
"""
MIN_CORES = 3
"""Minimum number of cores.

With fewer, only partitions longer than a block are cut, to limit memory: on two cores, blocks took as long as one task.
"""
SHARE = 1.5
"""Multiple of a core's share of rows above which a partition is cut."""
BLOCK_ROWS = 8_000_000
"""Maximum number of rows of a block. A task's memory therefore does not grow with the partition."""
RATE = 1 / 1_024
CHEAP = {
    "Project",
    "Filter",
    "LogicalRDD",
    "LocalRelation",
    "LogicalRelation",
    "DataSourceV2ScanRelation",
    "InMemoryRelation",
    "Range",
}


@dataclass(frozen=True)
class Lead:
    """ORDER BY's first key: a column that can be compared with constants."""

    column: Any
    descending: bool
    nulls_first: bool

    def reached(self, mark: Any) -> Any:
        """Return whether a row is at the mark or after it."""
        value = F.lit(mark)
        return F.coalesce(
            self.column <= value if self.descending else self.column >= value, F.lit(not self.nulls_first)
        )

    def between(self, low: Any, high: Any) -> Any:
        """Return whether a row is at `low` or after it and before `high`; None = the edge."""
        if low is None or high is None:
            return (F.lit(True) if low is None else self.reached(low)) & (
                F.lit(True) if high is None else ~self.reached(high)
            )
        first, last = F.lit(low), F.lit(high)  # a condition that sources can skip rows by: NULL is at one of the edges
        inside = (
            (self.column <= first) & (self.column > last)
            if self.descending
            else (self.column >= first) & (self.column < last)
        )
        return inside


@dataclass(frozen=True)
class Giant:
    """A partition that is cut: the values of its keys, its approximate number of rows, and sorted sampled values of the
    lead."""

    key: tuple[Any, ...]
    rows: int
    marks: tuple[Any, ...]


def lead_of(order: Sequence[Order], schema: pa.Schema) -> Lead | None:
    """Return the first key, if it is a column of numbers, text, dates or timestamps."""
    first = order[0].expr
    if not isinstance(first, exp.Column):
        return None
    type_, column = schema.field(first.name).type, F.col(quote(first.name))
    if pa.types.is_timestamp(type_) and type_.tz is not None:
        column = F.unix_micros(column)
    elif pa.types.is_date(type_):
        column = F.unix_date(column)
    elif not (
        pa.types.is_integer(type_)
        or pa.types.is_floating(type_)
        or pa.types.is_decimal(type_)
        or pa.types.is_string(type_)
    ):
        return None
    return Lead(column, order[0].descending, order[0].nulls_come_first)


def find_giant(frame: DataFrame, keys: Sequence[str], lead: Lead, cores: int) -> Giant | None:
    """Return the partition with far more rows than the share of a core, estimated from a sample; None if there is
    none.
    """
    if cores < 2 or not all(_is_plain(arrow_schema(frame).field(k).type) for k in keys):
        return None
    names = [f"k{n}" for n in range(len(keys))]
    rows = frame if RATE >= 1 else frame.sample(RATE, 17)
    table = rows.select(
        *(F.col(quote(k)).alias(n) for k, n in zip(keys, names, strict=True)), lead.column.alias("mark")
    ).toArrow()
    key: tuple[Any, ...] = ()
    own = table
    if names and table.num_rows:
        counts = table.group_by(names).aggregate([([], "count_all")]).sort_by([("count_all", "descending")]).slice(0, 1)
        key = tuple(counts[n][0].as_py() for n in names)
        same = (
            pc.is_null(table[n]) if v is None else pc.fill_null(pc.equal(table[n], v), False)
            for n, v in zip(names, key, strict=True)
        )
        own = table.filter(reduce(pc.and_, same))
    least = MIN_ROWS if cores >= MIN_CORES else BLOCK_ROWS
    if own.num_rows < max(least * RATE, SHARE * table.num_rows / cores, 1):
        return None
    marks = sorted({m for m in own["mark"].to_pylist() if m is not None and m == m}, reverse=lead.descending)
    return Giant(key, round(own.num_rows / RATE), tuple(marks))


def is_in(keys: Sequence[str], giant: Giant) -> Any:
    """Return whether a row is in the giant's partition."""
    return reduce(
        lambda a, b: a & b,
        (F.col(quote(k)).eqNullSafe(F.lit(v)) for k, v in zip(keys, giant.key, strict=True)),
        F.lit(True),
    )


def sides_of(keys: Sequence[str], giant: Giant) -> tuple[Any, Any]:
    """Return whether a row's partition comes before the giant's in the order of the keys, and whether after it; NULL
    comes first."""
    before, behind, same = F.lit(False), F.lit(False), F.lit(True)
    for key, value in zip(keys, giant.key, strict=True):
        column = F.col(quote(key))
        if value is None:
            behind |= same & column.isNotNull()
        else:
            before |= same & F.coalesce(column < F.lit(value), F.lit(True))
            behind |= same & F.coalesce(column > F.lit(value), F.lit(False))
        same &= column.eqNullSafe(F.lit(value))
    return before, behind


def _is_plain(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(type_) or pa.types.is_string(type_) or pa.types.is_boolean(type_) or pa.types.is_date(type_)
    )


def can_read_again(frame: DataFrame) -> bool:
    """Return whether the rows are the same each time they are read, and reading them needs no join, sort or Python."""
    if not isinstance(frame, ClassicFrame):
        return False
    plan = _plan(frame)
    rest = [plan] if plan.deterministic() else []
    while rest:
        node = rest.pop()
        if node.nodeName() not in CHEAP:
            return False
        children = node.children()
        rest += [children.apply(n) for n in range(children.size())]
    return bool(plan.deterministic())


def may_be_long(frame: DataFrame) -> bool:
    """Return whether there may be enough rows, of at least a byte each, by Spark's estimate."""
    return isinstance(frame, ClassicFrame) and int(_plan(frame).stats().sizeInBytes()) >= MIN_ROWS


def _plan(frame: ClassicFrame) -> Any:
    return frame._jdf.queryExecution().optimizedPlan()
