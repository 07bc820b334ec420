"""The sorted rows of partitions as numpy arrays, and conditions on single tuples.

In: an Arrow table whose rows lie partition by partition. Out: `SortedRows`: where partitions begin and end, columns as numbers with where
they are valid, the rows for which a condition on a tuple and its neighbours is TRUE; `Windows`: the windows found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.kernels.ranges import Bools, Ints
from belvedere.kernels.specs import CompareSpec, Junction, LocalSpec, Mask, PartSpec

LEAST, GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
SHIFTS = {"item": 0, "previous": -1, "next": 1, "position": 0}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": np.equal, "<>": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip


@dataclass
class Windows:
    """The windows found: rows of label, start and end, and whether START and END were found."""

    label: Ints
    start: Ints
    end: Ints
    started: Bools
    closed: Bools

    def take(self, chosen: Any) -> Windows:
        return Windows(self.label[chosen], self.start[chosen], self.end[chosen], self.started[chosen], self.closed[chosen])

    def __len__(self) -> int:
        return len(self.label)


class SortedRows:
    """The sorted rows: partitions, and columns as numpy arrays."""

    def __init__(self, table: pa.Table, keys: Sequence[str], before: int = 0):
        """`before`: how many rows of the (one) partition lie before the table's first."""
        self.table = table.combine_chunks()
        self.count = table.num_rows
        begins = group_begins(self.table, keys)
        ends = np.append(begins[1:], self.count) - 1
        sizes = ends - begins + 1
        self.begins = begins
        self.first = np.repeat(begins, sizes) if len(begins) else np.zeros(0, np.int64)
        self.last = np.repeat(ends, sizes) if len(begins) else np.zeros(0, np.int64)
        self.origin = self.first - before  # where position 1 is, or would be
        self._cache: dict[str, tuple[Any, Bools]] = {}

    def column(self, name: str) -> pa.Array:
        column = self.table[name]
        return (
            column.chunk(0)
            if column.num_chunks == 1
            else pa.concat_arrays(column.chunks)
            if column.num_chunks
            else pa.array([], column.type)
        )

    def booleans(self, name: str) -> Bools:
        """TRUE; NULL is not."""
        return np.asarray(pc.fill_null(self.column(name), False).to_numpy(zero_copy_only=False), np.bool_)

    def values(self, name: str) -> tuple[Any, Bools]:
        """Numbers as int64 or float64 and where they are valid; other types as ranks within the table."""
        if name not in self._cache:
            self._cache[name] = numeric(self.column(name))
        return self._cache[name]

    def shifted(self, places: Ints, role: str) -> tuple[Ints, Bools]:
        """The neighbours' rows, and whether they are in the partition."""
        shift = SHIFTS[role]
        moved = places + shift
        inside = (moved >= self.first[places]) & (moved <= self.last[places])
        return np.where(inside, moved, places), inside

    @cached_property
    def everywhere(self) -> Ints:
        return np.arange(self.count, dtype=np.int64)

    def mask(self, specs: Sequence[Mask]) -> Bools:
        """The rows for which all conditions are TRUE."""
        found: Bools = np.ones(self.count, np.bool_)
        for spec in specs:
            found &= self.truth(spec)
        return found

    def truth(self, spec: Mask) -> Bools:
        """The rows for which the condition is TRUE."""
        if isinstance(spec, Junction):
            parts = [self.truth(p) for p in spec.parts]
            joined: Bools = np.logical_and.reduce(parts) if spec.every else np.logical_or.reduce(parts)
            return joined
        if isinstance(spec, CompareSpec):
            return self.compared(spec)
        column = self.booleans(spec.column)
        if SHIFTS[spec.role]:
            places, inside = self.shifted(self.everywhere, spec.role)
            column = np.where(inside, column[places], spec.edge)
        return column

    def compared(self, spec: CompareSpec) -> Bools:
        """A comparison of a tuple with its neighbours, its position or constants."""
        if self.is_whole(spec):
            left, valid_left = self.sum(spec.searched)
            right, valid_right = self.sum(spec.known)
        else:
            (a, b) = (self.column(str(p[0].column)) for p in (spec.searched, spec.known))
            left, right, valid_left, valid_right = joint_codes(a, b)
            (left, valid_left), (right, valid_right) = (
                self.moved(codes, valid, part[0].role)
                for codes, valid, part in ((left, valid_left, spec.searched), (right, valid_right, spec.known))
            )
        found: Bools = COMPARISONS[spec.operator](left, right)
        return found & valid_left & valid_right

    def moved(self, values: Ints, valid: Bools, role: str) -> tuple[Ints, Bools]:
        places, inside = self.shifted(self.everywhere, role)
        return values[places], valid[places] & inside

    def sum(self, parts: Sequence[PartSpec]) -> tuple[Ints, Bools]:
        """The sum of whole numbers at every row. Raises OverflowError where one does not fit 64 bits."""
        summands: list[Ints] = []
        valid = np.ones(self.count, np.bool_)
        for part in parts:
            if part.side == "":
                summands.append(np.full(self.count, part.sign * int(part.constant)))
            elif part.role == "position":
                summands.append(part.sign * (self.everywhere - self.origin + 1))
            else:
                values, known = self.moved(*self.values(str(part.column)), part.role)
                summands.append(part.sign * values)
                valid = valid & known
        total, fits = bounded_sum(summands, self.count)
        if not (fits | ~valid).all():
            raise OverflowError("a sum of whole numbers has more than 64 bits")
        return total, valid

    def is_whole(self, compare: CompareSpec) -> bool:
        """Whether all its summands are whole numbers."""
        parts = compare.searched + compare.known
        return all(
            isinstance(p.constant, int) and not isinstance(p.constant, bool)
            if p.side == ""
            else p.column is None or pa.types.is_integer(self.table.schema.field(p.column).type)
            for p in parts
        )


def bounded_sum(summands: Sequence[Ints], size: int) -> tuple[Ints, Bools]:
    """The sum of each row's summands, or the number of 64 bits that is nearest to it; and whether it is the sum."""
    total, fits = np.zeros(size, np.int64), np.ones(size, np.bool_)
    for values in summands:
        total = total + values
    if len(summands) > 1 and size and sum(max(int(v.max()), -int(v.min())) for v in summands) >= 1 << 63:
        exact = np.sum([v.astype(object) for v in summands], axis=0)
        total = np.array([min(max(x, LEAST), GREATEST) for x in exact], np.int64)
        fits = np.array(total == exact, np.bool_)
    return total, fits


def nowhere(spec: Mask) -> bool:
    """The condition's truth where the tuple is MISSING."""
    if isinstance(spec, Junction):
        parts = [nowhere(p) for p in spec.parts]
        return all(parts) if spec.every else any(parts)
    return isinstance(spec, LocalSpec) and spec.missing


def group_begins(table: pa.Table, keys: Sequence[str]) -> Ints:
    """The first row of each run of equal keys."""
    if table.num_rows == 0:
        return np.zeros(0, np.int64)
    changed = np.zeros(table.num_rows, np.bool_)
    changed[0] = True
    for key in keys:
        column = table[key].combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0)
        before, after = column.slice(0, len(column) - 1), column.slice(1)
        differs = pc.fill_null(pc.not_equal(before, after), False).to_numpy(zero_copy_only=False)
        blank = pc.is_null(column).to_numpy(zero_copy_only=False)
        changed[1:] |= differs | (blank[1:] != blank[:-1])
        if pa.types.is_floating(column.type):
            unordered = pc.fill_null(pc.is_nan(column), False).to_numpy(zero_copy_only=False)
            changed[1:] &= ~(unordered[1:] & unordered[:-1])
    return np.flatnonzero(changed).astype(np.int64)


def numeric(column: pa.Array) -> tuple[Any, Bools]:
    """A column as int64 or float64 (or ranks of its values), booleans as they are, and where it is valid."""
    valid = np.asarray(pc.is_valid(column).to_numpy(zero_copy_only=False), np.bool_)
    if pa.types.is_boolean(column.type):
        return np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False), np.bool_), valid
    if pa.types.is_floating(column.type):
        return np.asarray(pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False), np.float64), valid
    if pa.types.is_integer(column.type):
        return np.asarray(pc.fill_null(column, 0).to_numpy(zero_copy_only=False), np.int64), valid
    return ranks(column), valid


def ranks(column: pa.Array) -> Ints:
    """For each value its place among the distinct values in order; 0 for NULL."""
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64)
    encoded = column.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    indices = pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)
    return place[indices] if len(place) else np.zeros(len(column), np.int64)


def ordered_codes(values: Any) -> Ints:
    """Numbers as int64 in the same order: doubles by their bits, -0.0 as 0.0, NaN as one greatest value."""
    if values.dtype != np.float64:
        return np.asarray(values, np.int64)
    bits = np.where(np.isnan(values), np.nan, values + 0.0).view(np.int64)
    codes = np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)
    return np.where(np.isnan(values), np.int64(0x7FF8000000000000), codes)


def joint_codes(left: pa.Array, right: pa.Array) -> tuple[Ints, Ints, Bools, Bools]:
    """Two columns as codes in one order, and where they are valid."""
    if pa.types.is_floating(left.type) or pa.types.is_floating(right.type):
        (a, valid_a), (b, valid_b) = (numeric(c.cast(pa.float64())) for c in (left, right))
        return ordered_codes(a), ordered_codes(b), valid_a, valid_b
    if left.type != right.type:
        right = right.cast(left.type)
    both = pa.concat_arrays([left, right])
    codes = ranks(both)
    valid = np.asarray(pc.is_valid(both).to_numpy(zero_copy_only=False), np.bool_)
    cut = len(left)
    return codes[:cut], codes[cut:], valid[:cut], valid[cut:]
