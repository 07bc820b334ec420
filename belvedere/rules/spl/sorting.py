"""Rows of SPL windows sorted as they fire.

In: the contents of firings. Out: the relational plan over them that numbers the rows of each firing in the order of its keys.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from belvedere.plan.expressions import column, row_number
from belvedere.plan.keys import item_of
from belvedere.plan.nodes import Item, Node, Project, Scan, Window
from belvedere.plan.spl_aggregate import SplAggregate


def sorted_contents(source: Scan, node: SplAggregate, firing: str, place: str) -> Node:
    """The node's rows with the number of their firing and their `place` in it; rows of equal keys as they arrived."""
    keys = [exp.Ordered(this=o.expr.copy(), desc=o.descending, nulls_first=o.nulls_come_first) for o in node.sort]
    keys.append(exp.Ordered(this=column(node.order), desc=False, nulls_first=True))
    number = Item(place, row_number([column(firing)], exp.Order(expressions=keys)), pa.int32(), nullable=False, hidden=True)
    rows = Window(source, (number,))
    shown = (*node.partition, *node.aggregates)
    readings = tuple(
        Item(r.name, column(f"${r.reading}"), r.reading.type, nullable=False, hidden=r.hidden) for r in node.readings
    )
    return Project(rows, (*shown, *readings, item_of(rows.schema[firing]), item_of(rows.schema[place])))
