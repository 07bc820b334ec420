"""The sorted rows of partitions as numpy arrays.

In: an Arrow table with its rows grouped by partition. Out: `SortedRows` with the bounds of partitions, and the columns
as numbers with masks of the valid ones; `Windows` for the windows found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.kernels import range_aggregates
from belvedere.kernels.search import Bools, Ints

SHIFTS = {"item": 0, "previous": -1, "next": 1, "position": 0}


@dataclass
class Windows:
    """The windows found: rows of label, start and end, and masks of the windows whose START and END were found."""

    label: Ints
    start: Ints
    end: Ints
    started: Bools
    closed: Bools

    def take(self, chosen: Any) -> Windows:
        return Windows(
            self.label[chosen], self.start[chosen], self.end[chosen], self.started[chosen], self.closed[chosen]
        )

    def tuples(self, side: str) -> tuple[Ints, Bools]:
        """Return the rows of a boundary, and a mask of the windows in which it was found."""
        places = {"label": self.label, "start": self.start, "end": self.end}[side]
        there = {"start": self.started, "end": self.closed}.get(side)
        return places, np.ones(len(self), np.bool_) if there is None else there

    def __len__(self) -> int:
        return len(self.label)


class SortedRows:
    """The sorted rows: partitions, and columns as numpy arrays."""

    def __init__(self, table: pa.Table, keys: Sequence[str], before: int = 0):
        """Read a sorted table. `before` is the number of rows of its single partition before the table's first row."""
        self.table = table.combine_chunks()
        self.count = table.num_rows
        begins = group_begins(self.table, keys)
        ends = np.append(begins[1:], self.count) - 1
        sizes = ends - begins + 1
        self.begins = begins
        self.first = np.repeat(begins, sizes) if len(begins) else np.zeros(0, np.int64)
        self.last = np.repeat(ends, sizes) if len(begins) else np.zeros(0, np.int64)
        self.origin = self.first - before  # where position 1 is, or would be
        self._objects: dict[str, Any] = {}
        self._prefixes: dict[tuple[str, bool], Any] = {}
        self._cache: dict[str, tuple[Any, Bools]] = {}
        self._joint: dict[tuple[str, str], tuple[tuple[Ints, Bools], tuple[Ints, Bools]]] = {}

    def column(self, name: str) -> pa.Array:
        return self.table[name].combine_chunks()

    def booleans(self, name: str) -> Bools:
        """Return a mask of the rows with TRUE; NULL counts as FALSE."""
        values, valid = self.values(name)
        return np.asarray(values & valid, np.bool_)

    def values(self, name: str) -> tuple[Any, Bools]:
        """Return numbers as int64 or float64 with a mask of the valid ones. Other types become ranks in the table."""
        if name not in self._cache:
            self._cache[name] = numeric(self.column(name))
        return self._cache[name]

    def objects(self, name: str) -> Any:
        """Return values as Python objects; arrays become tuples."""
        if name not in self._objects:
            found = np.empty(self.count, object)
            for place, value in enumerate(self.column(name).to_pylist()):
                found[place] = tuple(value) if isinstance(value, list) else value
            self._objects[name] = found
        return self._objects[name]

    def shifted(self, places: Ints, role: str) -> tuple[Ints, Bools]:
        """Return the neighbors' rows, and a mask of those in the same partition."""
        shift = SHIFTS[role]
        moved = places + shift
        inside = (moved >= self.first[places]) & (moved <= self.last[places])
        return np.where(inside, moved, places), inside

    def prefix(self, column: str, counts: bool) -> Any:
        """Return the sum of a column's whole numbers, or the number of its valid values, in the first 0, 1, ... rows.

        Sums that may exceed 64 bits are Python's numbers.
        """
        if (column, counts) not in self._prefixes:
            values, valid = self.values(column)
            kept = valid.astype(np.int64) if counts else np.where(valid, values, 0)
            sums = range_aggregates.prefix(kept.astype(object) if range_aggregates.may_overflow(kept) else kept)
            self._prefixes[column, counts] = sums
        return self._prefixes[column, counts]

    @cached_property
    def everywhere(self) -> Ints:
        return np.arange(self.count, dtype=np.int64)

    def joint(self, left: str, right: str) -> tuple[tuple[Any, Bools], tuple[Any, Bools]] | None:
        """Return two columns as codes in one order with masks of the valid rows; None if their values need no codes."""
        types = [self.table.schema.field(n).type for n in (left, right)]
        if all(pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_boolean(t) for t in types):
            return None
        if left == right:
            return self.values(left), self.values(left)
        if (left, right) not in self._joint:
            self._joint[left, right] = joint_codes(self.column(left), self.column(right))
        return self._joint[left, right]


def group_begins(table: pa.Table, keys: Sequence[str]) -> Ints:
    """Return the first row of each run of equal keys."""
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
    """Return a column as int64, float64, booleans or ranks of its values, and a mask of the valid rows."""
    valid = np.asarray(pc.is_valid(column).to_numpy(zero_copy_only=False), np.bool_)
    if pa.types.is_boolean(column.type):
        return np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False), np.bool_), valid
    if pa.types.is_floating(column.type):
        return np.asarray(pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False), np.float64), valid
    if pa.types.is_integer(column.type):
        return np.asarray(pc.fill_null(column, 0).to_numpy(zero_copy_only=False), np.int64), valid
    return ranks(column), valid


def ranks(column: pa.Array) -> Ints:
    """Return for each value its rank among the sorted distinct values; 0 for NULL."""
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64)
    if pa.types.is_nested(column.type):
        keys = [_order_key(v) for v in column.to_pylist()]
        places = {k: n for n, k in enumerate(sorted(set(keys)))}
        return np.array([places[k] for k in keys], np.int64)
    encoded = column.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    indices = pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)
    return place[indices] if len(place) else np.zeros(len(column), np.int64)


def _order_key(value: Any) -> tuple[Any, ...]:
    """Return a sort key for values of one type: NULL first, NaN last; arrays and objects compare member by member."""
    if value is None:
        return (0,)
    if isinstance(value, list | dict):
        return (1, *map(_order_key, value if isinstance(value, list) else value.values()))
    return (1, value != value, 0 if value != value else value)


def ordered_codes(values: Any) -> Ints:
    """Return numbers as int64 codes in the same order: -0.0 equals 0.0, and NaN is one greatest value."""
    if values.dtype != np.float64:
        return np.asarray(values, np.int64)
    bits = np.where(np.isnan(values), np.nan, values + 0.0).view(np.int64)
    codes = np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)
    return np.where(np.isnan(values), np.int64(0x7FF8000000000000), codes)


def joint_codes(left: pa.Array, right: pa.Array) -> tuple[tuple[Ints, Bools], tuple[Ints, Bools]]:
    """Return two columns of one type as codes in one order, with masks of the valid rows."""
    both = pa.concat_arrays([left, right])
    codes, valid = ranks(both), np.asarray(pc.is_valid(both).to_numpy(zero_copy_only=False), np.bool_)
    cut = len(left)
    return (codes[:cut], valid[:cut]), (codes[cut:], valid[cut:])
