"""Number of neighbor rows that each block of a split partition needs to find its windows independently.

In: the sorted rows around a cut, a `KernelSpec`, and the alternatives of END that never move back as the start
advances. Out: the row at which the block after the cut starts its search, or None if more rows are needed. Nothing runs
on Spark.

After the cut: let END use an alternative that never moves back. Then a window that starts before the cut ends no later
than the window that starts at the last row before it. The end of that window and the next row (NEXT) suffice for all.

Before the cut: SLIDING windows and windows without END depend on no other window. TUMBLING windows depend on the end of
the previous window. It is known at the partition's first row and for windows of one length. It is also known after a
row at which every open window ends (an alternative of END on this row alone). Windows with LABEL belong to the block of
their label. If START depends on the label, the window of the first row after the cut starts first in its block.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from belvedere.kernels.predicates import holds, leaves
from belvedere.kernels.sorted_rows import SortedRows, Windows
from belvedere.kernels.windows import Finder
from belvedere.plan.operators.window_specs import BoundarySpec, Ends, KernelSpec


@dataclass(frozen=True)
class Margin:
    """The rows around a cut in order; `cut` of them are before it, and `position` is the position of the first row
    (from 0).

    `first` and `last` say that the partition has no rows before the first or after the last of them.
    """

    table: pa.Table
    cut: int
    position: int
    first: bool
    last: bool


def begin_of(margin: Margin, spec: KernelSpec, ends: Ends) -> int | None:
    """Return the row of the margin where the search after the cut begins; None if the margin is too short."""
    if not margin.first and margin.cut < 2:  # the last row before the cut, and the one before that
        return None
    rows = SortedRows(margin.table, (), margin.position)
    if not margin.last and margin.cut and not is_complete(margin, rows, spec, ends):
        return None
    if spec.label is not None:
        return _labelled(margin, rows, spec)
    if not spec.tumbling or spec.end is None:
        return margin.cut
    return _resumed(margin, rows, spec, ends)


def is_complete(margin: Margin, rows: SortedRows, spec: KernelSpec, ends: Ends) -> bool:
    """Return whether all windows that start before the cut end within the margin."""
    if spec.end is None:
        following = holds(rows, spec.start.local)[margin.cut : rows.count - 1]
        return bool(following.any())
    alternatives = tuple((spec.end.search or ())[n] for n in ends.closing)
    every = replace(spec, tumbling=False, only=False, start=BoundarySpec(), end=BoundarySpec(search=alternatives))
    one, yes = np.array([margin.cut - 1], np.int64), np.ones(1, np.bool_)
    first = one
    if spec.label is not None and len(alternatives) == 1 and [c.operator for c in alternatives[0].compares] == ["="]:
        first = np.zeros(1, np.int64)  # the one row at this distance, which may lie before the label
    end, closed = Finder(rows, every).ends(Windows(one, first, one, yes, yes))
    return bool(closed[0] and end[0] < rows.count - 1)


def _labelled(margin: Margin, rows: SortedRows, spec: KernelSpec) -> int | None:
    """Return the first row of the windows with labels after the cut. START moves with the label, never after it."""
    if (margin.first and margin.last) or margin.cut == rows.count:
        return 0 if margin.first else margin.cut
    label, yes = np.array([margin.cut], np.int64), np.ones(1, np.bool_)
    start = int(
        Finder(rows, spec).found(spec.start, "start", Windows(label, label, label, yes, yes), np.zeros(1, np.int64))[0]
    )
    if start > margin.cut or (start < 0 and not counted_from(spec.start)):
        return None
    return max(start, 0) if margin.first or start > 0 else None


def counted_from(boundary: BoundarySpec) -> bool:
    """Return whether the search for a boundary uses positions alone."""
    return all(p.role == "position" for c in boundary.search or () for x in c.compares for p in leaves(x.searched))


def _resumed(margin: Margin, rows: SortedRows, spec: KernelSpec, ends: Ends) -> int | None:
    """Return the last row up to the cut at which no TUMBLING window is open, independent of earlier rows."""
    if ends.length is not None:
        begin = margin.cut - (margin.position + margin.cut) % ends.length
        return begin if begin > 0 or (begin == 0 and margin.first) else None
    assert spec.end is not None
    closes = np.zeros(rows.count, np.bool_)
    for place in ends.at_once:
        closes |= holds(rows, (spec.end.search or ())[place].local)
    if not margin.first:
        closes[0] = False  # the row before it is not known
    found = np.flatnonzero(closes[: min(margin.cut, rows.count if margin.last else rows.count - 1)])
    return int(found[-1]) + 1 if len(found) else 0 if margin.first else None
