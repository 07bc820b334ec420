"""The output columns of windows: values at boundaries, positions, arrays, aggregates.

In: `SortedRows` and the `Windows` found in them. Out: Arrow columns, one value per window.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from belvedere.kernels.aggregates import aggregate
from belvedere.kernels.range_aggregates import counts
from belvedere.kernels.search import Bools, Ints
from belvedere.kernels.sorted_rows import SortedRows, Windows
from belvedere.plan.operators.window_specs import (
    BoundaryPosition,
    Flag,
    Gather,
    Length,
    Members,
    Nth,
    ResultColumn,
    WindowAggregate,
)


class WindowWriter:
    """Computes the output columns of windows."""

    def __init__(self, rows: SortedRows, found: Windows):
        self.rows, self.found = rows, found

    def place(self, side: str, role: str) -> tuple[Ints, Bools]:
        """Return the rows of a boundary's tuple or of its neighbor, and a mask of those that exist."""
        places, there = self.found.tuples(side)
        moved, inside = self.rows.shifted(places, role)
        return moved, inside & there

    def taken(self, column: str, places: Ints, there: Bools) -> pa.Array:
        return self.rows.column(column).take(pa.array(places, mask=~there))

    def write(self, output: ResultColumn) -> list[tuple[str, pa.Array]]:
        found = self.found
        if isinstance(output, Gather):
            return [(output.output, self.taken(output.column, *self.place(output.side, output.role)))]
        if isinstance(output, BoundaryPosition):
            places, there = self.place(output.side, "item")
            return [(output.output, pa.array(places - self.rows.origin[places] + 1, pa.int64(), mask=~there))]
        if isinstance(output, Flag):
            return [(output.output, pa.array(~self.place(output.side, output.role)[1]))]
        if isinstance(output, Length):
            return [(output.output, pa.array(found.end - found.start + 1 + ~found.started + ~found.closed, pa.int64()))]
        if isinstance(output, Nth):
            return self.nth(output)
        if isinstance(output, Members):
            return [(output.output, self.members(output))]
        return [(output.output, self.aggregate(output))]

    def nth(self, output: Nth) -> list[tuple[str, pa.Array]]:
        found = self.found
        places = (
            found.start - ~found.started + output.index
            if output.index >= 0
            else found.end + ~found.closed + 1 + output.index
        )
        there = (places >= found.start) & (places <= found.end)
        return [
            (output.output, self.taken(output.column, np.where(there, places, found.start), there)),
            (output.flag, pa.array(~there)),
        ]

    def members(self, output: Members) -> pa.Array:
        """Return arrays of the windows' rows, with NULL for MISSING members at the ends (rule 7)."""
        found = self.found
        lengths = found.end - found.start + 1 + ~found.started + ~found.closed
        offsets = counts(lengths)
        total = int(offsets[-1])
        places = np.arange(total, dtype=np.int64) - np.repeat(offsets[:-1] - found.start + ~found.started, lengths)
        outside = (places < np.repeat(found.start, lengths)) | (places > np.repeat(found.end, lengths))
        indices = pa.array(np.where(outside, 0, places), mask=outside)
        parts = [self.rows.column(column).take(indices) for _, column in output.fields]
        if output.whole:
            values: Any = parts[0]
        else:
            values = pa.StructArray.from_arrays(parts, [n for n, _ in output.fields], mask=pa.array(outside))
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)

    def aggregate(self, output: WindowAggregate) -> pa.Array:
        """Return one aggregate of all windows."""
        first, last = self.found.start, self.found.end
        extra = (
            (~self.found.started).astype(np.int64) + ~self.found.closed
            if output.extra
            else np.zeros(len(first), np.int64)
        )
        return aggregate(output, self.rows, first, last, extra)
