"""The windows of sorted partitions. Input and output are Arrow tables.

In: a table with rows grouped by partition, each in ORDER BY's order, and a `KernelSpec`: the columns that hold the
atoms of the boundaries, and the output per window. Out: a table with one row per window, in the order of the windows.

`window_tables` is pure: the same rows give the same windows, so a changed partition can be recomputed alone. The
windows' rows are copied only if the query asks for arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from belvedere.kernels import search
from belvedere.kernels.output_columns import WindowWriter
from belvedere.kernels.predicates import Evaluation, Places, comparable, first_pair, holds, leaves
from belvedere.kernels.search import Bools, Ints
from belvedere.kernels.sorted_rows import SortedRows, Windows
from belvedere.plan.operators.window_specs import (
    BoundarySpec,
    CompareSpec,
    ConjunctionSpec,
    KernelSpec,
    Members,
    OperationTerm,
    PrefixTerm,
)

ARRAY_CHUNK = 2_000_000  # maximum number of array members in one batch of the output


class Finder:
    """Finds the windows of `rows` according to a spec."""

    def __init__(self, rows: SortedRows, spec: KernelSpec, skipped: int = 0):
        """Prepare the search. The first `skipped` rows are neighbors only; no window starts in them."""
        self.rows, self.spec, self.skipped = rows, spec, skipped

    def windows(self) -> Windows:
        """Find the windows (rules 4 to 7 and 10)."""
        found = self.labelled() if self.spec.label is not None else self.unlabelled()
        return found.take(found.closed) if self.spec.only else found

    def starts(self) -> Bools:
        if self.spec.start.unbounded:
            mask = np.zeros(self.rows.count, np.bool_)
            mask[self.rows.begins] = True
            return mask
        mask = holds(self.rows, self.spec.start.local)
        mask[: self.skipped] = False
        return mask

    def unlabelled(self) -> Windows:
        mask = self.starts()
        starts = np.flatnonzero(mask).astype(np.int64)
        yes = np.ones(len(starts), np.bool_)
        if self.spec.end is None:
            following = np.append(search.next_true(mask)[1:], self.rows.count)
            ends = np.minimum(following[starts] - 1, self.rows.last[starts])
            return Windows(starts, starts, ends, yes, yes)
        ends, closed = self.ends(Windows(starts, starts, starts, yes, yes))
        found = Windows(starts, starts, ends, yes, closed)
        if not self.spec.tumbling or not len(starts):
            return found
        following_start = np.searchsorted(starts, ends + 1).astype(np.int64)
        return found.take(search.follow(following_start))

    def labelled(self) -> Windows:
        assert self.spec.label is not None
        labels = np.flatnonzero(holds(self.rows, self.spec.label.local)).astype(np.int64)
        yes = np.ones(len(labels), np.bool_)
        first = self.rows.first[labels]
        found = Windows(labels, first, first, yes, yes)
        if not self.spec.start.unbounded:
            starts = self.found(self.spec.start, "start", found, first)
            found.started = starts >= 0
            found.start = np.where(found.started, starts, first)
        found.end, found.closed = self.ends(found)
        return without_overlap(found) if self.spec.tumbling else found

    def ends(self, found: Windows) -> tuple[Ints, Bools]:
        last = self.rows.last[found.start]
        boundary = self.spec.end
        if boundary is None or boundary.unbounded:
            return last, np.ones(len(found), np.bool_)
        ends = self.found(boundary, "end", found, found.start)
        closed = ends >= 0
        return np.where(closed, ends, last), closed

    def found(self, boundary: BoundarySpec, side: str, windows: Windows, begin: Ints) -> Ints:
        """Return the first row of each window from `begin` on that satisfies the boundary; -1 for none."""
        if boundary.scan is not None:
            return first_pair(self.rows, boundary.scan, windows.tuples, side, begin)

        def at(requested: str) -> tuple[Ints, Bools]:
            if requested == side:
                return self.rows.everywhere, np.ones(self.rows.count, np.bool_)
            return windows.tuples(requested)

        result = np.full(len(windows), search.GREATEST, np.int64)
        for conjunction in boundary.search or ():
            place = self.conjunction(conjunction, at, begin)
            result = np.where(place >= 0, np.minimum(result, place), result)
        return np.where(result == search.GREATEST, search.NONE, result)

    def conjunction(self, spec: ConjunctionSpec, at: Places, begin: Ints) -> Ints:
        """Return the first row at or after `begin` that satisfies a whole conjunction; -1 for none."""
        alive = np.ones(len(begin), np.bool_)
        for condition in spec.known:
            alive &= Evaluation(self.rows, condition).truth(at)
        low, high = begin, self.rows.last[begin] if len(begin) else begin
        mask = holds(self.rows, spec.local)
        general: tuple[str, Ints, Ints] | None = None
        for compare in spec.compares:
            codes, valid, requested, known = self.compared(compare, at)
            requested = np.broadcast_to(requested, len(begin))
            alive &= known
            mask = mask & valid
            if compare.direction and compare.operator != "<>":
                low, high = self.narrowed(compare, codes, valid, requested, low, high)
            else:
                general = (compare.operator, codes, requested)
        if general is not None:
            return np.where(alive, first_among(mask, *general, low, high), search.NONE)
        return np.where(alive, search.first_in(mask, np.minimum(low, self.rows.count), high), search.NONE)

    def compared(self, compare: CompareSpec, at: Places) -> tuple[Ints, Bools, Ints, Bools]:
        """Return the searched values of all rows and the requested value of each window, as codes in one order.

        Raises OverflowError if a searched value exceeds 64 bits.
        """
        term = OperationTerm(compare.operator, (compare.searched, compare.known))
        (values, valid), (requested, known) = Evaluation(self.rows, term).sides(term, at)
        if not np.ndim(values):  # a value without rows, such as a field of a number
            values, valid = np.full(self.rows.count, values), np.broadcast_to(valid, self.rows.count)
        differences = any(isinstance(t, PrefixTerm) for t in leaves(compare.searched))
        if values.dtype == object and not differences and not all(-(1 << 63) <= x < 1 << 63 for x in values[valid]):
            raise OverflowError("a sum of whole numbers has more than 64 bits")
        codes = (np.asarray(x, np.int64) for x in comparable(values, requested))
        return next(codes), valid, next(codes), known

    def narrowed(
        self, compare: CompareSpec, codes: Ints, valid: Bools, requested: Ints, low: Ints, high: Ints
    ) -> tuple[Ints, Ints]:
        """Narrow the ranges of rows by a value that increases or decreases with the rows."""
        (part,) = leaves(compare.searched)
        operator = compare.operator
        if compare.direction < 0:
            codes, requested = ~codes, ~requested
            operator = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(operator, operator)
        filler = search.LEAST if compare.nulls_first else search.GREATEST
        edge = {"previous": search.LEAST, "next": search.GREATEST}.get(part.role, filler)
        inside = self.rows.shifted(self.rows.everywhere, part.role)[1]
        codes = np.where(valid, codes, np.where(inside, filler, edge))
        first, last = search.monotone_range(operator, codes, np.minimum(low, high + 1), high, requested)
        return np.maximum(low, first), np.minimum(high, last)


def first_among(mask: Bools, operator: str, codes: Ints, requested: Ints, low: Ints, high: Ints) -> Ints:
    """Return the first row of the mask in [low, high] whose code satisfies the comparison; -1 for none."""
    kept = np.flatnonzero(mask).astype(np.int64)
    if not len(kept):
        return np.full(len(low), search.NONE, np.int64)
    begin = np.searchsorted(kept, low).astype(np.int64)
    found = search.first_compared(operator, codes[kept], begin, requested)
    place = np.append(kept, search.GREATEST)[np.minimum(found, len(kept))]
    return np.where(place <= high, place, search.NONE)


def without_overlap(found: Windows) -> Windows:
    """Return the windows of TUMBLING with LABEL (decision 19).

    In order of (start, label), a window is kept if it starts after the end of the window kept before.
    """
    order = np.lexsort((found.label, found.start))
    kept, last = [], -1
    for place, start, end in zip(order.tolist(), found.start[order].tolist(), found.end[order].tolist(), strict=True):
        if start > last:
            kept.append(place)
            last = end
    return found.take(np.sort(np.array(kept, np.int64)))


def block_windows(
    table: pa.Table, spec: KernelSpec, own: tuple[int, int], before: int, last: bool, skipped: int
) -> pa.Table:
    """Return the windows that start, or have their labels, in rows [own[0], own[1]) of a chunk of one sorted partition.

    `before` rows of the partition precede the chunk, and none follow it if `last`. The first `skipped` rows are
    neighbors only; the search begins after them. Raises `ValueError` if a window may end after the chunk.
    """
    rows = SortedRows(table, (), before)
    found = Finder(rows, replace(spec, only=False), skipped).windows()
    found = found.take((found.label >= own[0]) & (found.label < own[1]))
    if spec.label is not None and spec.only:
        found = found.take(found.closed)  # END is at a known distance, so an open window has none
    if not last and not (found.closed & (found.end < rows.count - 1)).all():
        raise ValueError("a window ends after the last row of its block")
    return written(rows, found.take(found.closed) if spec.only else found, spec)


def window_tables(table: pa.Table, spec: KernelSpec) -> Iterator[pa.Table]:
    """Return the windows of all partitions of a sorted table, in several tables if the windows hold arrays."""
    rows = SortedRows(table, spec.keys)
    found = Finder(rows, spec).windows()
    if not any(isinstance(o, Members) for o in spec.outputs) or not len(found):
        yield written(rows, found, spec)
        return
    members = np.cumsum(found.end - found.start + 3)
    piece = members // ARRAY_CHUNK
    cuts = np.flatnonzero(np.diff(piece)) + 1
    for chosen in np.split(np.arange(len(found)), cuts):
        yield written(rows, found.take(chosen), spec)


def written(rows: SortedRows, found: Windows, spec: KernelSpec) -> pa.Table:
    """Return the output table of some windows."""
    writer = WindowWriter(rows, found)
    columns: dict[str, Any] = {}
    for output in spec.outputs:
        columns.update(writer.write(output))
    return pa.table(columns)
