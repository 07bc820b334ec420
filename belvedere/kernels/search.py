"""Find, for many windows at once, the first tuple that satisfies a condition.

In: numpy arrays over the rows of consecutive sorted partitions, and for each window its first row and the last row of
its partition. Out: the matching row of each window, or -1. Values are compared as int64 codes (`ordered_codes`), so one
kernel handles numbers, times and strings. Every kernel costs at most O(n log n), whatever the length of the windows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
LEAST, GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
NONE = -1


def next_true(mask: Bools) -> Ints:
    """Return for each row the first row at or after it in the mask; the number of rows if there is none."""
    n = len(mask)
    places = np.where(mask, np.arange(n, dtype=np.int64), n)
    return np.minimum.accumulate(places[::-1])[::-1]


def first_in(mask: Bools, begin: Ints, last: Ints) -> Ints:
    """Class a: return the first row of the mask at or after `begin`."""
    n = len(mask)
    following = np.append(next_true(mask), n)
    found = following[np.minimum(begin, n)]
    return np.where((found < n) & (found <= last), found, NONE)


def lower_bound(values: Ints, begin: Ints, last: Ints, requested: Ints, beyond: bool) -> Ints:
    """Class b: return the first row in [begin, last] with a value >= `requested` (`beyond`: >); last + 1 for none.

    Values do not decrease within a partition.
    """
    low, high = begin.copy(), last + 1
    width = int(np.max(high - low, initial=0))
    for _ in range(max(width, 1).bit_length()):
        active = low < high
        middle = (low + high) >> 1
        found = values[np.minimum(middle, len(values) - 1)]
        before = (found <= requested) if beyond else (found < requested)
        low = np.where(active & before, middle + 1, low)
        high = np.where(active & ~before, middle, high)
    return low


def first_above(values: Ints, begin: Ints, requested: Ints) -> Ints:
    """Class c1: return the first row at or after `begin` with a value > `requested`; n for none.

    The search descends in a tree of maxima.
    """
    n = len(values)
    levels = [values]
    while len(levels[-1]) > 1:
        below = levels[-1]
        if len(below) % 2:
            below = np.append(below, LEAST)
            levels[-1] = below
        levels.append(np.maximum(below[0::2], below[1::2]))
    node, found_level = begin.astype(np.int64).copy(), np.full(len(begin), NONE, np.int64)
    searching = node < n
    for k, level in enumerate(levels):
        top = k == len(levels) - 1
        testing = searching & ((node & 1 == 1) | top) & (node < len(level))
        hit = testing & (level[np.minimum(node, len(level) - 1)] > requested)
        found_level[hit] = k
        searching &= ~hit & (node < len(level))
        node = np.where(searching, (node + 1) >> 1, node)
    for k in range(len(levels) - 1, 0, -1):
        inside = found_level >= k
        left = node << 1
        level = levels[k - 1]
        goes_left = level[np.minimum(left, len(level) - 1)] > requested
        node = np.where(inside, np.where(goes_left, left, left + 1), node)
    return np.where(found_level >= 0, node, n)


def first_equal(values: Ints, begin: Ints, requested: Ints) -> Ints:
    """Class c2: return the first row at or after `begin` with the value `requested`; n for none."""
    n = len(values)
    distinct, codes = np.unique(values, return_inverse=True)
    keys = np.sort(codes.astype(np.int64) * n + np.arange(n, dtype=np.int64))
    code = np.searchsorted(distinct, requested)
    known = code < len(distinct)
    known &= distinct[np.minimum(code, max(len(distinct) - 1, 0))] == requested if len(distinct) else False
    place = np.searchsorted(keys, code * n + np.minimum(begin, n - 1))
    candidate = keys[np.minimum(place, max(len(keys) - 1, 0))] if len(keys) else np.zeros(len(begin), np.int64)
    hit = known & (place < len(keys)) & (begin < n) & (candidate // max(n, 1) == code)
    return np.where(hit, candidate % max(n, 1), n)


def first_compared(operator: str, values: Ints, begin: Ints, requested: Ints) -> Ints:
    """Return the first row at or after `begin` with `value operator requested`; n for none."""
    if operator == "=":
        return first_equal(values, begin, requested)
    if operator == "<>":
        return np.minimum(first_above(values, begin, requested), first_above(~values, begin, ~requested))
    if operator in ("<", "<="):
        values, requested = ~values, ~requested  # turns the order around without overflow
    if operator in (">=", "<="):
        impossible = requested == LEAST
        found = first_above(values, begin, np.where(impossible, LEAST, requested - 1))
        return np.where(impossible, np.minimum(begin, len(values)), found)
    return first_above(values, begin, requested)


def monotone_range(operator: str, values: Ints, begin: Ints, last: Ints, requested: Ints) -> tuple[Ints, Ints]:
    """Class b: return the rows [from, to] of [begin, last] with `value operator requested`, for values that do not
    decrease."""
    if operator in (">", ">="):
        return lower_bound(values, begin, last, requested, operator == ">"), last
    if operator in ("<", "<="):
        return begin, lower_bound(values, begin, last, requested, operator == "<=") - 1
    first = lower_bound(values, begin, last, requested, False)
    return first, lower_bound(values, first, last, requested, True) - 1


def follow(following: Ints, first: int = 0) -> Ints:
    """Return `first`, following[first], following[following[first]], ... up to the end of the array."""
    steps, place, n = [], first, len(following)
    jumps: Any = following.tolist()
    while place < n:
        steps.append(place)
        place = jumps[place]
    return np.array(steps, np.int64)
