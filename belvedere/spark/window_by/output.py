"""The output columns of windows: values at boundaries, positions, arrays, aggregates.

In: `Rows` and the `Windows` found in them. Out: Arrow columns, one value per window.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.spark.window_by import ranges, search
from belvedere.spark.window_by.ranges import Bools, Ints
from belvedere.spark.window_by.rows import Rows, Windows, numeric, ordered_codes
from belvedere.spark.window_by.specs import Aggregate, Flag, Gather, Length, Members, Nth, Output, Place


class Writer:
    """Makes the output columns of windows."""

    def __init__(self, rows: Rows, found: Windows):
        self.rows, self.found = rows, found

    def place(self, side: str, role: str) -> tuple[Ints, Bools]:
        """The rows of a boundary's tuple or neighbour, and where they are."""
        found = self.found
        places = {"label": found.label, "start": found.start, "end": found.end}[side]
        there = {"label": np.ones(len(found), np.bool_), "start": found.started, "end": found.closed}[side]
        moved, inside = self.rows.shifted(places, role)
        return moved, inside & there

    def taken(self, column: str, places: Ints, there: Bools) -> pa.Array:
        return self.rows.column(column).take(pa.array(places, mask=~there))

    def write(self, output: Output) -> list[tuple[str, pa.Array]]:
        found = self.found
        if isinstance(output, Gather):
            return [(output.output, self.taken(output.column, *self.place(output.side, output.role)))]
        if isinstance(output, Place):
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
            found.start - ~found.started + output.index if output.index >= 0 else found.end + ~found.closed + 1 + output.index
        )
        there = (places >= found.start) & (places <= found.end)
        return [
            (output.output, self.taken(output.column, np.where(there, places, found.start), there)),
            (output.flag, pa.array(~there)),
        ]

    def members(self, output: Members) -> pa.Array:
        """Arrays of the windows' rows with NULL for the MISSING at the ends (rule 7)."""
        found = self.found
        lengths = found.end - found.start + 1 + ~found.started + ~found.closed
        offsets = np.zeros(len(found) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
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

    def aggregate(self, output: Aggregate) -> pa.Array:
        """One aggregate of all windows; NULL where nothing remains, or for STRICT where something unknown is in it."""
        first, last = self.found.start, self.found.end
        included = self.rows.booleans(output.included) if output.included else np.ones(self.rows.count, np.bool_)
        extra = (~self.found.started).astype(np.int64) + ~self.found.closed if output.extra else np.zeros(len(first), np.int64)
        if output.column is None:
            members = ranges.count_in(included, first, last) + extra
            return pa.array(members, pa.int64())
        column = self.rows.column(output.column)
        valid = np.asarray(pc.is_valid(column).to_numpy(zero_copy_only=False), np.bool_) & included
        count = ranges.count_in(valid, first, last)
        if output.function == "COUNT":
            if not output.strict:
                return pa.array(count, pa.int64())
            return pa.array(ranges.count_in(included, first, last) + extra, pa.int64())
        blank = count == 0
        if output.strict:
            blank |= (ranges.count_in(included, first, last) > count) | (extra > 0)
        return self.computed(output, column, valid, count, blank)

    def computed(self, output: Aggregate, column: pa.Array, valid: Bools, count: Ints, blank: Bools) -> pa.Array:
        first, last, function = self.found.start, self.found.end, output.function
        if function in ("MIN", "MAX"):
            return self.extreme(column, valid, function == "MAX", blank)
        if function == "DISTINCT":
            codes = ordered_codes(numeric(column)[0])
            return pa.array(ranges.distinct_count(codes, valid, first, last), pa.int64())
        if function == "SUM" and pa.types.is_decimal(column.type):
            exact = ranges.decimal_sum(column, valid, first, last)
            return pc.if_else(pa.array(blank), pa.scalar(None, exact.type), exact)
        values, _ = numeric(column)
        if function in ("SUM", "AVG"):
            whole = values.dtype == np.int64
            total: Any = ranges.whole_sum(values, valid, first, last) if whole else ranges.real_sum(values, valid, first, last)
            if function == "AVG":
                total = total / np.maximum(count, 1)
            return pa.array(total, mask=blank)
        reals = values.astype(np.float64)
        if function == "PERCENTILE":
            return pa.array(ranges.percentile(reals, valid, first, last, output.fraction), mask=blank)
        result, undefined = moment(function, ranges.moments(reals, valid, first, last))
        return pa.array(result, pa.float64(), mask=blank | undefined)

    def extreme(self, column: pa.Array, valid: Bools, greatest: bool, blank: Bools) -> pa.Array:
        values, _ = numeric(column)
        codes = ordered_codes(values)
        codes = np.where(valid, codes, search.LEAST if greatest else search.GREATEST)
        best = ranges.extreme(codes, self.found.start, self.found.end, greatest)
        if values.dtype == np.int64 and pa.types.is_integer(column.type):
            return pa.array(np.where(blank, 0, best), pa.int64(), mask=blank).cast(column.type)
        known = np.flatnonzero(valid)
        distinct, place = np.unique(codes[known], return_index=True)
        if not len(distinct):
            return pa.nulls(len(best), column.type)
        row = known[place[np.minimum(np.searchsorted(distinct, best), len(distinct) - 1)]]
        return column.take(pa.array(row, mask=blank))


def moment(function: str, state: ranges.State) -> tuple[Any, Bools]:
    """A moment's value and where it has none."""
    n, _, second, third, fourth = state
    with np.errstate(divide="ignore", invalid="ignore"):
        if function in ("VAR_SAMP", "STDDEV_SAMP"):
            value, undefined = second / (n - 1), n < 2
        elif function in ("VAR_POP", "STDDEV_POP"):
            value, undefined = second / n, n < 1
        elif function == "SKEWNESS":
            value, undefined = np.sqrt(n) * third / second**1.5, second == 0
        else:
            value, undefined = n * fourth / (second * second) - 3, second == 0
        if function.startswith("STDDEV"):
            value = np.sqrt(value)
    return np.where(undefined, 0.0, value), undefined
