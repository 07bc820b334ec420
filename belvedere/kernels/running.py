"""Aggregates over a window's rows up to the searched row, while a search goes on from row to row.

In: `SortedRows`, the aggregates, and in each step consecutive rows of some windows. Out: the values at these rows. Sums
of doubles add one row after another, so a value depends on the window's own rows alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from belvedere.kernels.search import GREATEST, LEAST, Bools, Ints
from belvedere.kernels.sorted_rows import SortedRows
from belvedere.plan.operators.window_specs import RunningTerm

Operand = tuple[Any, Bools]
"""Values, and a mask of those that are neither NULL nor MISSING."""


class RunningValues:
    """The state of the aggregates of each window."""

    def __init__(self, rows: SortedRows, terms: Iterable[RunningTerm], windows: int):
        """Begin before the first row of each window."""
        self.rows = rows
        self.totals = {t: np.full(windows, _empty(t, rows)) for t in terms}
        self.seen = {t: np.zeros(windows, np.bool_) for t in self.totals}

    def step(self, some: Ints, places: Ints, inside: Bools) -> dict[RunningTerm, Operand]:
        """Go on by as many rows as `inside` has columns, for `some` windows. `inside` masks rows of the partition."""
        return {term: self._step(term, some, places.reshape(inside.shape), inside) for term in self.totals}

    def _step(self, term: RunningTerm, some: Ints, places: Ints, inside: Bools) -> Operand:
        values, valid = self.rows.values(term.column)
        known = valid[places] & inside
        found = np.where(known, values[places], _empty(term, self.rows))
        combine = _combine(term, values.dtype)
        found[:, 0] = combine(self.totals[term][some], found[:, 0])
        found = combine.accumulate(found, axis=1)
        seen = np.logical_or.accumulate(known, axis=1) | self.seen[term][some, None]
        self.totals[term][some], self.seen[term][some] = found[:, -1], seen[:, -1]
        return found.ravel(), seen.ravel()


def _combine(term: RunningTerm, type_: Any) -> Any:
    """Return the operation of an aggregate. NaN is greater than all other numbers."""
    if term.function == "SUM":
        return np.add
    if term.function == "MAX":
        return np.maximum
    return np.fmin if type_ == np.float64 else np.minimum


def _empty(term: RunningTerm, rows: SortedRows) -> Any:
    """Return the value that changes no other."""
    whole = rows.values(term.column)[0].dtype != np.float64
    if term.function == "SUM":
        return 0.0
    if term.function == "MAX":
        return LEAST if whole else -np.inf
    return GREATEST if whole else np.nan
