"""Aggregates over many ranges of rows at once.

In: a column as numpy arrays, and the first and last row of each window. Out: one value per window. Apart from a
logarithm, no cost depends on the length of the windows. Rows are never copied per window. The methods are:

- prefix sums for COUNT, SUM, AVG
- doubling tables for MIN, MAX
- folds over aligned blocks of 2^k rows for moments
- a wavelet matrix for percentiles and distinct values
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from belvedere.kernels.search import Bools, Ints

Reals = npt.NDArray[np.float64]
SAFE = 1e-12  # relative error of a difference of prefix sums above which the window is summed by blocks


def prefix(values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Return the sums of the first 0, 1, ... n values."""
    sums = np.zeros(len(values) + 1, values.dtype)
    np.cumsum(values, out=sums[1:])
    return sums


def counts(numbers: Bools | Ints) -> Ints:
    """Return the sums of the first 0, 1, ... n numbers; for a mask, the number of its rows before each row."""
    sums = np.zeros(len(numbers) + 1, np.int64)
    np.cumsum(numbers, out=sums[1:])
    return sums


def count_in(mask: Bools, first: Ints, last: Ints) -> Ints:
    """Return the number of the mask's rows in each range."""
    before = counts(mask)
    return before[last + 1] - before[first]


def whole_sum(values: Ints, valid: Bools, first: Ints, last: Ints) -> Ints:
    """Return the sums of whole numbers. Raises OverflowError if one exceeds 64 bits."""
    kept = np.where(valid, values, 0)
    sums = prefix(kept)
    found: Ints = sums[last + 1] - sums[first]  # type: ignore[assignment, operator]
    if may_overflow(kept):
        high, _ = sum_halves(kept, first, last)
        if ((high < -(1 << 31)) | (high >= 1 << 31)).any():
            raise OverflowError("a sum of whole numbers has more than 64 bits")
    return found


def may_overflow(values: Ints) -> bool:
    """Return whether some sum of the values may exceed 64 bits."""
    return len(values) * max(int(values.max(initial=0)), -int(values.min(initial=0))) >= 1 << 63


def sum_halves(values: Ints, first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Return sums of whole numbers of any size as quotient by 2^32, rounded down, and remainder."""
    highs, lows = prefix(values >> 32), prefix(values & 0xFFFFFFFF)
    low: Any = lows[last + 1] - lows[first]  # type: ignore[operator]
    high: Any = highs[last + 1] - highs[first]  # type: ignore[operator]
    return high + (low >> 32), low & 0xFFFFFFFF


def large_sum(values: Ints, valid: Bools, first: Ints, last: Ints) -> Reals:
    """Return sums of whole numbers of any size, rounded to doubles once."""
    high, low = sum_halves(np.where(valid, values, 0), first, last)
    found: Reals = (high.astype(np.longdouble) * (1 << 32) + low).astype(np.float64)
    return found


def decimal_sum(column: pa.Array, valid: Bools, first: Ints, last: Ints) -> pa.Array:
    """Return exact sums of decimals of at most 28 digits, of the same scale.

    Parts of 32, 32 and 64 bits are summed separately.
    """
    limbs = np.frombuffer(column.buffers()[1], np.uint64)[2 * column.offset : 2 * (column.offset + len(column))]
    low, high = limbs[0::2], limbs[1::2].view(np.int64)
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    parts = [(low & mask).view(np.int64), (low >> half).view(np.int64), high]
    bottom, middle, top = (whole_sum(part, valid, first, last) for part in parts)
    middle = middle + (bottom >> 32)
    found = np.empty(2 * len(first), np.uint64)
    found[0::2] = (bottom.view(np.uint64) & mask) | (middle.view(np.uint64) << half)
    found[1::2] = (top + (middle >> 32)).view(np.uint64)
    return pa.Array.from_buffers(pa.decimal128(38, column.type.scale), len(first), [None, pa.py_buffer(found)])


def real_sum(values: Reals, valid: Bools, first: Ints, last: Ints) -> Reals:
    """Return sums of doubles with a relative error of about 1e-12; infinities and NaN follow IEEE 754."""
    finite = np.isfinite(values) & valid
    clean = np.where(finite, values, 0.0)
    sums = prefix(clean.astype(np.longdouble))
    found = (sums[last + 1] - sums[first]).astype(np.float64)  # type: ignore[operator]
    scale = float(np.max(np.abs(sums), initial=0.0)) * float(np.finfo(np.longdouble).eps) * max(len(values), 1) ** 0.5
    doubtful = np.flatnonzero(np.abs(found) * SAFE < scale)
    if len(doubtful):
        zeros = clean == 0
        empty = count_in(~zeros, first[doubtful], last[doubtful]) == 0
        found[doubtful[empty]] = 0.0
        rest = doubtful[~empty]
        high, low = fold_blocks((clean, np.zeros(len(clean))), first[rest], last[rest], _merge_sums, (0.0, 0.0))
        found[rest] = high + low
    if not finite.all():
        _spoil(found, values, valid, first, last)
    return found


FEW = 8
"""Minimum number of rows per range for sums in double precision; with fewer, sums use twice the precision."""


def real_sums(high: Reals, low: Reals, first: Ints, last: Ints) -> tuple[Reals, Reals]:
    """Return sums of numbers in two parts, value and rounding error. Sums of few ranges have two parts too."""
    everywhere = np.ones(len(high), np.bool_)
    if FEW * len(first) > len(high):
        return real_sum(high, everywhere, first, last), real_sum(low, everywhere, first, last)
    finite = np.isfinite(high)
    parts = (np.where(finite, high, 0.0), np.where(finite, low, 0.0))
    with np.errstate(invalid="ignore", over="ignore"):
        total, rest = fold_blocks(parts, first, last, _merge_sums, (0.0, 0.0))
    if not finite.all():
        _spoil(total, high, everywhere, first, last)
    return total, np.where(np.isfinite(total), rest, 0.0)


def _spoil(found: Reals, values: Reals, valid: Bools, first: Ints, last: Ints) -> None:
    unordered = count_in(np.isnan(values) & valid, first, last) > 0
    above = count_in(np.isposinf(values) & valid, first, last) > 0
    below = count_in(np.isneginf(values) & valid, first, last) > 0
    found[above] = np.inf
    found[below] = -np.inf
    found[unordered | (above & below)] = np.nan


def _merge_sums(a: RunningState, b: RunningState) -> RunningState:
    """Add two sums with their rounding errors (Knuth's two-sum)."""
    total = a[0] + b[0]
    part = total - a[0]
    return total, a[1] + b[1] + ((a[0] - (total - part)) + (b[0] - part))


RunningState = tuple[npt.NDArray[np.float64], ...]


def fold_blocks(
    rows: RunningState,
    first: Ints,
    last: Ints,
    merge: Callable[[RunningState, RunningState], RunningState],
    empty: Sequence[float],
) -> RunningState:
    """Merge the states of each range's rows over aligned blocks of 1, 2, 4, ... rows: O(log n) merges per window."""
    low, high = first.copy(), last.copy()
    result: RunningState = tuple(np.full(len(first), e) for e in empty)
    level = rows
    while len(low) and bool((low <= high).any()):
        inside = low <= high
        result = _take(result, level, inside & (low & 1 == 1), low, merge)
        low = np.where(inside & (low & 1 == 1), low + 1, low)
        inside = low <= high
        result = _take(result, level, inside & (high & 1 == 0), high, merge)
        high = np.where(inside & (high & 1 == 0), high - 1, high)
        low, high = low >> 1, np.where(low <= high, high >> 1, -1)
        low = np.where(high < 0, 0, low)
        if len(level[0]) % 2:
            level = tuple(np.append(x, e) for x, e in zip(level, empty, strict=True))
        level = merge(tuple(x[0::2] for x in level), tuple(x[1::2] for x in level))
    return result


def _take(
    result: RunningState,
    level: RunningState,
    chosen: Bools,
    places: Ints,
    merge: Callable[[RunningState, RunningState], RunningState],
) -> RunningState:
    which = np.flatnonzero(chosen)
    if len(which):
        found = merge(tuple(x[which] for x in result), tuple(x[places[which]] for x in level))
        for total, part in zip(result, found, strict=True):
            total[which] = part
    return result


def _merge_moments(a: RunningState, b: RunningState) -> RunningState:
    """Combine counts, means and central sums of two samples (Chan et al.; Pebay for the third and fourth)."""
    (na, ma, sa, ta, qa), (nb, mb, sb, tb, qb) = a, b
    n = na + nb
    with np.errstate(divide="ignore", invalid="ignore"):
        d = np.where((na > 0) & (nb > 0), mb - ma, 0.0)
        r = np.where(n > 0, d / n, 0.0)
        mean = np.where(na == 0, mb, np.where(nb == 0, ma, ma + r * nb))
        second = sa + sb + d * r * na * nb
        third = ta + tb + d * r * r * na * nb * (na - nb) + 3 * r * (na * sb - nb * sa)
        fourth = (
            qa + qb + d * r**3 * na * nb * (na * na - na * nb + nb * nb) + 6 * r * r * (na * na * sb + nb * nb * sa)
            + 4 * r * (na * tb - nb * ta)
        )  # fmt: skip
    return n, mean, second, third, fourth


def moments(values: Reals, valid: Bools, first: Ints, last: Ints) -> RunningState:
    """Return count, mean and the second to fourth central sums of each range, without cancellation."""
    zero = np.zeros(len(values))
    rows = (valid.astype(np.float64), np.where(valid, values, 0.0), zero, zero, zero)
    return joined_moments(rows, first, last)


def joined_moments(states: RunningState, first: Ints, last: Ints) -> RunningState:
    """Return the moments of each range of rows that are themselves moments of samples."""
    return fold_blocks(states, first, last, _merge_moments, (0.0,) * 5)


def extreme(codes: Ints, first: Ints, last: Ints, greatest: bool) -> Ints:
    """Return the greatest (or least) code of each range, from tables of 2^k rows that are built one after another."""
    pick = np.maximum if greatest else np.minimum
    length = last - first + 1
    level_of = np.floor(np.log2(np.maximum(length, 1))).astype(np.int64)
    result, table = np.empty(len(first), codes.dtype), codes
    for k in range(int(level_of.max(initial=-1)) + 1):
        if k:
            half = 1 << (k - 1)
            table = pick(table[:-half], table[half:])
        which = np.flatnonzero(level_of == k)
        result[which] = pick(table[first[which]], table[last[which] - (1 << k) + 1])
    return result


class WaveletMatrix:
    """Codes 0 .. distinct - 1, bit by bit from the highest: rank and count queries in O(log distinct).

    Claude, Navarro: The wavelet matrix, SPIRE 2012.
    """

    def __init__(self, codes: Ints, distinct: int):
        self.bits = max(distinct - 1, 0).bit_length()
        self.levels: list[npt.NDArray[np.int32]] = []
        self.zeros: list[int] = []
        row = codes.astype(np.int32)
        for bit in range(self.bits - 1, -1, -1):
            ones = (row >> bit) & 1 == 1
            sums = np.zeros(len(row) + 1, np.int32)
            np.cumsum(~ones, out=sums[1:])
            self.levels.append(sums)
            self.zeros.append(int(sums[-1]))
            row = np.concatenate([row[~ones], row[ones]])

    def nth(self, first: Ints, end: Ints, place: Ints) -> Ints:
        """Return the code of rank `place` (from 0, smallest first) in [first, end)."""
        low, high, rest = first.astype(np.int64), end.astype(np.int64), place.astype(np.int64)
        code = np.zeros(len(first), np.int64)
        for sums, zeros in zip(self.levels, self.zeros, strict=True):
            zero_low, zero_high = sums[low].astype(np.int64), sums[high].astype(np.int64)
            smaller = zero_high - zero_low
            ones = rest >= smaller
            rest = np.where(ones, rest - smaller, rest)
            low = np.where(ones, zeros + low - zero_low, zero_low)
            high = np.where(ones, zeros + high - zero_high, zero_high)
            code = (code << 1) | ones
        return code

    def less(self, first: Ints, end: Ints, bound: Ints) -> Ints:
        """Return the number of codes in [first, end) that are below `bound`."""
        low, high = first.astype(np.int64), end.astype(np.int64)
        found = np.zeros(len(first), np.int64)
        everything = bound >= (1 << self.bits)
        for depth, (sums, zeros) in enumerate(zip(self.levels, self.zeros, strict=True)):
            one = (bound >> (self.bits - 1 - depth)) & 1 == 1
            zero_low, zero_high = sums[low].astype(np.int64), sums[high].astype(np.int64)
            found += np.where(one, zero_high - zero_low, 0)
            low = np.where(one, zeros + low - zero_low, zero_low)
            high = np.where(one, zeros + high - zero_high, zero_high)
        return np.where(everything, end - first, found)


def percentile(values: Reals, valid: Bools, first: Ints, last: Ints, fraction: float) -> Reals:
    """Return the continuous percentile of each range; NaN sorts last. Undefined for a range without valid rows."""
    kept = np.flatnonzero(valid)
    before = counts(valid)
    low, end = before[first], before[last + 1]
    distinct, codes = np.unique(values[kept], return_inverse=True)
    if not len(distinct):
        return np.full(len(first), np.nan)
    matrix = WaveletMatrix(codes, len(distinct))
    size = np.maximum(end - low, 1)
    place = fraction * (size - 1)
    below = np.floor(place).astype(np.int64)
    some = end > low
    end = np.where(some, end, np.minimum(low + 1, len(kept)))
    low = np.where(some, low, end - 1)
    left = distinct[matrix.nth(low, end, below)]
    part = place - below
    fractional = np.flatnonzero(part > 0)
    result = left.astype(np.float64)
    if len(fractional):
        right = distinct[matrix.nth(low[fractional], end[fractional], below[fractional] + 1)]
        with np.errstate(invalid="ignore"):  # between -Infinity and Infinity there is no number
            step = (right - result[fractional]) * part[fractional]
            result[fractional] += np.where(right == result[fractional], 0.0, step)
    return result


def distinct_count(codes: Ints, valid: Bools, first: Ints, last: Ints) -> Ints:
    """Return the number of different valid codes per range: rows whose previous equal row is before the range."""
    kept = np.flatnonzero(valid)
    before = counts(valid)
    low, end = before[first], before[last + 1]
    row = codes[kept]
    order = np.lexsort((np.arange(len(row)), row))
    previous = np.zeros(len(row), np.int64)  # 0: none, else the previous equal row + 1
    same = row[order][1:] == row[order][:-1]
    previous[order[1:][same]] = order[:-1][same] + 1
    matrix = WaveletMatrix(previous, len(row) + 1)
    return matrix.less(low, end, low + 1)
