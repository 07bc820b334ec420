"""Windows whose plan in Spark SQL is a frame or a GROUP BY that does not depend on their length: no row leaves the JVM for them.

In: sorted rows and a `KernelSpec`. Out: the kernels' output by Spark's own operators, or None where the kernels do it. There are two
such plans: windows from the partition's first tuple to the label (the frame that grows), and TUMBLING windows that follow each other
without gap, each ended by a condition on its last tuple or by its length (a running number, then GROUP BY). Sliding frames are the
kernels': Spark's segment trees cost more than the way to Python and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from belvedere.spark.window_by.relation import fresh, spark_schema
from belvedere.spark.window_by.specs import (
    Aggregate,
    BoundarySpec,
    CompareSpec,
    Flag,
    Gather,
    Junction,
    KernelSpec,
    Length,
    LocalSpec,
    Mask,
    Output,
    PartSpec,
    Place,
)


class _Kernels(Exception):
    """Something that is left to the kernels."""


def native_windows(
    frame: DataFrame, spec: KernelSpec, sort: Sequence[Any], schema: pa.Schema, in_order: bool
) -> DataFrame | None:
    """The windows with the columns of `schema`; `in_order`: in the order of the rows, which lie partition by partition, sorted."""
    try:
        plan = _Native(frame, spec, sort)
        return plan.growing(schema) if spec.label is not None else plan.following(schema, in_order)
    except _Kernels:
        return None


class _Native:
    def __init__(self, frame: DataFrame, spec: KernelSpec, sort: Sequence[Any]):
        if not sort:
            raise _Kernels
        self.frame, self.spec = frame, spec
        self.window = Window.partitionBy(*map(F.col, spec.keys)).orderBy(*sort)
        self.types = to_arrow_schema(frame.schema, timezone="UTC")

    # -- the frame that grows --

    def growing(self, schema: pa.Schema) -> DataFrame:
        """START UNBOUNDED, END at the label: each row's aggregates over all rows up to it."""
        label, end = self.spec.label, self.spec.end
        if self.spec.tumbling or label is None or end is None or not self.spec.start.unbounded or distance(end, "label") != 0:
            raise _Kernels
        until = self.window.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        position = F.row_number().over(self.window).cast("bigint")
        columns = {self.spec.position: position}
        for output in self.spec.outputs:
            columns[output.output] = self._grown(output, position, until)
        kept = fresh("kept")
        columns[kept] = self._all(label.local)
        columns |= {k: F.col(k) for k in self.spec.keys}
        found = self.frame.select(*(c.alias(n) for n, c in columns.items()))
        return _typed(found.where(F.col(kept)) if label.local else found, schema)

    def _grown(self, output: Output, position: Any, until: Any) -> Any:
        match output:
            case Gather(side="label" | "end", role=role, column=column):
                return self._near(column, role)
            case Place(side="label" | "end") | Length():
                return position
            case Flag(side="label" | "end", role="item"):
                return F.lit(False)
            case Flag(side="label" | "end", role=role):
                return self._near(F.lit(True), role).isNull()
            case Aggregate():
                return self._aggregate(output).over(until)
        raise _Kernels

    # -- windows that follow each other --

    def following(self, schema: pa.Schema, in_order: bool) -> DataFrame:
        """TUMBLING with every tuple a START: a number for each window, then GROUP BY."""
        spec, end = self.spec, self.spec.end
        if not spec.tumbling or spec.start.unbounded or spec.start.local or spec.start.search or spec.start.scan or end is None:
            raise _Kernels
        at, last, number = fresh("at"), fresh("last"), fresh("number")
        length = distance(end, "start")
        ends, numbered = (None, None) if length is None else (None, F.expr(f"(`{at}` - 1) DIV {length + 1}"))
        if numbered is None:
            ends = self._end(end)
            before = self.window.rowsBetween(Window.unboundedPreceding, -1)
            numbered = F.coalesce(F.sum(F.col(last).cast("int")).over(before), F.lit(0))
        near = dict(self._neighbours())
        rows = self.frame.select(
            "*",
            F.row_number().over(self.window).cast("bigint").alias(at),
            *([ends.alias(last)] if ends is not None else []),
            *(c.alias(n) for n, c in near.items()),
        ).select("*", numbered.alias(number))
        closed = F.max_by(last, at) if length is None else F.count(F.lit(1)) == length + 1
        mark = fresh("closed")
        made = [self._followed(o, at, closed).alias(o.output) for o in spec.outputs]
        found = rows.groupBy(*spec.keys, number).agg(F.min(at).alias(spec.position), closed.alias(mark), *made)
        found = found.where(F.col(mark)) if spec.only else found
        if in_order:
            found = found.sortWithinPartitions(*(F.col(k).asc_nulls_first() for k in spec.keys), spec.position)
        return _typed(found, schema)

    def _followed(self, output: Output, at: str, closed: Any) -> Any:
        match output:
            case Gather(side="start", role=role, column=column):
                return F.min_by(self._named(column, role), F.col(at))
            case Gather(side="end", role=role, column=column):
                return F.when(closed, F.max_by(self._named(column, role), F.col(at)))
            case Place(side="start"):
                return F.min(at)
            case Place(side="end"):
                return F.when(closed, F.max(at))
            case Flag(side="start", role=role):
                return F.lit(False) if role == "item" else F.min_by(self._named("", role), F.col(at))
            case Flag(side="end", role=role):
                return ~closed if role == "item" else ~closed | F.max_by(self._named("", role), F.col(at))
            case Length():
                return F.count(F.lit(1)) + F.when(closed, 0).otherwise(1)
            case Aggregate(column=None, extra=True):
                self._aggregate(output)
                return F.count(F.lit(1)) + F.when(closed, 0).otherwise(1)
            case Aggregate():
                return self._aggregate(output)
        raise _Kernels

    def _neighbours(self) -> list[tuple[str, Any]]:
        """Columns for what the output has of neighbours: an aggregate reads columns of its row alone. No column: whether it is MISSING."""
        self.near: dict[tuple[str, str], str] = {}
        for output in self.spec.outputs:
            if isinstance(output, (Gather, Flag)) and output.role != "item":
                self.near.setdefault((output.column if isinstance(output, Gather) else "", output.role), fresh("near"))
        return [
            (n, self._near(column, role) if column else self._near(F.lit(True), role).isNull())
            for (column, role), n in self.near.items()
        ]

    def _named(self, column: str, role: str) -> Any:
        return F.col(column if role == "item" else self.near[column, role])

    # -- parts --

    def _near(self, column: Any, role: str, default: Any = None) -> Any:
        """A column at the tuple, or before or after it."""
        column = F.col(column) if isinstance(column, str) else column
        if role == "item":
            return column
        return (F.lag if role == "previous" else F.lead)(column, 1, default).over(self.window)

    def _aggregate(self, output: Aggregate) -> Any:
        """Over whole numbers; others are summed and compared in the kernels' own way."""
        if output.included is not None or output.strict or output.function not in ("COUNT", "AVG", "MIN", "MAX"):
            raise _Kernels
        if output.column is None:
            return F.count(F.lit(1))
        if output.function == "COUNT":
            return F.count(output.column)
        if not pa.types.is_integer(self.types.field(output.column).type):
            raise _Kernels
        return {"AVG": F.avg, "MIN": F.min, "MAX": F.max}[output.function](F.col(output.column))

    def _end(self, end: BoundarySpec) -> Any:
        """END as a condition on one tuple and its neighbours."""
        if end.search is None or len(end.search) != 1 or end.search[0].known or end.search[0].compares:
            raise _Kernels
        return self._all(end.search[0].local)

    def _all(self, masks: Sequence[Mask]) -> Any:
        return reduce(lambda a, b: a & b, (self._mask(m) for m in masks), F.lit(True))

    def _mask(self, mask: Mask) -> Any:
        match mask:
            case LocalSpec():
                return F.coalesce(self._near(mask.column, mask.role, mask.edge), F.lit(False))
            case Junction():
                parts = [self._mask(p) for p in mask.parts]
                return reduce((lambda a, b: a & b) if mask.every else (lambda a, b: a | b), parts)
            case CompareSpec():
                left, right = self._sum(mask.searched), self._sum(mask.known)
                operators = {"=": left == right, "<>": left != right, "<": left < right, "<=": left <= right}
                return F.coalesce({**operators, ">": left > right, ">=": left >= right}[mask.operator], F.lit(False))

    def _sum(self, parts: Sequence[PartSpec]) -> Any:
        """A sum of whole numbers; NULL where one is, and where it has no 64 bits."""
        total: Any = F.lit(0).cast("bigint")
        for part in parts:
            if part.role == "position" or (part.column is None and type(part.constant) is not int):
                raise _Kernels
            if part.column is not None and not pa.types.is_integer(self.types.field(part.column).type):
                raise _Kernels
            value = self._near(part.column, part.role) if part.column is not None else F.lit(part.constant)
            total = (F.try_add if part.sign > 0 else F.try_subtract)(total, value.cast("bigint"))
        return total


def distance(end: BoundarySpec, side: str) -> int | None:
    """How many tuples after `side` END is, where it says just that."""
    if end.search is None or len(end.search) != 1 or end.search[0].known or end.search[0].local:
        return None
    if len(end.search[0].compares) != 1 or end.search[0].compares[0].operator != "=":
        return None
    compare = end.search[0].compares[0]
    given = [p for p in compare.known if p.side]
    found = [*compare.searched, *given]
    if len(compare.searched) != 1 or [(p.side, p.role, p.sign) for p in found] != [
        ("end", "position", 1),
        (side, "position", 1),
    ]:
        return None
    constants = [p.constant * p.sign for p in compare.known if not p.side and type(p.constant) is int]
    return sum(constants) if len(constants) == len(compare.known) - 1 and sum(constants) >= 0 else None


def _typed(frame: DataFrame, schema: pa.Schema) -> DataFrame:
    """The columns of the schema, in its types."""
    return frame.select(*(F.col(f.name).cast(f.dataType).alias(f.name) for f in spark_schema(schema)))
