"""Windows of a partition that a change can affect, which must be computed again after it.

In: a clause and its block. Out: `Ranges`, or the reason that any window of the partition may change; the END that
bounds the windows.

A window is a function of the tuples from its start (with PREV, the one before it) to its end (with NEXT, the one after
it). The exceptions are windows that count from the partition's first tuple (AT) or end at its edge (UNBOUNDED). So a
change affects only the windows around it, and their earliest start is known:

* TUMBLING: each search begins at a window's start, and the stored windows before the change are still right.
* SLIDING: if END never moves back as the start moves forward, a window that is closed for one tuple is closed for all
  tuples before it.
* LABEL: the same, if START is at a distance before the label, so that both move forward together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce

import pyarrow as pa
from sqlglot import exp

from belvedere.plan.operators.predicate_window import Ranges, WindowEnd, WindowForm
from belvedere.schema import Column
from belvedere.sqlpp.query_tree import Expr, QueryBlock, WindowBy
from belvedere.sqlpp.windows.boundary_classes import Search, TypedWindow
from belvedere.sqlpp.windows.closing import closing_of, frame_closing, is_before
from belvedere.sqlpp.windows.resume import neighbours_of, only_distances


def ranges_of(typed: TypedWindow, block: QueryBlock, column: Column | None) -> Ranges | str:
    """Return how to identify the windows that a change can reach, or why any window of the partition may change.

    `column` is ORDER BY's first key.
    """
    window, key = typed.window, typed.window.order[0]
    far = _reaches_far(window)
    if far:
        return far
    if column is None or not _is_counted(column.type):
        return "the first ORDER BY key is not a whole number, date or time"
    if column.nullable and key.nulls_come_first == key.descending:
        return "NULL order keys sort next to the greatest keys (declare NOT NULL, or change NULLS FIRST/LAST)"
    if "position" in typed.roles and not only_distances(block, typed):
        return "positions count from the partition's first row and are used for more than distances"
    form = WindowForm.TUMBLING if window.tumbling else WindowForm.SLIDING
    found = Ranges(column.name, form, neighbours_of(typed), descending=key.descending)
    if window.tumbling:
        return found
    closing = tuple(_closing(typed, column.nullable))
    if window.label is None:
        return replace(found, closing=closing) if closing else _why_not_closing(typed, column.nullable)
    if not closing:
        return "windows may reach from any row before their labels to any row after them"
    # `frame_closing` allows an END before the label only at one tuple: a window without it is dropped permanently
    before = typed.end is not None and len(typed.end) == 1 and any(map(is_before, typed.end[0].compares))
    end = WindowEnd.BEFORE_LABEL if before else WindowEnd.CONDITION
    return replace(found, form=WindowForm.LABELLED, closing=closing, end=end)


def _why_not_closing(typed: TypedWindow, nullable: bool) -> str:
    if nullable and tuple(_closing(typed, nullable=False)):
        return "a row with a NULL order key has no END (declare NOT NULL)"
    return "END of a later start may come before that of an earlier one, at any distance"


def _reaches_far(window: WindowBy) -> str:
    """Return the reason that windows depend on rows at the partition's edge; "" if they do not."""
    if window.label is not None and window.tumbling:
        return "TUMBLING windows with LABEL are chosen from those of all labels before"
    if window.start.unbounded:
        return "START UNBOUNDED: the window has the partition's rows from the first one on"
    if window.end is not None and window.end.unbounded:
        return "END UNBOUNDED: all windows have the partition's last row"
    return ""


def _is_counted(type_: pa.DataType) -> bool:
    """Return whether every store sorts values of the type as numbers."""
    return bool(
        pa.types.is_integer(type_) or pa.types.is_date32(type_) or (pa.types.is_timestamp(type_) and type_.unit == "us")
    )


def _alternatives(when: Expr | None) -> list[Expr]:
    """Return the conditions that OR joins at the top level."""
    inner = when.unnest() if when is not None else exp.true()
    return [*_alternatives(inner.left), *_alternatives(inner.right)] if isinstance(inner, exp.Or) else [inner]


def _closing(typed: TypedWindow, nullable: bool) -> Iterator[int]:
    """Yield the indexes of END's alternatives whose nearest tuple never moves back as the start, or the label,
    advances."""
    window = typed.window
    assert window.end is not None
    alternatives = _alternatives(window.end.when)
    for place, when in enumerate(alternatives):
        alone = typed if len(alternatives) == 1 else typed.with_end(when, only=False)
        if alone.end:
            closing = closing_of(alone.end, alone, nullable) if window.label is None else frame_closing(alone, nullable)
            if len(closing) == len(alone.end):
                yield place


def closing_search(typed: TypedWindow, closing: tuple[int, ...]) -> Search:
    """Return the search for END by its closing alternatives alone."""
    window = typed.window
    assert window.end is not None
    alternatives = _alternatives(window.end.when)
    if len(closing) < len(alternatives):
        chosen = (alternatives[place].copy() for place in closing)
        typed = typed.with_end(reduce(lambda a, b: exp.Or(this=a, expression=b), chosen), window.only)
    assert typed.end is not None
    return typed.end
