"""Results of joined SPL windows from rows of both sides, for epochs and for batch.

In: an `SplJoin`, and the rows of each side with the time for which they stay. Out: the relational plan that finds the
pairs by the condition, the tables that it reads, and the node's rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from sqlglot import exp

from belvedere.engine.rows.epoch_rows import conform
from belvedere.kernels.search import Bools, Ints
from belvedere.kernels.spl.join import JoinResults, Lives, SideRows, lives, results
from belvedere.plan.expressions import column, columns_of, conjunction, conjuncts
from belvedere.plan.operators.nodes import Expr, Join, JoinKind, Node, Project, Scan
from belvedere.plan.operators.project import item_of
from belvedere.plan.operators.spl_join import FIRED, FIRING, SplJoin
from belvedere.rules.spl.kernel_rows import micros, steps_of, whole
from belvedere.schema import TIMESTAMP, Column, Schema

SIDES = ("left", "right")
"""Scans from which the plan reads the rows of the sides."""


def _marks(side: int) -> tuple[Column, Column, Column]:
    """Return the columns added to those of a side: the number of the row, its arrival position, and the last position
    that matches it."""
    row, place, last = (
        Column(f"${SIDES[side]}_{what}", pa.int64(), nullable=False) for what in ("row", "place", "last")
    )
    return row, place, last


def _read(node: SplJoin, side: int) -> Schema:
    """Return the columns of a side that the plan reads: the columns of the condition, and the marks."""
    requested = columns_of(node.condition) if node.condition is not None else frozenset()
    marks = _marks(side)
    return Schema((*(c for c in node.inputs[side].schema if c.name in requested), *marks), (marks[0].name,))


def pairs_plan(node: SplJoin) -> Node:
    """Return the plan for the row numbers of each pair: one row arrives while the other is in its window."""
    left, right = (Scan(SIDES[n], _read(node, n)) for n in (0, 1))
    found = [_finds(0, 1), _finds(1, 0)]
    meets: Expr = exp.Paren(this=exp.or_(*found, copy=False))
    joined = Join(left, right, JoinKind.INNER, conjunction([*conjuncts(node.condition), meets]))
    return Project(joined, tuple(item_of(_marks(n)[0]) for n in (0, 1)))


def _finds(arrives: int, waits: int) -> Expr:
    """Return whether the row of one side arrives while the row of the other is in its window."""
    (_, place, _), (_, since, last) = _marks(arrives), _marks(waits)
    after = exp.LT(this=column(since.name), expression=column(place.name))
    before = exp.LTE(this=column(place.name), expression=column(last.name))
    return exp.And(this=after, expression=before)


@dataclass(frozen=True)
class Side:
    """One side: its rows by partition and arrival, and how long each stays."""

    table: pa.Table
    rows: SideRows
    stays: Lives


def side_of(node: SplJoin, side: int, table: pa.Table, partition: Ints, place: Ints, clocks: Ints, now: int) -> Side:
    """Return a side from its rows, in any order."""
    window = node.windows[side]
    number = whole(table[window.order])
    order = np.lexsort((number, partition))
    table = table.take(pa.array(order)).combine_chunks()
    at, steps = micros(table[window.clock]), steps_of(window.eviction, table)
    rows = SideRows(partition[order], number[order], at, place[order], steps)
    return Side(table, rows, lives(window.eviction, rows, clocks, now))


def given(node: SplJoin, side: int, found: Side) -> pa.Table:
    """Return the rows of a side as the plan reads them."""
    schema = _read(node, side).arrow
    marks = (np.arange(len(found.rows)), found.rows.place, found.stays.last)
    columns = [*found.table.select(schema.names[: -len(marks)]).columns, *(pa.array(m, pa.int64()) for m in marks)]
    useful = (found.rows.place > 0) | (found.stays.last > 0)
    return pa.table(columns, schema=schema).filter(pa.array(useful))


def pair_rows(table: pa.Table) -> tuple[Ints, Ints]:
    """Return the row numbers of each pair from the result of the plan."""
    left, right = (whole(c) for c in table.columns)
    return left, right


def results_of(
    node: SplJoin, sides: tuple[Side, Side], pairs: tuple[Ints, Ints], matched: tuple[Bools, Bools], clocks: Ints
) -> JoinResults:
    """Return the results in their order. `matched` holds for each row whether it ever had a match."""
    nothing = np.zeros(0, np.int64)
    alone = [
        np.flatnonzero(s.stays.gone & ~m) if outer else nothing
        for s, m, outer in zip(sides, matched, node.outer, strict=True)
    ]
    left, right = sides
    return results(pairs, (left.rows, right.rows), (left.stays, right.stays), (alone[0], alone[1]), clocks)


def result_rows(node: SplJoin, sides: tuple[Side, Side], made: JoinResults, firing: Ints) -> pa.Table:
    """Return the node's rows without their numbers. `firing` holds the numbers of the firings that made them."""
    columns: dict[str, pa.Array | pa.ChunkedArray] = {}
    for side, (found, rows) in enumerate(zip(sides, made.rows, strict=True)):
        taken = found.table.take(pa.array(rows, mask=rows < 0))
        columns |= {n: taken[n] for n in node.inputs[side].schema.names}
    columns[FIRED] = pa.array(made.at, pa.int64()).cast(TIMESTAMP)
    columns[FIRING] = pa.array(firing, pa.int64())
    fields = [f for f in node.schema.arrow if f.name in columns]
    return conform(pa.table({f.name: columns[f.name] for f in fields}), pa.schema(fields))
