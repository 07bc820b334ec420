"""Contents of firings as rows, and the query that aggregates them.

In: an `SplAggregate`, sorted rows, the firings found among them. Out: a table with a row for each row of each firing's
contents, and the relational plan that computes the node's rows from it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from sqlglot import exp

from belvedere.kernels.search import Ints
from belvedere.kernels.spl.window_rows import Firings
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Aggregate, Expr, Item, Node, Project, Scan
from belvedere.plan.operators.project import item_of
from belvedere.plan.operators.spl_aggregate import PANE_TIMINGS, FiringReading, SplAggregate
from belvedere.plan.operators.spl_windows import Interval
from belvedere.plan.rewrites.ties_by_arrival import in_arrival_order
from belvedere.rules.spl.group_counts import needed, with_counts
from belvedere.rules.spl.sorting import sorted_contents
from belvedere.schema import TIMESTAMP, Column, Schema

CONTENTS = "contents"
"""Scan from which the query reads the contents of firings."""
FIRST_ARRIVAL = "$first"
"""Column that orders the rows of one firing: the arrival of the first row of their group."""
FARTHEST = 253_402_300_799_999_999
"""The last microsecond of the year 9999, used as the time of a watermark beyond it."""
PIECE = 1 << 21
"""Maximum number of rows of contents created at once."""


def name_of(reading: FiringReading) -> str:
    """Return the column of the contents that holds a property of a firing."""
    return f"${reading}"


def readings_of(node: SplAggregate) -> tuple[FiringReading, ...]:
    """Return the properties of firings that the query reads."""
    panes = isinstance(node.window.kind, Interval)
    return tuple(r for r in FiringReading if panes or not r.of_panes)


def contents_schema(node: SplAggregate) -> Schema:
    """Return the schema of the contents: the columns of the input and the properties of the firing."""
    added = tuple(Column(name_of(r), r.type, nullable=False, hidden=True) for r in readings_of(node))
    return Schema((*node.input.schema.columns, *added), (name_of(FiringReading.FIRING), node.order))


def contents_plan(node: SplAggregate) -> Node:
    """Return a plan that computes the node's rows from the contents, plus the firing's number and FIRST_ARRIVAL."""
    source = Scan(CONTENTS, contents_schema(node))
    if node.sort:
        return sorted_contents(source, node, name_of(FiringReading.FIRING), FIRST_ARRIVAL)
    readings = tuple(item_of(c) for c in source.schema.columns[len(node.input.schema.columns) :])
    arrived = Item(FIRST_ARRIVAL, exp.Min(this=column(node.order)), pa.int64(), hidden=True)
    called = tuple(
        Item(i.name, _first_of_equals(i.expr, node.order), i.type, i.nullable, i.hidden) for i in node.aggregates
    )
    groups = Aggregate(source, (*readings, *node.partition, *node.groups), (*called, arrived, *needed(node)))
    firing = (item_of(groups.schema[name_of(FiringReading.FIRING)]), item_of(groups.schema[FIRST_ARRIVAL]))
    counted = with_counts(in_arrival_order(groups), node, firing[0].name, FIRST_ARRIVAL)
    return Project(counted, (*_shown(node, groups.schema), *(item_of(c.column) for c in node.counts), *firing))


def _shown(node: SplAggregate, groups: Schema) -> tuple[Item, ...]:
    items = tuple(item_of(groups[i.name]) for i in (*node.partition, *node.groups, *node.aggregates))
    return items + tuple(
        Item(r.name, column(name_of(r.reading)), r.reading.type, False, r.hidden) for r in node.readings
    )


def _first_of_equals(expr: Expr, order: str) -> Expr:
    """Return the expression in which the first arrived row wins among equal greatest values."""
    made = expr.copy()
    for call in list(made.find_all(exp.ArgMax)):
        key = call.expression
        parts = [exp.Literal.string("_0"), key.copy(), exp.Literal.string("_1"), exp.Neg(this=column(order))]
        pair = exp.Anonymous(this="named_struct", expressions=parts)
        known = exp.Not(this=exp.Is(this=key.copy(), expression=exp.Null()))
        call.set("expression", exp.Case(ifs=[exp.If(this=known, true=pair)]))
    return made


def contents(
    node: SplAggregate, rows: pa.Table, firings: Firings, numbers: Ints, members: Ints | None
) -> Iterator[pa.Table]:
    """Yield the contents of these firings with these numbers, in pieces that do not split a firing."""
    lengths = firings.last - firings.first + 1
    piece = np.cumsum(lengths) // PIECE
    cuts = np.flatnonzero(np.diff(piece)) + 1
    for chosen in np.split(np.arange(len(firings)), cuts):
        yield _piece(node, rows, firings.take(chosen), numbers[chosen], members)


def _piece(node: SplAggregate, rows: pa.Table, firings: Firings, numbers: Ints, members: Ints | None) -> pa.Table:
    lengths = firings.last - firings.first + 1
    begun = np.cumsum(lengths) - lengths
    places = np.arange(int(lengths.sum())) - np.repeat(begun - firings.first, lengths)
    chosen = places if members is None else members[places]
    schema = contents_schema(node)
    found = rows.select(node.input.schema.names).take(pa.array(chosen))
    firing = pa.array(np.repeat(np.arange(len(firings)), lengths))
    said = readings(node, firings, numbers)
    columns = [*found.columns, *(said[name].take(firing) for name in schema.names[len(found.schema) :])]
    return pa.table(columns, schema=schema.arrow)


def readings(node: SplAggregate, firings: Firings, numbers: Ints) -> dict[str, pa.Array]:
    """Return the properties of the firings, by the names of the contents' columns."""
    found = {
        FiringReading.FIRING_TIME: pa.array(np.minimum(firings.at, FARTHEST), pa.int64()).cast(TIMESTAMP),
        FiringReading.FIRING: pa.array(numbers, pa.int64()),
    }
    kind = node.window.kind
    if isinstance(kind, Interval):
        assert firings.pane is not None
        assert firings.index is not None
        found[FiringReading.INTERVAL_START] = pa.array(firings.pane, pa.int64()).cast(TIMESTAMP)
        found[FiringReading.INTERVAL_END] = pa.array(firings.pane + kind.duration, pa.int64()).cast(TIMESTAMP)
        found[FiringReading.PANE_TIMING] = pa.array(PANE_TIMINGS).take(pa.array(np.minimum(firings.index, 1)))
        found[FiringReading.PANE_INDEX] = pa.array(firings.index, pa.int32())
    return {name_of(r): values for r, values in found.items()}


def last_firings(firings: Firings) -> Ints:
    """Return the last firing of each partition (and pane), in order."""
    keys = (firings.partition,) if firings.pane is None else (firings.pane, firings.partition)
    order = np.lexsort((np.arange(len(firings)), *keys))
    final = np.ones(len(firings), np.bool_)
    differs = [k[order][1:] != k[order][:-1] for k in keys]
    final[:-1] = np.logical_or.reduce(differs) if len(firings) else final[:-1]
    return np.sort(order[final])


def ordered(table: pa.Table) -> pa.Table:
    """Sort rows of the plan by firing, then by the first arrival of their group, and drop these two columns."""
    firing = name_of(FiringReading.FIRING)
    order = [(firing, "ascending"), (FIRST_ARRIVAL, "ascending")]
    return table.sort_by(order).drop_columns([firing, FIRST_ARRIVAL])
