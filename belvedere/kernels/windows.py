"""The windows of sorted partitions, Arrow in, Arrow out.

In: a table whose rows lie partition by partition, each in ORDER BY's order, and a `KernelSpec`: which columns hold the
atoms of the boundaries, and what to give per window. Out: a table with one row per window, in the order of the windows.
`window_tables` is pure: the same rows give the same windows, so a changed partition can be recomputed alone. The windows' rows are
copied only where the query asks for arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from belvedere.kernels import search
from belvedere.kernels.output import WindowWriter
from belvedere.kernels.pairs import first_pair
from belvedere.kernels.ranges import Bools, Ints
from belvedere.kernels.rows import SortedRows, Windows, bounded_sum, joint_codes, nowhere
from belvedere.kernels.specs import BoundarySpec, CompareSpec, ConjunctionSpec, KernelSpec, Mask, Members, PartSpec

ARRAY_CHUNK = 2_000_000  # members of arrays that one batch of the output holds at most


class Finder:
    """Finds the windows of `rows` by a spec."""

    def __init__(self, rows: SortedRows, spec: KernelSpec, skipped: int = 0):
        """No window starts in the first `skipped` rows: they are there as neighbours."""
        self.rows, self.spec, self.skipped = rows, spec, skipped

    def windows(self) -> Windows:
        """Rules 4 to 7 and 10."""
        found = self.labelled() if self.spec.label is not None else self.unlabelled()
        return found.take(found.closed) if self.spec.only else found

    def starts(self) -> Bools:
        if self.spec.start.unbounded:
            mask = np.zeros(self.rows.count, np.bool_)
            mask[self.rows.begins] = True
            return mask
        mask = self.rows.mask(self.spec.start.local)
        mask[: self.skipped] = False
        return mask

    def unlabelled(self) -> Windows:
        mask = self.starts()
        starts = np.flatnonzero(mask).astype(np.int64)
        if self.spec.end is None:
            following = np.append(search.next_true(mask)[1:], self.rows.count)
            ends = np.minimum(following[starts] - 1, self.rows.last[starts])
            yes = np.ones(len(starts), np.bool_)
            return Windows(starts, starts, ends, yes, yes)
        ends, closed = self.ends(
            Windows(starts, starts, starts, np.ones(len(starts), np.bool_), np.ones(len(starts), np.bool_))
        )
        found = Windows(starts, starts, ends, np.ones(len(starts), np.bool_), closed)
        if not self.spec.tumbling or not len(starts):
            return found
        following_start = np.searchsorted(starts, ends + 1).astype(np.int64)
        return found.take(search.follow(following_start))

    def labelled(self) -> Windows:
        assert self.spec.label is not None
        labels = np.flatnonzero(self.rows.mask(self.spec.label.local)).astype(np.int64)
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
        """The first row of each window from `begin` on that satisfies the boundary; -1 for none."""
        if boundary.scan is None:
            return self.search(boundary.search or (), windows, begin)

        def known(wanted: str, chosen: Ints) -> tuple[Ints, Bools]:
            places = self.places(wanted, windows)[chosen]
            return places, windows.started[chosen] if wanted == "start" else np.ones(len(chosen), np.bool_)

        return first_pair(self.rows, boundary.scan, known, side, begin)

    def search(self, alternatives: Sequence[ConjunctionSpec], found: Windows, begin: Ints) -> Ints:
        """The first row at or after `begin` that satisfies one of the conjunctions; -1 for none."""
        result = np.full(len(found), search.GREATEST, np.int64)
        for conjunction in alternatives:
            place = self.conjunction(conjunction, found, begin)
            result = np.where(place >= 0, np.minimum(result, place), result)
        return np.where(result == search.GREATEST, search.NONE, result)

    def conjunction(self, spec: ConjunctionSpec, found: Windows, begin: Ints) -> Ints:
        alive = np.ones(len(found), np.bool_)
        for side, local in spec.known:
            alive &= self.known_condition(side, local, found)
        low, high = begin, self.rows.last[begin] if len(begin) else begin
        mask = self.rows.mask(spec.local)
        general: tuple[str, Ints, Ints] | None = None
        for compare in spec.compares:
            monotone = compare.direction != 0 and compare.operator != "<>"
            if monotone and len(compare.searched) == 1 and compare.searched[0].role == "position":
                low, high, known = self.position_range(compare, found, begin, low, high)
                alive &= known
                continue
            codes, valid, wanted, known = self.compared(compare, found)
            alive &= known
            mask = mask & valid
            if monotone:
                low, high = self.narrowed(compare, codes, valid, wanted, low, high)
            else:
                general = (compare.operator, codes, wanted)
        if general is not None:
            return np.where(alive, first_among(mask, *general, low, high), search.NONE)
        return np.where(alive, search.first_in(mask, np.minimum(low, self.rows.count), high), search.NONE)

    def position_range(
        self, compare: CompareSpec, found: Windows, begin: Ints, low: Ints, high: Ints
    ) -> tuple[Ints, Ints, Bools]:
        """Rows by position: arithmetic."""
        wanted, known = self.sum_known(compare.known, found)
        part = compare.searched[0]
        place = self.rows.origin[begin] + wanted * part.sign - 1
        operator = compare.operator
        if operator in ("=", ">=", ">"):
            low = np.maximum(low, place + (operator == ">"))
        if operator in ("=", "<=", "<"):
            high = np.minimum(high, place - (operator == "<"))
        return low, high, known

    def narrowed(
        self, compare: CompareSpec, codes: Ints, valid: Bools, wanted: Ints, low: Ints, high: Ints
    ) -> tuple[Ints, Ints]:
        """The range of rows by a value that rises or falls with them."""
        role = compare.searched[0].role
        operator = compare.operator
        if compare.direction < 0:
            codes, wanted = ~codes, ~wanted
            operator = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(operator, operator)
        filler = search.LEAST if compare.nulls_first else search.GREATEST
        edge = {"previous": search.LEAST, "next": search.GREATEST}.get(role, filler)
        inside = self.rows.shifted(self.rows.everywhere, role)[1]
        codes = np.where(valid, codes, np.where(inside, filler, edge))
        first, last = search.monotone_range(operator, codes, np.minimum(low, high + 1), high, wanted)
        return np.maximum(low, first), np.minimum(high, last)

    def known_condition(self, side: str, spec: Mask, found: Windows) -> Bools:
        value = self.rows.truth(spec)[self.places(side, found)]
        return np.where(found.started, value, nowhere(spec)) if side == "start" else value

    def places(self, side: str, found: Windows) -> Ints:
        return {"label": found.label, "start": found.start, "end": found.end}[side]

    def compared(self, compare: CompareSpec, found: Windows) -> tuple[Ints, Bools, Ints, Bools]:
        """The searched values of all rows and the wanted value of each window, as codes in one order."""
        if len(compare.searched) == 1 and len(compare.known) == 1 and not self.rows.is_whole(compare):
            return self.single(compare.searched[0], compare.known[0], found)
        rows, valid = self.rows.sum(compare.searched)
        wanted, known = self.sum_known(compare.known, found)
        return rows, valid, wanted, known

    def single(self, searched: PartSpec, known: PartSpec, found: Windows) -> tuple[Ints, Bools, Ints, Bools]:
        """One value against one value, of any type."""
        column = self.rows.column(str(searched.column))
        if known.side == "":
            other = pa.array([known.constant], None if pa.types.is_floating(column.type) else column.type)
        else:
            other = self.rows.column(str(known.column))
        left, right, valid_left, valid_right = joint_codes(column, other)
        moved, inside = self.rows.shifted(self.rows.everywhere, searched.role)
        rows, valid = left[moved], valid_left[moved] & inside
        if known.side == "":
            everywhere = np.full(len(found), bool(valid_right[0]))
            return rows, valid, np.full(len(found), right[0]), everywhere
        places, there = self.rows.shifted(self.places(known.side, found), known.role)
        if known.side == "start":
            there = there & found.started
        return rows, valid, right[places], valid_right[places] & there

    def sum_known(self, parts: Sequence[PartSpec], found: Windows) -> tuple[Ints, Bools]:
        """The sums of what is known of each window; one of more than 64 bits is as near to it as 64 bits are."""
        summands: list[Any] = []
        valid = np.ones(len(found), np.bool_)
        for part in parts:
            if part.side == "":
                summands.append(np.full(len(found), part.sign * int(part.constant)))
                continue
            places = self.places(part.side, found)
            if part.side == "start":
                valid = valid & found.started
            if part.role == "position":
                summands.append(part.sign * (places - self.rows.origin[places] + 1))
                continue
            values, known = self.rows.values(str(part.column))
            moved, inside = self.rows.shifted(places, part.role)
            summands.append(part.sign * values[moved])
            valid = valid & known[moved] & inside
        return bounded_sum(summands, len(found))[0], valid


def first_among(mask: Bools, operator: str, codes: Ints, wanted: Ints, low: Ints, high: Ints) -> Ints:
    """The first row of the mask in [low, high] whose code compares with the wanted one; -1 for none."""
    kept = np.flatnonzero(mask).astype(np.int64)
    if not len(kept):
        return np.full(len(low), search.NONE, np.int64)
    begin = np.searchsorted(kept, low).astype(np.int64)
    found = search.first_compared(operator, codes[kept], begin, wanted)
    place = np.append(kept, search.GREATEST)[np.minimum(found, len(kept))]
    return np.where(place <= high, place, search.NONE)


def without_overlap(found: Windows) -> Windows:
    """TUMBLING with LABEL (decision 19): by (start, label), those that start after the end of the one kept before."""
    order = np.lexsort((found.label, found.start))
    kept, last = [], -1
    for place, start, end in zip(order.tolist(), found.start[order].tolist(), found.end[order].tolist(), strict=True):
        if start > last:
            kept.append(place)
            last = end
    return found.take(np.sort(np.array(kept, np.int64)))


def block_windows(table: pa.Table, spec: KernelSpec, own: tuple[int, int], before: int, last: bool, skipped: int) -> pa.Table:
    """The windows that start, or have their labels, in rows [own[0], own[1]) of a piece of one sorted partition.

    `before` rows of the partition lie before the piece, and none after it if `last`. The first `skipped` rows are there as neighbours:
    the search begins behind them. Raises `ValueError` where a window may end behind the piece.
    """
    rows = SortedRows(table, (), before)
    found = Finder(rows, replace(spec, only=False), skipped).windows()
    found = found.take((found.label >= own[0]) & (found.label < own[1]))
    if spec.label is not None and spec.only:
        found = found.take(found.closed)  # what ends a window is at a known distance: it is not there
    if not last and not (found.closed & (found.end < rows.count - 1)).all():
        raise ValueError("a window ends behind the rows that its block knows")
    return written(rows, found.take(found.closed) if spec.only else found, spec)


def window_tables(table: pa.Table, spec: KernelSpec) -> Iterator[pa.Table]:
    """The windows of all partitions of a sorted table: keys, position in the partition (from 0), and the outputs.

    In pieces where the windows hold arrays.
    """
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
    """The output table of some windows."""
    writer = WindowWriter(rows, found)
    columns = label_columns(rows, found, spec)
    for output in spec.outputs:
        columns.update(writer.write(output))
    return pa.table(columns)


def label_columns(rows: SortedRows, found: Windows, spec: KernelSpec) -> dict[str, Any]:
    """The partition's keys and the position of label or start, where these are asked for."""
    if not spec.ordered and spec.outputs:
        return {}
    columns: dict[str, Any] = {k: rows.column(k).take(pa.array(found.label)) for k in spec.keys}
    columns[spec.position] = pa.array(found.label - rows.origin[found.label], pa.int64())
    return columns
