"""How an aggregate follows rows that only arrive: what is stored of some rows, and how more of them are taken in.

In: nothing. Out: an `Algebra` for rows of the function table. Counts, sums and averages have none: how they are stored depends on the types
of their values, and they follow retractions (`rules/merge/accumulate.py`).

Source: mergeable variance after Chan, Golub and LeVeque, 'Updating formulae and a pairwise algorithm', 1979.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from belvedere.schema import PACKED


@dataclass(frozen=True)
class Algebra:
    """The stored parts of a group's rows (`parts`), as Spark SQL.

    `add` are aggregates over the values `x` of a delta, one for each part; `merge` has an expression for each part over
    `old.<part>` and `new.<part>`; `result` is the aggregate over the parts. `moment` is the statistic that kernels
    compute over ranges of rows.
    """

    parts: tuple[tuple[str, pa.DataType | None], ...]
    """Names and types; None is the type of the aggregate."""
    add: tuple[str, ...]
    merge: tuple[str, ...]
    result: str
    of_reals: bool = False
    """Whether `x` is taken as a DOUBLE first."""
    moment: str = ""

    @property
    def is_of_numbers(self) -> bool:
        """Whether its parts are numbers, so that intervals have none."""
        return any(type_ is not None for _, type_ in self.parts)


def extreme(function: str, choice: str) -> Algebra:
    """MIN or MAX: `least` and `greatest` skip NULLs, and take NaN for the greatest."""
    return Algebra((("m", None),), (f"{function}(x)",), (f"{choice}(old.m, new.m)",), "m")


def spread(moment: str, result: str) -> Algebra:
    """A variance or standard deviation: how many numbers, their mean, the sum of the squares of their distances from it."""
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
    """All values of a group packed into one, so that a group is one row of state however many values it has."""
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
