"""Rows of SPL windows, sorted when they fire.

In: the contents of firings, or the rows of windows. Out: the relational plans that number these rows in the order of
the keys.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from sqlglot import exp

from belvedere.plan.expressions import column, row_number
from belvedere.plan.operators.nodes import Item, Node, Project, Scan, Window
from belvedere.plan.operators.project import item_of
from belvedere.plan.operators.spl_aggregate import SplAggregate
from belvedere.rules.spl.kernel_rows import Numbers, whole

RANKED = "ranked"
"""Scan from which the plan of `ranks_plan` reads rows."""


def ranks_plan(node: SplAggregate) -> Node:
    """Return a plan for the arrival numbers of rows and their positions in the order of the node's keys."""
    source = Scan(RANKED, node.input.schema)
    place = Item("place", row_number([], _order(node)), pa.int32(), nullable=False)
    rows = Window(source, (place,))
    return Project(rows, (item_of(source.schema[node.order], hidden=False), item_of(place.column)))


def ranks(found: pa.Table, number: Numbers) -> Numbers:
    """Return the positions of the rows with these arrival numbers, from the result of the plan."""
    known, place = (whole(c) for c in found.columns)
    order = np.argsort(known)
    return place[order][np.searchsorted(known[order], number)]


def _order(node: SplAggregate) -> exp.Order:
    """Return the sort order: the keys, then the arrival."""
    keys = [exp.Ordered(this=o.expr.copy(), desc=o.descending, nulls_first=o.nulls_come_first) for o in node.sort]
    return exp.Order(expressions=[*keys, exp.Ordered(this=column(node.order), desc=False, nulls_first=True)])


def sorted_contents(source: Scan, node: SplAggregate, firing: str, place: str) -> Node:
    """Return the node's rows with the number of their firing and their `place` in it.

    Rows with equal keys are in order of arrival.
    """
    number = Item(place, row_number([column(firing)], _order(node)), pa.int32(), nullable=False, hidden=True)
    rows = Window(source, (number,))
    shown = (*node.partition, *node.aggregates)
    readings = tuple(
        Item(r.name, column(f"${r.reading}"), r.reading.type, nullable=False, hidden=r.hidden) for r in node.readings
    )
    return Project(rows, (*shown, *readings, item_of(rows.schema[firing]), item_of(rows.schema[place])))
