"""How many rows around a cut of a sequence its neighbours must know: so that each block finds its own windows alone.

In: the sorted rows around a cut, a `KernelSpec`, and which alternatives of END never move back as the start moves on. Out: from which row
on the block behind the cut must look, or None where more rows are needed. Nothing is run on Spark.

Behind the cut: a window that starts before it ends no later than the one that starts at the last row before the cut, by an alternative
that never moves back. So that one's end, with the row after it (NEXT), is enough for all of them. Before the cut: SLIDING windows and
those without END depend on no other; TUMBLING ones on where the last one ended. That is known after a row at which every open window
ends (an alternative of END on this row alone), at the partition's first row, and where all windows have one length. Windows with LABEL
belong to the block of their label; where START counts from the label, that of the row behind the cut is the first of all in its block.
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
    """The rows around a cut in order, `cut` of them before it, and the position of the first (from 0).

    `first`, `last`: none of the partition's rows lie before, or behind them.
    """

    table: pa.Table
    cut: int
    position: int
    first: bool
    last: bool


def begin_of(margin: Margin, spec: KernelSpec, ends: Ends) -> int | None:
    """The row of the margin where the search for the windows behind the cut begins; None where the margin must be longer."""
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
    """Whether all windows that start before the cut end within the margin."""
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
    """The first row of the windows whose labels lie behind the cut: START moves on with the labels, and lies at or before them."""
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
    """Whether a boundary is looked for by positions alone."""
    return all(p.role == "position" for c in boundary.search or () for x in c.compares for p in leaves(x.searched))


def _resumed(margin: Margin, rows: SortedRows, spec: KernelSpec, ends: Ends) -> int | None:
    """The last row at or before the cut where no TUMBLING window is open, whatever came before."""
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
