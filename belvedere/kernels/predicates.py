"""Vectorized evaluation of conditions on tuples, and the search for boundaries of conditions without a known class.

In: `SortedRows`, a `Term`, and the rows of the tuples that it reads. Out: values and a mask of the known ones; the rows
for which a condition is TRUE; the first such tuple per window. The search costs one evaluation per pair, like a scan,
but evaluates thousands of pairs in one step. A window leaves the search after its first match.
"""

from __future__ import annotations

import math
import operator as operators
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from belvedere.kernels import search
from belvedere.kernels.running import Operand, RunningValues
from belvedere.kernels.search import Bools, Ints
from belvedere.kernels.sorted_rows import SortedRows, ordered_codes
from belvedere.plan.operators.window_specs import (
    ColumnTerm,
    ConstantTerm,
    OperationTerm,
    PrefixTerm,
    RunningTerm,
    Term,
)

PAIRS = 1 << 16  # evaluated in one step: small enough for the processor's cache
Places = Callable[[str], tuple[Ints, Bools]]
"""Function from a side to the rows of its tuples and a mask of those that exist."""
EXACT = 1 << 53
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operators.eq, "<>": operators.ne, "<": operators.lt, "<=": operators.le, ">": operators.gt, ">=": operators.ge,
}  # fmt: skip
"""Comparisons of arrays, and of pairs of numbers."""
TEXTS = ("in", "text", "concat")
"""Operators that are computed with Python values."""
STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operators.add, "-": operators.sub, "*": operators.mul, "least": min, "greatest": max,
}  # fmt: skip


def holds(rows: SortedRows, terms: Sequence[Term]) -> Bools:
    """Return a mask of the rows for which all conditions on one tuple and its neighbors are TRUE."""
    everywhere = rows.everywhere, np.ones(rows.count, np.bool_)
    found = everywhere[1].copy()
    for term in terms:
        found &= Evaluation(rows, term).truth(lambda side: everywhere)
    return found


def leaves(term: Term) -> Iterator[ColumnTerm | PrefixTerm | RunningTerm]:
    """Yield the columns, and aggregates of columns, that the term reads."""
    if isinstance(term, OperationTerm):
        for part in term.parts:
            yield from leaves(part)
    elif not isinstance(term, ConstantTerm):
        yield term


def first_pair(rows: SortedRows, term: Term, known: Places, side: str, begin: Ints) -> Ints:
    """Return for each window the first row from `begin` on, in its partition, for which `term` is TRUE; -1 for none.

    `known` returns the tuples of the other sides, one for each window.
    """
    found = np.full(len(begin), search.NONE, np.int64)
    evaluation = Evaluation(rows, term)
    running = RunningValues(rows, (t for t in leaves(term) if isinstance(t, RunningTerm)), len(begin))
    low, high = begin.copy(), rows.last[begin] if len(begin) else begin
    active, width = np.arange(len(begin)), 4
    while len(active):
        width = max(
            1, min(2 * width, PAIRS // len(active))
        )  # most windows are short: search further only for the others
        for some in np.array_split(active, max(1, len(active) // PAIRS)):
            places = low[some, None] + np.arange(width)
            inside = places <= high[some, None]
            flat, windows = np.where(inside, places, high[some, None]).ravel(), np.repeat(some, width)

            def at(requested: str, flat: Ints = flat, windows: Ints = windows) -> tuple[Ints, Bools]:
                if requested == side:
                    return flat, np.ones(len(flat), np.bool_)
                places, there = known(requested)
                return places[windows], there[windows]

            evaluation.running = running.step(some, flat, inside)
            hits = np.broadcast_to(evaluation.truth(at), flat.shape).reshape(len(some), width) & inside
            some_hit = hits.any(axis=1)
            found[some[some_hit]] = low[some[some_hit]] + hits[some_hit].argmax(axis=1)
            low[some] += width
        active = active[(found[active] == search.NONE) & (low[active] <= high[active])]
    return found


class Evaluation:
    """Evaluates a term over the rows of a table. If whole numbers may exceed 64 bits, it uses Python's numbers."""

    def __init__(self, rows: SortedRows, term: Term):
        self.rows, self.term = rows, term
        self.running: Mapping[RunningTerm, Operand] = {}
        """Values of running aggregates for the pairs that are evaluated."""
        self.safe = self.bound(term) < (EXACT if _divides(term) else 1 << 63)

    def truth(self, at: Places) -> Bools:
        """Return a mask of the rows for which the condition is TRUE."""
        value, valid = self.value(self.term, at)
        found: Bools = np.asarray(value & valid, np.bool_)
        return found

    def bound(self, term: Term) -> int:
        """Return an upper limit of the absolute whole numbers in the term (0 for other types)."""
        if isinstance(term, ConstantTerm):
            value = self.constant(term)
            return abs(value) if isinstance(value, int) else 0
        if isinstance(term, PrefixTerm):
            sums = self.rows.prefix(term.column, term.counts)
            return max(abs(int(sums.max())), abs(int(sums.min())))
        if not isinstance(term, OperationTerm):
            if not self.rows.count:
                return 0
            if term.column is None:
                return int(self.rows.count - self.rows.origin.min())
            values = self.rows.values(term.column)[0]
            greatest: int = max(abs(int(values.max())), abs(int(values.min()))) if values.dtype == np.int64 else 0
            return max(greatest, self.bound(term.missing)) if isinstance(term, ColumnTerm) else greatest
        if term.operator in TEXTS:
            return 0
        bounds = [self.bound(p) for p in term.parts]
        if term.operator == "DIV":
            return bounds[0]
        if term.operator == "*":
            return bounds[0] * bounds[1]
        return sum(bounds) if term.operator in ("+", "-") else max(bounds)

    def value(self, term: Term, at: Places) -> Operand:
        """Return values, and a mask of those that are neither NULL nor MISSING."""
        if isinstance(term, ConstantTerm):
            value = self.constant(term)
            return (0 if value is None else value), np.asarray(value is not None)
        if isinstance(term, ColumnTerm):
            return self.read(term, at)
        if isinstance(term, PrefixTerm):
            places, _ = at(term.side)
            return self.rows.prefix(term.column, term.counts)[places + term.through], np.ones(
                np.shape(places), np.bool_
            )
        if isinstance(term, RunningTerm):
            return self.running[term]
        if term.operator in ("and", "or"):
            return self.joined(term, at)
        if term.operator in ("not", "known"):
            value, valid = self.value(term.parts[0], at)
            return (np.logical_not(value), valid) if term.operator == "not" else (valid, np.asarray(True))
        if term.operator == "if":
            (test, known), (one, first), (other, second) = (self.value(p, at) for p in term.parts)
            chosen = test & known
            return np.where(chosen, one, other), np.where(chosen, first, second)
        if term.operator in TEXTS:
            return {"in": self.member, "text": self.text, "concat": self.joined_texts}[term.operator](term, at)
        (left, one), (right, other) = self.sides(term, at)
        valid = one & other
        if not self.safe:
            return self.exactly(term.operator, left, right, valid)
        if term.operator in COMPARISONS:
            return COMPARISONS[term.operator](*comparable(left, right)), valid
        if term.operator in ("least", "greatest"):
            one, other = comparable(left, right)
            first = np.less_equal(one, other) if term.operator == "least" else np.greater_equal(one, other)
            return np.where(first, left, right), valid
        if term.operator in ("DIV", "%"):
            return divided(term.operator, left, right, valid)
        if term.operator == "/":
            nothing = np.equal(right, 0)
            return np.true_divide(left, np.where(nothing, 1, right)), valid & ~nothing
        with np.errstate(all="ignore"):  # infinities and NaN follow IEEE 754
            return {"+": np.add, "-": np.subtract, "*": np.multiply}[term.operator](left, right), valid

    def sides(self, term: OperationTerm, at: Places) -> tuple[Operand, Operand]:
        """Return the values of both sides. Two columns that are not numbers become codes in one order."""
        left, right = term.parts
        if isinstance(left, ColumnTerm) and isinstance(right, ColumnTerm) and left.column and right.column:
            codes = self.rows.joint(left.column, right.column)
            if codes is not None:
                return self.read(left, at, codes[0]), self.read(right, at, codes[1])
        return self.value(left, at), self.value(right, at)

    def read(self, term: ColumnTerm, at: Places, codes: tuple[Any, Bools] | None = None) -> Operand:
        places, there = at(term.side)
        if term.column is None:
            return places - self.rows.origin[places] + 1, there
        moved, inside = self.rows.shifted(places, term.role)
        values, valid = self.rows.values(term.column) if codes is None else codes
        inside, missing = inside & there, self.constant(term.missing)
        if missing is None:
            return values[moved], valid[moved] & inside
        return np.where(inside, values[moved], missing), valid[moved] | ~inside

    def member(self, term: OperationTerm, at: Places) -> Operand:
        """Return whether arrays contain values, pair by pair; unknown if only a NULL member may match."""
        values, arrays = (self.objects(p, at) for p in term.parts)
        found = [_contains(array, value) for value, array in zip(*np.broadcast_arrays(values, arrays), strict=True)]
        known = np.array([x is not None for x in found], np.bool_)
        return np.array([bool(x) for x in found], np.bool_), known

    def text(self, term: OperationTerm, at: Places) -> Operand:
        """Return a column of strings, not their ranks."""
        values = self.objects(term.parts[0], at)
        known = np.array([v is not None for v in values], np.bool_)
        return np.where(known, values, ""), known

    def joined_texts(self, term: OperationTerm, at: Places) -> Operand:
        (left, one), (right, other) = (self.value(p, at) for p in term.parts)
        found = np.array([str(a) + str(b) for a, b in zip(*np.broadcast_arrays(left, right), strict=True)], object)
        return found, one & other

    def objects(self, term: Term, at: Places) -> Any:
        """Return a column's values as Python objects; None for missing ones."""
        if isinstance(term, ConstantTerm):
            return self.rows.objects(term.column or "")[:1]
        assert isinstance(term, ColumnTerm)
        places, there = at(term.side)
        moved, inside = self.rows.shifted(places, term.role)
        values = self.rows.objects(term.column or "")[moved]
        return np.where(inside & there, values, None)

    def constant(self, term: ConstantTerm) -> Any:
        """Return the value of a constant; None if it is unknown."""
        if term.column is None or not self.rows.count:
            return term.value
        values, valid = self.rows.values(term.column)
        return plain(values[0]) if valid[0] else None

    def joined(self, term: OperationTerm, at: Places) -> Operand:
        """Return AND or OR. With an unknown side, the result is known only if the other side determines it."""
        (a, known_a), (b, known_b) = (self.value(p, at) for p in term.parts)
        dominant = term.operator == "or"
        decided = (known_a & (a == dominant)) | (known_b & (b == dominant))
        return np.where(decided, dominant, not dominant), decided | (known_a & known_b)

    @staticmethod
    def exactly(operator: str, left: Any, right: Any, valid: Bools) -> Operand:
        """Apply an operator to one pair after another, with Python's numbers."""
        sides = np.broadcast_arrays(np.asarray(left, object), np.asarray(right, object), np.asarray(valid))
        found = [
            _exact(operator, plain(a), plain(b)) if ok else None
            for a, b, ok in zip(*(s.ravel() for s in sides), strict=True)
        ]
        known = np.array([x is not None for x in found], np.bool_)
        empty: Any = False if operator in COMPARISONS else 0
        values = np.array([empty if x is None else x for x in found], np.bool_ if operator in COMPARISONS else object)
        return values, known


def _contains(array: Any, value: Any) -> bool | None:
    if array is None or value is None:
        return None
    return True if value in array else None if None in array else False


def _exact(operator: str, left: Any, right: Any) -> Any:
    """Apply an operator to two numbers: exactly to whole numbers, as doubles to numbers of two types; None for NULL."""
    if isinstance(left, float) != isinstance(right, float):
        left, right = float(left), float(right)
    if operator in COMPARISONS:  # of pairs: NaN is the greatest
        return COMPARISONS[operator](*((x != x, 0 if x != x else x) for x in (left, right)))
    if operator in STEPS:
        return STEPS[operator](left, right)
    if right == 0:
        return None
    if operator == "/":
        return left / right
    if isinstance(left, float):
        if operator == "%":
            return math.fmod(left, right) if math.isfinite(left) else math.nan
        quotient = left / right
        return math.trunc(quotient) if -(1 << 63) <= quotient < 1 << 63 else None
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient if operator == "DIV" else left - quotient * right


def divided(operator: str, left: Any, right: Any, valid: Bools) -> Operand:
    """Return DIV or %, truncated toward zero; NULL for division by zero and if DIV exceeds 64 bits."""
    left, right = np.asarray(left), np.asarray(right)
    valid = valid & np.not_equal(right, 0)
    by = np.where(np.equal(right, 0), 1, right)
    with np.errstate(all="ignore"):
        if operator == "%":
            return np.fmod(left, by), valid
        if left.dtype.kind != "f" and by.dtype.kind != "f":
            return np.abs(left) // np.abs(by) * np.sign(left) * np.sign(by), valid
        quotient = np.trunc(left / by)
        inside = np.abs(quotient) < float(1 << 63)
        return np.where(inside, quotient, 0).astype(np.int64), valid & inside


def _divides(term: Term) -> bool:
    return isinstance(term, OperationTerm) and (term.operator == "/" or any(_divides(p) for p in term.parts))


def plain(value: Any) -> Any:
    """Return a numpy number as a Python number."""
    return value.item() if isinstance(value, np.generic) else value


def comparable(left: Any, right: Any) -> tuple[Any, Any]:
    """Return both sides as codes in one order: NaN is greatest, -0.0 equals 0.0; numbers above 64 bits become ranks."""
    a, b = np.asarray(left), np.asarray(right)
    kinds = {a.dtype.kind, b.dtype.kind}
    if "O" in kinds:
        codes = np.unique(np.append(a.astype(object), b.astype(object)), return_inverse=True)[1]
        return codes[: a.size].reshape(a.shape), codes[a.size :].reshape(b.shape)
    return (ordered_codes(a.astype(np.float64)), ordered_codes(b.astype(np.float64))) if "f" in kinds else (left, right)
