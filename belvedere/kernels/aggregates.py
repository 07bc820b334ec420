"""Aggregates of the rows of windows.

In: a `WindowAggregate`, `SortedRows`, and the first and last row of each window. Out: one value per window. The cost
does not depend on the number of rows per window.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.kernels import range_aggregates, search
from belvedere.kernels.search import Bools, Ints
from belvedere.kernels.sorted_rows import SortedRows, numeric, ordered_codes
from belvedere.plan.operators.window_specs import WindowAggregate


def aggregate(output: WindowAggregate, rows: SortedRows, first: Ints, last: Ints, extra: Ints) -> pa.Array:
    """Return the aggregate of each window; `extra` of its members are MISSING.

    A value is NULL if no row remains, or, with STRICT, if any member is unknown.
    """
    included = rows.booleans(output.included) if output.included else np.ones(rows.count, np.bool_)
    members = range_aggregates.count_in(included, first, last)
    column = rows.column(output.column)
    valid = np.asarray(pc.is_valid(column).to_numpy(zero_copy_only=False), np.bool_) & included
    known = range_aggregates.count_in(valid, first, last)
    if output.function == "COUNT":
        return pa.array(members + extra if output.strict else known, pa.int64())
    blank: Bools = known == 0
    if output.strict:
        blank = blank | (members > known) | (extra > 0)
    if output.function in ("MIN", "MAX"):
        found = extreme_values(column, valid, first, last, output.function == "MAX")
    elif output.function == "SUM":
        found = _sum(column, valid, first, last)
    else:
        return _of_numbers(output, column, valid, (first, last), known, blank)
    return pc.if_else(pa.array(blank), pa.scalar(None, found.type), found)


def _of_numbers(
    output: WindowAggregate, column: pa.Array, valid: Bools, windows: tuple[Ints, Ints], known: Ints, blank: Bools
) -> pa.Array:
    values, _ = numeric(column)
    if output.function == "DISTINCT":
        return pa.array(range_aggregates.distinct_count(ordered_codes(values), valid, *windows), pa.int64())
    if output.function == "PERCENTILE":
        return pa.array(
            range_aggregates.percentile(values.astype(np.float64), valid, *windows, output.fraction), mask=blank
        )
    if output.function == "AVG":
        total = range_aggregates.large_sum if values.dtype == np.int64 else range_aggregates.real_sum
        return pa.array(total(values, valid, *windows) / np.maximum(known, 1), mask=blank)
    result, undefined = moment(output.function, range_aggregates.moments(values.astype(np.float64), valid, *windows))
    return pa.array(result, pa.float64(), mask=blank | undefined)


def _sum(column: pa.Array, valid: Bools, first: Ints, last: Ints) -> pa.Array:
    if pa.types.is_decimal(column.type):
        return range_aggregates.decimal_sum(column, valid, first, last)
    values, _ = numeric(column)
    return pa.array(
        (range_aggregates.whole_sum if values.dtype == np.int64 else range_aggregates.real_sum)(
            values, valid, first, last
        )
    )


def extreme_values(column: pa.Array, valid: Bools, first: Ints, last: Ints, greatest: bool) -> pa.Array:
    """Return the least or greatest value of each range, in the column's type; NULL for a range without values."""
    values, _ = numeric(column)
    blank = range_aggregates.count_in(valid, first, last) == 0
    codes = np.where(valid, ordered_codes(values), search.LEAST if greatest else search.GREATEST)
    best = range_aggregates.extreme(codes, first, last, greatest)
    if values.dtype == np.int64 and pa.types.is_integer(column.type):
        return pa.array(np.where(blank, 0, best), pa.int64(), mask=blank).cast(column.type)
    known = np.flatnonzero(valid)
    distinct, place = np.unique(codes[known], return_index=True)
    if not len(distinct):
        return pa.nulls(len(best), column.type)
    row = known[place[np.minimum(np.searchsorted(distinct, best), len(distinct) - 1)]]
    return column.take(pa.array(row, mask=blank))


def moment(function: str, state: range_aggregates.RunningState) -> tuple[Any, Bools]:
    """Return the values of a moment, and a mask of the ranges in which it is undefined."""
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
