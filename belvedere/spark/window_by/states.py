"""Aggregates over ranges of rows in two steps: states that can be merged, and the values made of them.

In: an `Aggregate`, `Rows`, and for each window its first and last row. Out: `State`: one state per window; states laid one behind the
other merge by ranges like rows do. So what tasks computed of the parts of a window gives its aggregate. Percentiles and distinct
values have no such states: they need all values at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.spark.window_by import ranges, search
from belvedere.spark.window_by.ranges import Bools, Ints
from belvedere.spark.window_by.rows import Rows, numeric, ordered_codes
from belvedere.spark.window_by.specs import Aggregate

WHOLE = frozenset({"PERCENTILE", "DISTINCT"})
"""Functions without mergeable states."""


@dataclass(frozen=True)
class State:
    """Per range: how many rows are aggregated, how many of them have a value, and what the function needs besides (no NULLs but of
    MIN and MAX without values)."""

    members: Ints
    known: Ints
    parts: tuple[pa.Array, ...]

    def take(self, places: Ints) -> State:
        return State(self.members[places], self.known[places], tuple(p.take(pa.array(places)) for p in self.parts))


def joined(states: Sequence[State]) -> State:
    """States laid one behind the other."""
    parts = zip(*(s.parts for s in states), strict=True)
    return State(
        np.concatenate([s.members for s in states]),
        np.concatenate([s.known for s in states]),
        tuple(_concatenated(p) for p in parts),
    )


def _concatenated(parts: Sequence[pa.Array]) -> pa.Array:
    """One array: the sums for AVG are doubles only where whole numbers may be too large."""
    if len({p.type for p in parts}) > 1:
        parts = [p.cast(pa.float64(), safe=False) for p in parts]
    return pa.concat_arrays(list(parts))


def included_rows(output: Aggregate, rows: Rows) -> Bools:
    """The rows that are aggregated, with and without a value."""
    return rows.booleans(output.included) if output.included else np.ones(rows.count, np.bool_)


def state_of(output: Aggregate, rows: Rows, first: Ints, last: Ints) -> State:
    """The states of the ranges."""
    included = included_rows(output, rows)
    members = ranges.count_in(included, first, last)
    if output.column is None:
        return State(members, np.zeros(len(first), np.int64), ())
    column = rows.column(output.column)
    valid = np.asarray(pc.is_valid(column).to_numpy(zero_copy_only=False), np.bool_) & included
    known = ranges.count_in(valid, first, last)
    if output.function == "COUNT":
        return State(members, known, ())
    if output.function in ("MIN", "MAX", "SUM", "AVG"):
        return State(members, known, (_folded(output.function, column, valid, first, last),))
    moments = ranges.moments(numeric(column)[0].astype(np.float64), valid, first, last)
    return State(members, known, tuple(pa.array(m) for m in moments))


def merged(output: Aggregate, states: State, first: Ints, last: Ints) -> State:
    """The states of ranges of parts; no range is empty."""
    everywhere = np.ones(len(states.members), np.bool_)
    members, known = (ranges.whole_sum(x, everywhere, first, last) for x in (states.members, states.known))
    if not states.parts:
        return State(members, known, ())
    if output.function in ("MIN", "MAX", "SUM", "AVG"):
        return State(members, known, (_folded(output.function, states.parts[0], states.known > 0, first, last),))
    moments = ranges.merged_moments(tuple(p.to_numpy() for p in states.parts), first, last)
    return State(members, known, tuple(pa.array(m) for m in moments))


def finished(output: Aggregate, state: State, extra: Ints) -> pa.Array:
    """The aggregate's values; `extra` of each window's members are MISSING."""
    if output.column is None:
        return pa.array(state.members + extra, pa.int64())
    if output.function == "COUNT":
        return pa.array(state.members + extra if output.strict else state.known, pa.int64())
    blank = blanks(output, state.members, state.known, extra)
    if output.function in ("MIN", "MAX", "SUM"):
        return pc.if_else(pa.array(blank), pa.scalar(None, state.parts[0].type), state.parts[0])
    if output.function == "AVG":
        return pa.array(state.parts[0].to_numpy(zero_copy_only=False) / np.maximum(state.known, 1), mask=blank)
    result, undefined = moment(output.function, tuple(p.to_numpy() for p in state.parts))
    return pa.array(result, pa.float64(), mask=blank | undefined)


def blanks(output: Aggregate, members: Ints, known: Ints, extra: Ints) -> Bools:
    """Where the aggregate is NULL: nothing remains, or for STRICT something unknown is in it."""
    blank: Bools = known == 0
    if output.strict:
        blank = blank | (members > known) | (extra > 0)
    return blank


def _folded(function: str, column: pa.Array, valid: Bools, first: Ints, last: Ints) -> pa.Array:
    """The least, the greatest or the sum of each range's values."""
    if function in ("MIN", "MAX"):
        return _extreme(column, valid, first, last, function == "MAX")
    if pa.types.is_decimal(column.type):
        return ranges.decimal_sum(column, valid, first, last)
    values, _ = numeric(column)
    if values.dtype != np.int64:
        return pa.array(ranges.real_sum(values, valid, first, last))
    if function == "AVG" and ranges.may_overflow(values):
        return pa.array(ranges.large_sum(values, valid, first, last))
    return pa.array(ranges.whole_sum(values, valid, first, last))


def _extreme(column: pa.Array, valid: Bools, first: Ints, last: Ints, greatest: bool) -> pa.Array:
    """The least or greatest value of each range, of the column's type; NULL where a range has none."""
    values, _ = numeric(column)
    blank = ranges.count_in(valid, first, last) == 0
    codes = np.where(valid, ordered_codes(values), search.LEAST if greatest else search.GREATEST)
    best = ranges.extreme(codes, first, last, greatest)
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
