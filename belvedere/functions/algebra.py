"""Incremental maintenance of aggregates over append-only input: what a group stores, and how new rows are merged into
it.

In: nothing. Out: an `Algebra` for rows of the function table. Counts, sums and averages have none: their stored form
depends on the types of their values, and they support retractions (`rules/merge/accumulate.py`).

Source: mergeable variance after Chan, Golub and LeVeque, 'Updating formulae and a pairwise algorithm', 1979.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from belvedere.schema import PACKED


@dataclass(frozen=True)
class Algebra:
    """Stored parts of a group's aggregate, as Spark SQL.

    `parts` are the stored columns. `add` are aggregates over the values `x` of a delta, one for each part. `merge` has
    an expression for each part over `old.<part>` and `new.<part>`. `result` computes the aggregate from the parts.
    `moment` is the statistic that kernels compute over ranges of rows.
    """

    parts: tuple[tuple[str, pa.DataType | None], ...]
    """Names and types of the stored columns; None is the type of the aggregate."""
    add: tuple[str, ...]
    merge: tuple[str, ...]
    result: str
    of_reals: bool = False
    """Whether `x` is first cast to DOUBLE."""
    moment: str = ""

    @property
    def is_of_numbers(self) -> bool:
        """Return whether its parts are numbers; if so, it does not apply to intervals."""
        return any(type_ is not None for _, type_ in self.parts)


def extreme(function: str, choice: str) -> Algebra:
    """Return the algebra of MIN or MAX: `least` and `greatest` skip NULLs, and NaN is the greatest value."""
    return Algebra((("m", None),), (f"{function}(x)",), (f"{choice}(old.m, new.m)",), "m")


def spread(moment: str, result: str) -> Algebra:
    """Return the algebra of a variance or standard deviation: count, mean, and sum of squared deviations from
    the mean."""
    count = "(coalesce(old.n, 0) + coalesce(new.n, 0))"
    apart = "(coalesce(new.mu, 0) - coalesce(old.mu, 0))"
    mean = f"CASE WHEN {count} = 0 THEN 0 ELSE coalesce(old.mu, 0) + {apart} * coalesce(new.n, 0) / {count} END"
    square = (
        f"CASE WHEN {count} = 0 THEN 0 ELSE coalesce(old.m2, 0) + coalesce(new.m2, 0)"
        f" + {apart} * {apart} * coalesce(old.n, 0) * coalesce(new.n, 0) / {count} END"
    )
    parts = (("n", pa.int64()), ("mu", pa.float64()), ("m2", pa.float64()))
    add = ("count(x)", "coalesce(avg(x), 0)", "coalesce(var_pop(x) * count(x), 0)")
    return Algebra(parts, add, (count, mean, square), result, of_reals=True, moment=moment)


def packed_median() -> Algebra:
    """Return an algebra that packs all values of a group into one. So a group is one row of state, whatever its number
    of values."""
    lower, upper = (
        "element_at(_s, CAST((size(_s) + 1) DIV 2 AS INT))",
        "element_at(_s, CAST(size(_s) DIV 2 + 1 AS INT))",
    )
    middle = f"CASE WHEN {lower} = {upper} THEN {lower} ELSE 0.5D * {lower} + 0.5D * {upper} END"
    result = f"CASE WHEN size(v) > 0 THEN element_at(transform(array(array_sort(v)), _s -> {middle}), 1) END"
    merge = "concat(coalesce(old.v, array()), coalesce(new.v, array()))"
    return Algebra((("v", PACKED),), ("collect_list(CAST(x AS DOUBLE))",), (merge,), result)


MIN, MAX = extreme("min", "least"), extreme("max", "greatest")
MEDIAN = packed_median()
VAR_SAMP = spread("VAR_SAMP", "CASE WHEN n > 1 THEN m2 / (n - 1) END")
VAR_POP = spread("VAR_POP", "CASE WHEN n > 0 THEN m2 / n END")
STDDEV_SAMP = spread("STDDEV_SAMP", "CASE WHEN n > 1 THEN sqrt(m2 / (n - 1)) END")
STDDEV_POP = spread("STDDEV_POP", "CASE WHEN n > 0 THEN sqrt(m2 / n) END")
