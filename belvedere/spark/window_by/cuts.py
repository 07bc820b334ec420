"""Where a long sequence of rows is cut into blocks, and whether one partition is so long that it should be.

In: the rows' DataFrame and their order. Out: `Cuts`: what divides the blocks, and around each cut as many rows as its neighbours must
know. The rows are read some times for that: a sample (is a partition longer than its share?), the blocks' sizes, the rows around the cuts.
So only rows that are cheap to read again are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

from belvedere.kernels.margins import Margin
from belvedere.spark.window_by.relation import arrow_schema, fresh

LEAST_ROWS = 2_000_000
"""Shorter partitions are done in one task: reading the rows again for the cuts takes as long as is won."""
LEAST_CORES = 3
"""With fewer cores only partitions longer than a block are cut, for their memory: two took as long for blocks as one for one task."""
SHARE = 1.5
"""A partition is cut when it has so many times the rows that each core would have."""
BLOCK_ROWS = 8_000_000
"""A block has no more rows, so that a task's memory does not grow with the partition."""
RATE = 1 / 1_024
SAMPLED = 64
"""So many sampled rows per block divide the blocks well enough."""
NEAR = 4
"""A margin has so many sampled rows behind its cut at first, and grows by `GROWTH` while it is not enough."""
GROWTH = 8
WIDEST = 4
"""Margins grow to this part of a block: with more of the rows done twice, one task is as fast."""
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
SORT = re.compile(r"`(_[a-z]+\d+)` (ASC|DESC) NULLS (FIRST|LAST)")


@dataclass(frozen=True)
class Lead:
    """ORDER BY's first key: a column that can be compared with constants."""

    column: Any
    descending: bool
    nulls_first: bool

    def reached(self, mark: Any) -> Any:
        """Whether a row stands at the mark or behind it."""
        value = F.lit(mark)
        return F.coalesce(self.column <= value if self.descending else self.column >= value, F.lit(not self.nulls_first))

    def between(self, low: Any, high: Any) -> Any:
        """Whether a row stands at `low` or behind it and before `high`; None = the edge."""
        if low is None or high is None:
            return (F.lit(True) if low is None else self.reached(low)) & (F.lit(True) if high is None else ~self.reached(high))
        first, last = F.lit(low), F.lit(high)  # a condition that sources can skip rows by: NULL is at one of the edges
        inside = (
            (self.column <= first) & (self.column > last) if self.descending else (self.column >= first) & (self.column < last)
        )
        return inside


@dataclass(frozen=True)
class Giant:
    """A partition that is cut: the values of its keys, how many rows it has, about, and sampled values of the lead in order."""

    key: tuple[Any, ...]
    rows: int
    marks: tuple[Any, ...]


@dataclass(frozen=True)
class Cuts:
    """`marks` divide the blocks; `begins` are the positions of their first rows, and after them the number of all rows; 0 where the
    windows do not ask for positions.

    `margins` are the rows around each cut, `froms` the row in it where the search for the block behind it begins.
    """

    marks: tuple[Any, ...]
    begins: tuple[int, ...]
    margins: tuple[Margin, ...]
    froms: tuple[int, ...]


def lead_of(sort: Sequence[str], schema: pa.Schema) -> Lead | None:
    """The first key, where it is a column of numbers, text, dates or instants."""
    found = SORT.fullmatch(sort[0]) if sort else None
    if found is None:
        return None
    type_, column = schema.field(found[1]).type, F.col(found[1])
    if pa.types.is_timestamp(type_) and type_.tz is not None:
        column = F.unix_micros(column)
    elif pa.types.is_date(type_):
        column = F.unix_date(column)
    elif not (
        pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_) or pa.types.is_string(type_)
    ):
        return None
    return Lead(column, found[2] == "DESC", found[3] == "FIRST")


def find_giant(frame: DataFrame, keys: Sequence[str], lead: Lead, cores: int) -> Giant | None:
    """The partition that has far more rows than the share of a core, told from a sample; None where there is none."""
    if cores < 2 or not all(_is_plain(arrow_schema(frame).field(k).type) for k in keys):
        return None
    giant = sampled(frame, keys, lead, RATE)
    least = LEAST_ROWS if cores >= LEAST_CORES else BLOCK_ROWS
    if giant is None or giant[0].rows < max(least, SHARE * giant[1] / cores):
        return None
    return giant[0]


def sampled(frame: DataFrame, keys: Sequence[str], lead: Lead, rate: float) -> tuple[Giant, int] | None:
    """The longest partition and the number of all rows, about."""
    names = [f"k{n}" for n in range(len(keys))]
    rows = frame if rate >= 1 else frame.sample(rate, 17)
    table = rows.select(*(F.col(k).alias(n) for k, n in zip(keys, names, strict=True)), lead.column.alias("mark")).toArrow()
    if not table.num_rows:
        return None
    key: tuple[Any, ...] = ()
    own = table
    if names:
        counts = table.group_by(names).aggregate([([], "count_all")]).sort_by([("count_all", "descending")]).slice(0, 1)
        key = tuple(counts[n][0].as_py() for n in names)
        same = (
            pc.is_null(table[n]) if v is None else pc.fill_null(pc.equal(table[n], v), False)
            for n, v in zip(names, key, strict=True)
        )
        own = table.filter(reduce(pc.and_, same))
    marks = sorted({m for m in own["mark"].to_pylist() if m is not None and m == m}, reverse=lead.descending)
    return Giant(key, round(own.num_rows / rate), tuple(marks)), round(table.num_rows / rate)


def is_in(keys: Sequence[str], giant: Giant) -> Any:
    """Whether a row is in the giant's partition."""
    return reduce(
        lambda a, b: a & b, (F.col(k).eqNullSafe(F.lit(v)) for k, v in zip(keys, giant.key, strict=True)), F.lit(True)
    )


def around(keys: Sequence[str], giant: Giant) -> tuple[Any, Any]:
    """Whether a row's partition comes before the giant's in the order of the keys, and whether behind; NULL comes first."""
    before, behind, same = F.lit(False), F.lit(False), F.lit(True)
    for key, value in zip(keys, giant.key, strict=True):
        column = F.col(key)
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
    """Whether the rows are the same each time they are read, and reading them costs no join, sorting or Python."""
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
    """Whether there may be rows enough, of a byte or more, as Spark estimates."""
    return isinstance(frame, ClassicFrame) and int(_plan(frame).stats().sizeInBytes()) >= LEAST_ROWS


def _plan(frame: ClassicFrame) -> Any:
    return frame._jdf.queryExecution().optimizedPlan()


def cut(
    frame: DataFrame,
    lead: Lead,
    sort: Sequence[Any],
    giant: Giant,
    blocks: int,
    enough: Callable[[Margin], int | None],
    *,
    counted: bool,
    free: bool,
) -> Cuts | None:
    """The cuts of one sequence into about `blocks` blocks; None where margins would be too wide, unless `free` to grow.

    `enough`: in which row of a margin the search for the block behind it begins; None where the margin must be longer. `counted`: the
    rows' positions are asked for.
    """
    places = sorted({n * len(giant.marks) // blocks for n in range(1, blocks)} - {0})
    if not places:
        return None
    marks = tuple(giant.marks[n] for n in places)
    begins = _begins(frame, lead, marks) if counted else (0,) * (len(marks) + 2)
    widest = len(giant.marks) if free else max(2 * NEAR, len(giant.marks) // len(marks) // WIDEST)
    wanted = dict.fromkeys(range(len(places)), (2, NEAR))
    margins: dict[int, Margin] = {}
    froms: dict[int, int] = {}
    while wanted:
        zones = {n: _zone(giant.marks, places[n], *width) for n, width in wanted.items()}
        for n, margin in _margins(frame, lead, sort, marks, zones, begins).items():
            begin = enough(margin)
            if begin is None:
                if margin.first and margin.last:
                    return None
                wanted[n] = (wanted[n][0] * (1 if margin.first else GROWTH), wanted[n][1] * (1 if margin.last else GROWTH))
                continue
            del wanted[n]
            margins[n], froms[n] = margin, begin
        if any(max(w) > widest * (GROWTH if free else 1) for w in wanted.values()):
            return None
    order = range(len(places))
    return Cuts(marks, begins, tuple(margins[n] for n in order), tuple(froms[n] for n in order))


def _begins(frame: DataFrame, lead: Lead, marks: Sequence[Any]) -> tuple[int, ...]:
    """The positions of the blocks' first rows, and the number of all rows."""
    block = fresh("block")
    counted = frame.select(block_of(lead, marks).alias(block)).groupBy(block).agg(F.count(F.lit(1)).alias("n")).collect()
    sizes = {r[0]: r[1] for r in counted}
    return tuple(accumulate((sizes.get(n, 0) for n in range(len(marks) + 1)), initial=0))


def block_of(lead: Lead, marks: Sequence[Any]) -> Any:
    """The number of a row's block."""
    return reduce(lambda a, b: a + b, (lead.reached(m).cast("int") for m in marks), F.lit(0))


def in_order_of_blocks(frame: DataFrame, lead: Lead, sort: Sequence[Any], cuts: Cuts, block: str) -> DataFrame:
    """The sorted rows, each block in one partition of the DataFrame and with its number in a column."""
    placed = frame.withColumn(block, block_of(lead, cuts.marks)).repartitionById(len(cuts.marks) + 1, block)
    return placed.sortWithinPartitions(*sort)


def _zone(marks: Sequence[Any], place: int, back: int, ahead: int) -> tuple[Any, Any]:
    """The marks between which a margin lies; None = to the edge."""
    return (marks[place - back] if place >= back else None), (marks[place + ahead] if place + ahead < len(marks) else None)


def _margins(
    frame: DataFrame,
    lead: Lead,
    sort: Sequence[Any],
    marks: Sequence[Any],
    zones: dict[int, tuple[Any, Any]],
    begins: Sequence[int],
) -> dict[int, Margin]:
    """The rows of the zones, read in one job."""
    inside = {n: lead.between(low, high) for n, (low, high) in zones.items()}
    flags = [F.coalesce(inside[n], F.lit(False)).alias(f"in{n}") for n in zones] + [
        lead.reached(marks[n]).alias(f"at{n}") for n in zones
    ]
    some = frame.where(reduce(lambda a, b: a | b, inside.values())).select("*", *flags)
    table = some.repartition(1).sortWithinPartitions(*sort).toArrow()
    found = {}
    for n, (low, high) in zones.items():
        own = table.filter(table[f"in{n}"]).combine_chunks()
        before = own.num_rows - (pc.sum(own[f"at{n}"].cast(pa.int64())).as_py() or 0)
        rows = own.select(frame.columns)
        found[n] = Margin(rows, before, begins[n + 1] - before, low is None, high is None)
    return found
