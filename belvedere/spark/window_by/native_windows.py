"""Windows whose plan in Spark SQL is a frame or a GROUP BY that does not depend on their length: no row leaves the JVM for them.

In: a `KernelSpec` and the columns of the rows. Out: the kernels' output by Spark's own operators, or None where the kernels do it. There
are two such plans: windows from the partition's first tuple to the label (the frame that grows), and TUMBLING windows that follow each
other without gap, each ended by a condition on its last tuple or by its length (a running number, then GROUP BY). Sliding frames are the
kernels': Spark's segment trees cost more than the way to Python and back.
Steps are SQL text, one for each DataFrame: a call for each part of an expression would take longer than Spark takes to plan it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from belvedere.kernels.specs import (
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
from belvedere.spark.window_by.relation import fresh
from belvedere.spark.window_by.sql_values import Untranslatable, name, sql_type

UNTIL = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
BEFORE = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"


class _Kernels(Exception):
    """Something that is left to the kernels."""


@dataclass(frozen=True)
class NativePlan:
    """Select lists one after the other, then a GROUP BY of `grouped` where there is one, then a condition."""

    selected: tuple[tuple[str, ...], ...]
    grouped: tuple[str, ...]
    aggregates: tuple[str, ...]
    kept: str | None
    following: tuple[str, ...] = ()
    """The columns that put groups into the order of their rows."""

    def windows(self, frame: DataFrame, in_order: bool) -> DataFrame:
        """The windows, with other columns beside those of the schema.

        `in_order`: in the order of the rows, whose partitions lie in order.
        """
        for texts in self.selected:
            frame = frame.selectExpr(*texts)
        if self.grouped:
            frame = frame.groupBy(*self.grouped).agg(*map(F.expr, self.aggregates))
        if self.kept is not None:
            frame = frame.where(self.kept)
        return frame.sortWithinPartitions(*self.following) if in_order and self.following else frame


def native_plan(spec: KernelSpec, sort: Sequence[str], rows: pa.Schema, schema: pa.Schema) -> NativePlan | None:
    """How Spark's operators give the columns of `schema` for `rows`, each partition in the order of the texts `sort`."""
    if not sort:
        return None
    try:
        native = _Native(spec, sort, rows, schema)
        return native.growing() if spec.label is not None else native.following()
    except _Kernels:
        return None


class _Native:
    def __init__(self, spec: KernelSpec, sort: Sequence[str], rows: pa.Schema, schema: pa.Schema):
        self.spec, self.rows, self.schema = spec, rows, schema
        partition = f"PARTITION BY {', '.join(map(name, spec.keys))} " if spec.keys else ""
        self.window = f"{partition}ORDER BY {', '.join(sort)}"
        self.near: dict[tuple[str, str], str] = {}
        self.at = fresh("at")
        self.counted = False  # whether something reads `at`

    def over(self, text: str, frame: str = "") -> str:
        return f"{text} OVER ({self.window}{' ' if frame else ''}{frame})"

    def position(self) -> str:
        return f"CAST({self.over('row_number()')} AS BIGINT)"

    def typed(self, column: str, text: str) -> str:
        """The text as a column of the schema, in its type."""
        with suppress(Untranslatable):  # a value of the rows, in its own type
            text = f"CAST({text} AS {sql_type(self.schema.field(column).type)})"
        return f"{text} AS {name(column)}"

    # -- the frame that grows --

    def growing(self) -> NativePlan:
        """START UNBOUNDED, END at the label: each row's aggregates over all rows up to it."""
        label, end = self.spec.label, self.spec.end
        if self.spec.tumbling or label is None or end is None or not self.spec.start.unbounded or distance(end, "label") != 0:
            raise _Kernels
        texts = [name(k) for k in self.spec.keys if k in self.schema.names]
        if self.spec.position in self.schema.names:
            texts.append(self.typed(self.spec.position, self.position()))
        texts += [self.typed(o.output, self._grown(o)) for o in self.spec.outputs]
        if not label.local:
            return NativePlan((tuple(texts),), (), (), None)
        kept = fresh("kept")
        return NativePlan(((*texts, f"{self._all(label.local)} AS {name(kept)}"),), (), (), name(kept))

    def _grown(self, output: Output) -> str:
        match output:
            case Gather(side="label" | "end", role=role, column=column):
                return self._near(name(column), role)
            case Place(side="label" | "end") | Length():
                return self.position()
            case Flag(side="label" | "end", role="item"):
                return "FALSE"
            case Flag(side="label" | "end", role=role):
                return f"({self._near('TRUE', role)} IS NULL)"
            case Aggregate():
                return self.over(self._aggregate(output), UNTIL)
        raise _Kernels

    # -- windows that follow each other --

    def following(self) -> NativePlan:
        """TUMBLING with every tuple a START: a number for each window, then GROUP BY. The numbers rise with the positions."""
        spec, end = self.spec, self.spec.end
        if not spec.tumbling or spec.start.unbounded or spec.start.local or spec.start.search or spec.start.scan or end is None:
            raise _Kernels
        last, number = fresh("last"), fresh("number")
        length = distance(end, "start")
        first, then = ["*"], []
        if length is not None:
            first.append(f"({self.position()} - 1) DIV {length + 1} AS {name(number)}")
            closed = f"(count(1) = {length + 1})"
        else:
            first.append(f"{self._end(end)} AS {name(last)}")
            ended = self.over(f"sum(CAST({name(last)} AS INT))", BEFORE)
            then = [("*", f"coalesce({ended}, 0L) AS {name(number)}")]
            closed = f"max_by({name(last)}, {name(self.at)})"
        made = [self.typed(o.output, self._followed(o, closed)) for o in spec.outputs]
        if spec.position in self.schema.names:
            made.append(self.typed(spec.position, f"min({self._at()})"))
        kept = None
        if spec.only:
            kept = fresh("closed")
            made.append(f"{self._closed(closed)} AS {name(kept)}")
        if self.counted:
            first.append(f"{self.position()} AS {name(self.at)}")
        for (column, role), near in self.near.items():
            text = self._near(name(column), role) if column else f"({self._near('TRUE', role)} IS NULL)"
            first.append(f"{text} AS {name(near)}")
        keys = (*spec.keys, number)
        return NativePlan((tuple(first), *then), keys, tuple(made), None if kept is None else name(kept), keys)

    def _at(self) -> str:
        """The column with the position."""
        self.counted = True
        return name(self.at)

    def _closed(self, closed: str) -> str:
        """Whether a window has an end, over its rows."""
        self.counted |= name(self.at) in closed
        return closed

    def _followed(self, output: Output, closed: str) -> str:
        match output:
            case Gather(side="start", role=role, column=column):
                return f"min_by({self._named(column, role)}, {self._at()})"
            case Gather(side="end", role=role, column=column):
                return f"CASE WHEN {self._closed(closed)} THEN max_by({self._named(column, role)}, {self._at()}) END"
            case Place(side="start"):
                return f"min({self._at()})"
            case Place(side="end"):
                return f"CASE WHEN {self._closed(closed)} THEN max({self._at()}) END"
            case Flag(side="start", role=role):
                return "FALSE" if role == "item" else f"min_by({self._named('', role)}, {self._at()})"
            case Flag(side="end", role="item"):
                return f"(NOT {self._closed(closed)})"
            case Flag(side="end", role=role):
                return f"(NOT {self._closed(closed)} OR max_by({self._named('', role)}, {self._at()}))"
            case Length():
                return self._members(closed)
            case Aggregate(column=None, extra=True):
                self._aggregate(output)
                return self._members(closed)
            case Aggregate():
                return self._aggregate(output)
        raise _Kernels

    def _members(self, closed: str) -> str:
        """The number of a window's tuples, with the MISSING of one without end."""
        return f"count(1) + IF({self._closed(closed)}, 0, 1)"

    def _named(self, column: str, role: str) -> str:
        """A column at the tuple or a neighbour, as an aggregate may read it: one of its row. No column: whether there is none."""
        return name(column if role == "item" else self.near.setdefault((column, role), fresh("near")))

    # -- parts --

    def _near(self, text: str, role: str, default: str = "NULL") -> str:
        """What the tuple has, or the one before or after it."""
        if role == "item":
            return text
        return self.over(f"{'lag' if role == 'previous' else 'lead'}({text}, 1, {default})")

    def _aggregate(self, output: Aggregate) -> str:
        """Over whole numbers; others are summed and compared in the kernels' own way."""
        if output.included is not None or output.strict or output.function not in ("COUNT", "AVG", "MIN", "MAX"):
            raise _Kernels
        if output.column is None:
            return "count(1)"
        if output.function != "COUNT" and not pa.types.is_integer(self.rows.field(output.column).type):
            raise _Kernels
        return f"{output.function.lower()}({name(output.column)})"

    def _end(self, end: BoundarySpec) -> str:
        """END as a condition on one tuple and its neighbours."""
        if end.search is None or len(end.search) != 1 or end.search[0].known or end.search[0].compares:
            raise _Kernels
        return self._all(end.search[0].local)

    def _all(self, masks: Sequence[Mask]) -> str:
        return f"({' AND '.join(self._mask(m) for m in masks)})" if masks else "TRUE"

    def _mask(self, mask: Mask) -> str:
        match mask:
            case LocalSpec():
                return f"coalesce({self._near(name(mask.column), mask.role, str(mask.edge).upper())}, FALSE)"
            case Junction():
                return f"({(' AND ' if mask.every else ' OR ').join(self._mask(p) for p in mask.parts)})"
            case CompareSpec():
                return f"coalesce({self._sum(mask.searched)} {mask.operator} {self._sum(mask.known)}, FALSE)"

    def _sum(self, parts: Sequence[PartSpec]) -> str:
        """A sum of whole numbers; NULL where one is, and where it has no 64 bits."""
        total = "0L"
        for part in parts:
            value = f"CAST({self._term(part)} AS BIGINT)"
            function = "try_add" if part.sign > 0 else "try_subtract"
            total = value if total == "0L" and part.sign > 0 else f"{function}({total}, {value})"
        return total

    def _term(self, part: PartSpec) -> str:
        if part.role == "position":
            raise _Kernels
        if part.column is not None:
            if not pa.types.is_integer(self.rows.field(part.column).type):
                raise _Kernels
            return self._near(name(part.column), part.role)
        if type(part.constant) is not int or not -(2**63) < part.constant < 2**63:
            raise _Kernels
        return f"{part.constant}L"


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
