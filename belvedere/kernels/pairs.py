"""Conditions on pairs of tuples, many pairs at once: the search for boundaries of no known class.

In: `SortedRows`, a `Term`, and for each window its known tuples and where the search begins. Out: the first tuple for which the term is
TRUE.
Costs one evaluation per pair, like a plain scan, but thousands of pairs in one step; a window leaves the search with its first hit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from belvedere.kernels import search
from belvedere.kernels.ranges import Bools, Ints
from belvedere.kernels.rows import COMPARISONS, SortedRows, ordered_codes
from belvedere.kernels.specs import ColumnTerm, ConstantTerm, OperationTerm, Term
from belvedere.kernels.values import arithmetic, compare

PAIRS = 1 << 16  # evaluated in one step: small enough for the processor's cache
Places = Callable[[str], tuple[Ints, Bools]]
Operand = tuple[Any, Bools]
EXACT = 1 << 53


def first_pair(rows: SortedRows, term: Term, known: Callable[[str, Ints], tuple[Ints, Bools]], side: str, begin: Ints) -> Ints:
    """For each window the first row from `begin` on, in its partition, for which `term` is TRUE; -1 for none.

    `known` gives the rows of another side for chosen windows, and whether they are there.
    """
    found = np.full(len(begin), search.NONE, np.int64)
    evaluation = Evaluation(rows, term)
    low, high = begin.copy(), rows.last[begin] if len(begin) else begin
    active, width = np.arange(len(begin)), 4
    while len(active):
        width = max(1, min(2 * width, PAIRS // len(active)))  # most windows are short: look far only for those that are not
        for some in np.array_split(active, max(1, len(active) // PAIRS)):
            places = low[some, None] + np.arange(width)
            inside = places <= high[some, None]
            flat, windows = np.where(inside, places, high[some, None]).ravel(), np.repeat(some, width)

            def at(wanted: str, flat: Ints = flat, windows: Ints = windows) -> tuple[Ints, Bools]:
                return (flat, np.ones(len(flat), np.bool_)) if wanted == side else known(wanted, windows)

            hits = np.broadcast_to(evaluation.truth(at), flat.shape).reshape(len(some), width) & inside
            some_hit = hits.any(axis=1)
            found[some[some_hit]] = low[some[some_hit]] + hits[some_hit].argmax(axis=1)
            low[some] += width
        active = active[(found[active] == search.NONE) & (low[active] <= high[active])]
    return found


class Evaluation:
    """A term over a table's rows: whether its whole numbers may leave 64 bits decides how it is computed."""

    def __init__(self, rows: SortedRows, term: Term):
        self.rows, self.term = rows, term
        self.safe = self.bound(term) < EXACT

    def truth(self, at: Places) -> Bools:
        """Where the condition is TRUE."""
        value, valid = self.value(self.term, at)
        found: Bools = np.asarray(value & valid, np.bool_)
        return found

    def bound(self, term: Term) -> int:
        """No whole number in the term is greater (0 for others)."""
        if isinstance(term, ConstantTerm):
            return abs(term.value) if isinstance(term.value, int) else 0
        if isinstance(term, ColumnTerm):
            if not self.rows.count:
                return 0
            if term.column is None:
                return int(self.rows.count - self.rows.origin.min())
            values = self.rows.values(term.column)[0]
            greatest: int = max(abs(int(values.max())), abs(int(values.min()))) if values.dtype == np.int64 else 0
            return greatest
        bounds = [self.bound(p) for p in term.parts]
        if term.operator == "*":
            return bounds[0] * bounds[1]
        return sum(bounds) if term.operator in ("+", "-") else max(bounds)

    def value(self, term: Term, at: Places) -> Operand:
        """Values and where they are neither NULL nor MISSING."""
        if isinstance(term, ConstantTerm):
            return term.value, np.ones((), np.bool_)
        if isinstance(term, ColumnTerm):
            return self.read(term, at)
        if term.operator in ("and", "or"):
            return self.joined(term, at)
        parts = [self.value(p, at) for p in term.parts]
        if term.operator == "not":
            return np.logical_not(parts[0][0]), parts[0][1]
        valid = parts[0][1] & parts[1][1]
        left, right = parts[0][0], parts[1][0]
        if not self.safe:
            return self.exactly(term.operator, left, right, valid)
        if term.operator in COMPARISONS:
            return COMPARISONS[term.operator](*comparable(left, right)), valid
        if term.operator == "/":
            nothing = np.equal(right, 0)
            return np.true_divide(left, np.where(nothing, 1, right)), valid & ~nothing
        with np.errstate(all="ignore"):  # infinities and NaN come out as IEEE 754 says
            return {"+": np.add, "-": np.subtract, "*": np.multiply}[term.operator](left, right), valid

    def read(self, term: ColumnTerm, at: Places) -> Operand:
        places, there = at(term.side)
        if term.column is None:
            return places - self.rows.origin[places] + 1, there
        moved, inside = self.rows.shifted(places, term.role)
        values, valid = self.rows.values(term.column)
        return values[moved], valid[moved] & inside & there

    def joined(self, term: OperationTerm, at: Places) -> Operand:
        """AND and OR with an unknown side: FALSE or TRUE where the other side decides."""
        (a, known_a), (b, known_b) = (self.value(p, at) for p in term.parts)
        dominant = term.operator == "or"
        decided = (known_a & (a == dominant)) | (known_b & (b == dominant))
        return np.where(decided, dominant, not dominant), decided | (known_a & known_b)

    @staticmethod
    def exactly(operator: str, left: Any, right: Any, valid: Bools) -> Operand:
        """One pair after the other, with Python's numbers."""
        function = compare if operator in COMPARISONS else arithmetic
        sides = np.broadcast_arrays(np.asarray(left, object), np.asarray(right, object), np.asarray(valid))
        found = [
            function(operator, plain(a), plain(b)) if ok else None for a, b, ok in zip(*(s.ravel() for s in sides), strict=True)
        ]
        known = np.array([x is not None for x in found], np.bool_)
        empty: Any = False if operator in COMPARISONS else 0
        values = np.array([empty if x is None else x for x in found], np.bool_ if operator in COMPARISONS else object)
        return values, known


def plain(value: Any) -> Any:
    """A number as Python's."""
    return value.item() if isinstance(value, np.generic) else value


def comparable(left: Any, right: Any) -> tuple[Any, Any]:
    """Both as codes in one order: NaN is the greatest, -0.0 is 0.0."""
    kinds = {np.asarray(x).dtype.kind for x in (left, right)}
    if "f" not in kinds:
        return left, right
    return tuple(ordered_codes(np.asarray(x, np.float64)) for x in (left, right))  # type: ignore[return-value]
