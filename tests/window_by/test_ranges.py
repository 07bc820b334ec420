"""Range aggregates and searches against plain loops, with values that break careless arithmetic."""

from __future__ import annotations

import math
import statistics
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belvedere.kernels import range_aggregates, search
from belvedere.kernels.sorted_rows import ordered_codes
from tests.depth import examples
from tests.window_by.interpreter.values import order_key

REALS = st.sampled_from([0.0, -0.0, 1e-9, 0.1, -2.5, 1e16, -1e16, math.inf, -math.inf, math.nan])
FINITE = st.floats(-1e6, 1e6, allow_nan=False)


@st.composite
def columns(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> tuple[Any, Any, Any, Any]:
    """Values, validity, and some ranges over them."""
    size = draw(st.integers(1, 40))
    numbers = np.array(draw(st.lists(values, min_size=size, max_size=size)))
    valid = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    pairs = draw(st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), min_size=1, max_size=10))
    first = np.array([min(p) for p in pairs], np.int64)
    return numbers, valid, first, np.array([max(p) for p in pairs], np.int64)


def members(column: tuple[Any, Any, Any, Any]) -> list[list[float]]:
    numbers, valid, first, last = column
    return [
        [float(x) for x, v in zip(numbers[a : b + 1], valid[a : b + 1], strict=True) if v]
        for a, b in zip(first, last, strict=True)
    ]


def same(left: float, right: float) -> bool:
    return (
        (math.isnan(left) and math.isnan(right))
        or left == right
        or math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-300)
    )


@given(columns(REALS))
@pytest.mark.deep
@settings(max_examples=examples(200), deadline=None)
def test_sums_of_doubles(column: tuple[Any, Any, Any, Any]) -> None:
    found = range_aggregates.real_sum(column[0].astype(np.float64), *column[1:])
    for value, inside in zip(found, members(column), strict=True):
        if all(math.isfinite(x) for x in inside):
            assert math.isclose(value, math.fsum(inside), rel_tol=1e-9, abs_tol=1e-20)
        else:
            with np.errstate(invalid="ignore"):
                assert same(float(value), float(np.sum(inside)))


WHOLE = st.sampled_from([0, 1, -7, 2**32, -(2**32) + 1, 2**62, -(2**62), 2**63 - 1, -(2**63)])


@given(columns(WHOLE))
@pytest.mark.deep
@settings(max_examples=examples(200), deadline=None)
def test_sums_of_whole_numbers_fit_or_are_refused(column: tuple[Any, Any, Any, Any]) -> None:
    numbers, valid, first, last = column
    sums = [
        sum(int(x) for x, v in zip(numbers[a : b + 1], valid[a : b + 1], strict=True) if v)
        for a, b in zip(first, last, strict=True)
    ]
    assert range_aggregates.large_sum(*column).tolist() == [float(s) for s in sums]
    if all(-(2**63) <= s < 2**63 for s in sums):
        assert range_aggregates.whole_sum(*column).tolist() == sums
    else:
        with pytest.raises(OverflowError):
            range_aggregates.whole_sum(*column)


@given(columns(FINITE))
@pytest.mark.deep
@settings(max_examples=examples(100), deadline=None)
def test_moments(column: tuple[Any, Any, Any, Any]) -> None:
    count, mean, second, _, _ = range_aggregates.moments(column[0].astype(np.float64), *column[1:])
    for n, m, s, inside in zip(count, mean, second, members(column), strict=True):
        assert n == len(inside)
        if inside:
            scale = max(map(abs, inside))
            assert abs(m - statistics.fmean(inside)) <= 1e-9 * max(scale, 1e-300)
            assert abs(s / n - statistics.pvariance(inside)) <= 1e-9 * max(scale * scale, 1e-300)


@given(columns(REALS), st.sampled_from([0.0, 0.5, 0.9, 1.0]))
@pytest.mark.deep
@settings(max_examples=examples(100), deadline=None)
def test_percentiles_and_distinct_values(column: tuple[Any, Any, Any, Any], fraction: float) -> None:
    values, valid, first, last = column
    values = values.astype(np.float64)
    found = range_aggregates.percentile(values, valid, first, last, fraction)
    kinds = range_aggregates.distinct_count(ordered_codes(values), valid, first, last)
    for value, kind, inside in zip(found, kinds, members(column), strict=True):
        assert kind == len({order_key(x) for x in inside})
        if inside and all(math.isfinite(x) for x in inside):
            assert math.isclose(value, float(np.quantile(inside, fraction)), rel_tol=1e-9, abs_tol=1e-9)


@given(columns(REALS), st.booleans())
@pytest.mark.deep
@settings(max_examples=examples(100), deadline=None)
def test_extremes_in_the_order_of_values(column: tuple[Any, Any, Any, Any], greatest: bool) -> None:
    values, _, first, last = column
    codes = ordered_codes(values.astype(np.float64))
    found = range_aggregates.extreme(codes, first, last, greatest)
    pick = max if greatest else min
    for code, a, b in zip(found, first, last, strict=True):
        assert code == pick(codes[a : b + 1])
        requested = pick((float(x) for x in values[a : b + 1]), key=order_key)
        assert code == ordered_codes(np.array([requested], np.float64))[0]


OPERATORS = {"=": "__eq__", "<>": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}
EDGES = st.sampled_from([search.LEAST, search.LEAST + 1, -1, 0, 1, 5, search.GREATEST - 1, search.GREATEST])


@pytest.mark.parametrize("operator", list(OPERATORS))
@given(st.lists(EDGES, min_size=1, max_size=30), st.lists(st.tuples(st.integers(0, 31), EDGES), min_size=1, max_size=8))
@pytest.mark.deep
@settings(max_examples=examples(100), deadline=None)
def test_searches(operator: str, values: list[int], queries: list[tuple[int, int]]) -> None:
    begin, requested = (np.array(x, np.int64) for x in zip(*queries, strict=True))
    found = search.first_compared(operator, np.array(values, np.int64), begin, requested)
    for place, start, bound in zip(found, begin.tolist(), requested.tolist(), strict=True):
        hits = (i for i in range(start, len(values)) if getattr(values[i], OPERATORS[operator])(bound))
        assert min(int(place), len(values)) == next(hits, len(values))


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=30), st.integers(-4, 4), st.integers(0, 29))
@pytest.mark.deep
@settings(max_examples=examples(100), deadline=None)
def test_bounds_of_rising_values(values: list[int], requested: int, begin: int) -> None:
    ordered, start = np.array(sorted(values), np.int64), min(begin, len(values) - 1)
    for beyond in (False, True):
        found = search.lower_bound(
            ordered, np.array([start]), np.array([len(values) - 1]), np.array([requested]), beyond
        )
        hits = (i for i in range(start, len(values)) if (ordered[i] > requested if beyond else ordered[i] >= requested))
        assert int(found[0]) == next(hits, len(values))


WHOLE = st.integers(-(10**28) + 1, 10**28 - 1)


@given(st.lists(st.none() | WHOLE, min_size=1, max_size=30), st.integers(0, 29), st.integers(0, 29))
@pytest.mark.deep
@settings(max_examples=examples(100), deadline=None)
def test_sums_of_decimals_are_exact(given_: list[int | None], one: int, other: int) -> None:
    values = [None if v is None else Decimal(v).scaleb(-3) for v in given_]
    low, high = sorted(min(n, len(values) - 1) for n in (one, other))
    column = pa.array([Decimal(1), *values], pa.decimal128(28, 3)).slice(1)
    valid = np.array([v is not None for v in values])
    found = range_aggregates.decimal_sum(column, valid, np.array([low]), np.array([high]))
    with localcontext() as context:
        context.prec = 60
        assert found.to_pylist() == [sum((v for v in values[low : high + 1] if v is not None), Decimal(0))]
