"""Which windows of a partition a change can reach: those that a query must find again after it.

In: a clause and its block. Out: `Ranges`, or why any window of the partition may change; END by whose windows the cut is made.

A window is a function of the tuples from its start (the one before it, with PREV) to its end (the one after it, with NEXT), unless it
counts from the partition's first tuple (AT) or lies at its edge (UNBOUNDED). So a change reaches the windows around it. How far back these
begin is known. TUMBLING: the search begins anew at each window's start, and the stored windows before the change are still right. SLIDING:
where END never moves back as the start moves on, then what is closed for one tuple is closed for all tuples before it.
LABEL: the same, where START lies at a distance before the label, which so moves on with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce

import pyarrow as pa
from sqlglot import exp

from belvedere.plan.operators.predicate_window import Ranges, WindowEnd, WindowForm
from belvedere.plan.operators.window_specs import BoundarySpec
from belvedere.schema import Column
from belvedere.sqlpp.query_tree import Expr, QueryBlock, WindowBy
from belvedere.sqlpp.windows.boundary_classes import ItemFacts, classify
from belvedere.sqlpp.windows.closing import closing_of, frame_closing, is_before
from belvedere.sqlpp.windows.plan_boundaries import BoundaryPlanner
from belvedere.sqlpp.windows.resume import neighbours_of, only_distances


def ranges_of(block: QueryBlock, window: WindowBy, item: ItemFacts, column: Column | None) -> Ranges | str:
    """How to tell the windows that a change can reach, or why any of the partition may change. `column` is ORDER BY's first key."""
    far = _reaches_far(window)
    if far:
        return far
    roles = {role for _, role in window.variables.values()}
    key = window.order[0]
    if column is None or not _is_counted(column.type):
        return "ORDER BY's first key is no whole number, date or time"
    if column.nullable and key.nulls_come_first == key.descending:
        return "rows whose order key is NULL stand where the greatest key would (write NOT NULL, or NULLS the other way)"
    if "position" in roles and not only_distances(block, window, item):
        return "positions count from the partition's first row, and are used for more than distances"
    form = WindowForm.TUMBLING if window.tumbling else WindowForm.SLIDING
    found = Ranges(column.name, form, neighbours_of(window), descending=key.descending)
    if window.tumbling:
        return found
    closing = tuple(_closing(window, item, column))
    if window.label is None:
        return replace(found, closing=closing) if closing else _why_not_closing(window, item, column)
    if not closing:
        return "windows may reach from anywhere before their labels to anywhere behind them"
    end = WindowEnd.BEFORE_LABEL if _ends_before_label(window, item) else WindowEnd.CONDITION
    return replace(found, form=WindowForm.LABELLED, closing=closing, end=end)


def _why_not_closing(window: WindowBy, item: ItemFacts, column: Column) -> str:
    if column.nullable and tuple(_closing(window, item, replace(column, nullable=False))):
        return "a row whose order key is NULL has no END by it (write NOT NULL)"
    return "END of a later start may come before that of an earlier one, at any distance"


def _reaches_far(window: WindowBy) -> str:
    """Why windows depend on rows at the partition's edge; nothing where they do not."""
    if window.label is not None and window.tumbling:
        return "TUMBLING windows with LABEL are chosen from those of all labels before"
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


def _closing(window: WindowBy, item: ItemFacts, column: Column) -> Iterator[int]:
    """The places of END's alternatives whose nearest tuple never moves back as the start, or the label, moves on."""
    assert window.end is not None
    alternatives = _alternatives(window.end.when)
    start = None if window.label is None else classify(window, "start", item)
    for place, when in enumerate(alternatives):
        alone = replace(window, end=replace(window.end, when=when), only=window.only and len(alternatives) == 1)
        found = classify(alone, "end", item)
        if found is None or not found.conjunctions:
            continue
        if window.label is None:
            closing = closing_of(found, alone, item, column.nullable)
        else:
            closing = frame_closing(alone, item, start, found, column.nullable)
        if len(closing) == len(found.conjunctions):
            yield place


def _ends_before_label(window: WindowBy, item: ItemFacts) -> bool:
    """Whether END is one tuple before the label: a window without it is dropped for good (`frame_closing` takes no other)."""
    found = classify(window, "end", item)
    one = found is not None and len(found.conjunctions) == 1
    return found is not None and one and any(is_before(c) for c in found.conjunctions[0].compares)


def closing_end(planner: BoundaryPlanner, window: WindowBy, item: ItemFacts, closing: tuple[int, ...]) -> BoundarySpec:
    """END by its closing alternatives alone."""
    assert window.end is not None
    requested = [a for place, a in enumerate(_alternatives(window.end.when)) if place in closing]
    when = reduce(lambda a, b: exp.Or(this=a, expression=b), (w.copy() for w in requested))
    found = classify(replace(window, end=replace(window.end, when=when)), "end", item)
    assert found is not None
    return BoundarySpec(search=planner.search(found, item))
