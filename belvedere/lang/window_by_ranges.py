"""Which windows of a partition a change can reach: those that a query must find again after it.

In: a query's one block and its table. Out: `Ranges`, or why any window of the partition may change. And the query by whose windows the
cut is made.

A window is a function of the tuples from its start (the one before it, with PREV) to its end (the one after it, with NEXT), unless it
counts from the partition's first tuple (AT) or lies at its edge (UNBOUNDED). So a change reaches the windows around it. How far back these
begin is known. TUMBLING: the search begins anew at each window's start, and the stored windows before the change are still right. SLIDING:
where END never moves back as the start moves on, then what is closed for one tuple is closed for all tuples before it; with any other END
a window changes where it did not end before the change, and where all windows end is kept (`belvedere.spark.window_ends`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce

import pyarrow as pa
from sqlglot import exp

from belvedere.lang.window_by import Block, Boundary, Expr, Query, Variables, WindowBy
from belvedere.lang.window_by_classes import Compare, Conjunction, Item, Part, classify, is_monotone
from belvedere.lang.window_by_functions import Type
from belvedere.lang.window_by_resume import extents, item_of, leading_column, only_distances
from belvedere.plan.nodes import Node
from belvedere.plan.window_by import Ranges
from belvedere.schema import Column


def ranges_of(block: Block, source: Node, row: Type, partition: tuple[str, ...]) -> Ranges | str:
    """How to tell the windows that a change can reach, or why any of the partition may change.

    `partition` are the columns of the table that PARTITION BY names.
    """
    window = block.window
    assert window is not None
    far = _reaches_far(window)
    if far:
        return far
    if len(partition) != len(window.partition):
        return "PARTITION BY has an expression that is no column"
    roles = {role for _, role in window.variables.values()}
    column, key = leading_column(block, window, source), window.order[0]
    if column is None or not _is_counted(column.type):
        return "ORDER BY's first key is no column of whole numbers, dates or times"
    if column.nullable and key.nulls_come_first == key.descending:
        return "rows whose order key is NULL stand where the greatest key would (write NOT NULL, or NULLS the other way)"
    if "position" in roles and not only_distances(block, window, row):
        return "positions count from the partition's first row, and are used for more than END's distance from START"
    beside = "previous" in roles, "next" in roles
    found = Ranges(column.name, *beside, window.tumbling, descending=key.descending, filtered=block.where is not None)
    if window.tumbling:
        return (
            "PREV may look into the TUMBLING window before, so its search cannot begin anew at a start"
            if found.before
            else found
        )
    closing = tuple(_closing(window, item_of(block, window, row), column))
    # an end whose order key is NULL looks like none
    return replace(found, closing=closing, pairs=not closing and window.only and roles <= {"item"} and not column.nullable)


def _reaches_far(window: WindowBy) -> str:
    """Why windows depend on rows at the partition's edge; nothing where they do not."""
    if window.label is not None:
        return "START is looked for from the partition's first row, so any row before a label may begin its window"
    if window.start.unbounded:
        return "START UNBOUNDED: the window has the partition's rows from the first one on"
    if window.end is not None and window.end.unbounded:
        return "END UNBOUNDED: all windows have the partition's last row"
    return ""


def _is_counted(type_: pa.DataType) -> bool:
    """Types whose values every store sorts as numbers."""
    return bool(
        pa.types.is_integer(type_) or pa.types.is_date32(type_) or (pa.types.is_timestamp(type_) and type_.unit == "us")
    )


def _alternatives(when: Expr | None) -> list[Expr]:
    """The conditions that OR joins at the top."""
    inner = when.unnest() if when is not None else exp.true()
    return [*_alternatives(inner.left), *_alternatives(inner.right)] if isinstance(inner, exp.Or) else [inner]


def _closing(window: WindowBy, item: Item, column: Column) -> Iterator[int]:
    """The places of END's alternatives whose nearest tuple never moves back as the start moves on."""
    assert window.end is not None
    descending = window.order[0].descending
    for place, when in enumerate(_alternatives(window.end.when)):
        found = classify(replace(window, end=replace(window.end, when=when)), "end", item)
        if (
            found is not None
            and found.conjunctions
            and all(moves_on(c, item, column.nullable, descending) for c in found.conjunctions)
        ):
            yield place


def moves_on(conjunction: Conjunction, item: Item, nullable: bool, descending: bool) -> bool:
    """Whether an end that one start finds is found, there or earlier, by all starts before it.

    `nullable`: some tuple may have no order key. `descending`: the key falls from tuple to tuple.
    """
    if conjunction.known:
        return False
    at_once = len(conjunction.compares) == 1 and not conjunction.local
    return all(_grows(c, item, nullable, descending, at_once) for c in conjunction.compares)


def _grows(compare: Compare, item: Item, nullable: bool, descending: bool, at_once: bool) -> bool:
    """Whether a tuple that is far enough for a start is so for all starts before it."""
    if not is_monotone(compare, item) or any(p.sign < 0 for p in compare.searched):
        return False
    counted = compare.searched[0].role == "position"
    if compare.operator == "=":
        return (
            at_once and counted and all(p.role in ("position", "") for p in compare.known) and _moves(compare.known, item, 1, 1)
        )
    keyed = not counted or any(p.role == "item" for p in compare.known)
    if keyed and nullable:
        return False  # a start without an order key has no end by it
    key = -1 if descending else 1
    way = 1 if counted else key
    return compare.operator in ((">", ">=") if way > 0 else ("<", "<=")) and _moves(compare.known, item, way, key)


def _moves(parts: tuple[Part, ...], item: Item, way: int, key: int) -> bool:
    """Whether a sum over the start never falls (`way` 1) or never rises (-1) from tuple to tuple; the order key moves by `key`."""
    return all(
        p.side == ""
        or (p.role == "position" and p.sign == way)
        or (p.role == "item" and _keyed(p.expr) == item.order and p.sign * key == way)
        for p in parts
    )


def _keyed(expr: Expr) -> Expr:
    """What an expression adds literals to, or takes them from."""
    while isinstance(expr, (exp.Add, exp.Sub)) and isinstance(expr.expression, exp.Literal) and not expr.expression.is_string:
        expr = expr.this
    return expr


def reaches(query: Query, ranges: Ranges) -> Query:
    """The query for the reach (`extents`) of the windows, or of one from each tuple to where END's closing alternatives end it."""
    if not ranges.closing:
        return extents(query, ranges.column)
    block = query.blocks[0]
    window = block.window
    assert window is not None
    assert window.end is not None
    wanted = [a for place, a in enumerate(_alternatives(window.end.when)) if place in ranges.closing]
    when = reduce(lambda a, b: exp.Or(this=a, expression=b), (w.copy() for w in wanted))
    start = Boundary(replace(Variables(), item=window.start.variables.item, position=window.start.variables.position))
    everywhere = replace(window, start=start, end=replace(window.end, when=when))
    return extents(replace(query, blocks=(replace(block, window=everywhere),)), ranges.column)
