"""Windows that do not end in their block, as other blocks are told of them.

In: the block's rows and the starts of such windows. Out: `Pending`: of all starts that END cannot tell apart one, with its neighbours. And
rows in which another block's END can be looked for with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.spark.window_by.ranges import Bools, Ints
from belvedere.spark.window_by.rows import Rows
from belvedere.spark.window_by.specs import (
    BoundarySpec,
    CompareSpec,
    Junction,
    KernelSpec,
    LocalSpec,
    Mask,
    PartSpec,
    Read,
    Term,
)

Reading = tuple[str, str, str | None]  # side, role, column; None = the position


@dataclass(frozen=True)
class Pending:
    """For each window three rows, of the columns that END reads: the one before the start, the start, the one behind it. `places` are
    the starts' in the sequence, from 0; `before` and `behind` tell whether there are such rows."""

    rows: pa.Table
    places: Ints
    before: Bools
    behind: Bools

    def __len__(self) -> int:
        return len(self.places)


def readings(boundary: BoundarySpec) -> set[Reading]:
    """What the search for a boundary reads."""
    found: set[Reading] = set()
    for conjunction in boundary.search or ():
        masks: list[Mask] = [*conjunction.local, *(m for _, m in conjunction.known)]
        parts: list[PartSpec] = [p for c in conjunction.compares for p in (*c.searched, *c.known)]
        for mask in masks:
            found |= set(_read_by(mask, ""))
        for side, mask in conjunction.known:
            found |= {(side, role, column) for _, role, column in _read_by(mask, side)}
        found |= {(p.side, p.role, p.column) for p in parts if p.side}
    if boundary.scan is not None:
        found |= set(_terms(boundary.scan))
    return found


def _read_by(mask: Mask, side: str) -> Iterator[Reading]:
    if isinstance(mask, LocalSpec):
        yield side, mask.role, mask.column
    elif isinstance(mask, Junction):
        for part in mask.parts:
            yield from _read_by(part, side)
    elif isinstance(mask, CompareSpec):
        yield from ((side, p.role, p.column) for p in (*mask.searched, *mask.known) if p.side)


def _terms(term: Term) -> Iterator[Reading]:
    if isinstance(term, Read):
        yield term.side, term.role, term.column
    for part in getattr(term, "parts", ()):
        yield from _terms(part)


def pending_of(rows: Rows, before: int, starts: Ints, spec: KernelSpec) -> tuple[Pending, Ints]:
    """The pending windows of these starts, and which of them stands for each start."""
    assert spec.end is not None
    read = readings(spec.end)
    number, first = _alike(rows, starts, sorted({(r, c or "") for side, r, c in read if side == "start"}))
    chosen = starts[first]
    columns = sorted({c for _, _, c in read if c is not None})
    (left, has_left), (right, has_right) = (rows.shifted(chosen, role) for role in ("previous", "next"))
    places = np.stack([left, chosen, right], axis=1).ravel()
    table = rows.table.select(columns).take(pa.array(places))
    return Pending(table, chosen + before, has_left, has_right), number


def _alike(rows: Rows, starts: Ints, read: Sequence[tuple[str, str]]) -> tuple[Ints, Ints]:
    """For each start the number of its kind (starts with the same values), in the order of the kinds' first starts; and these."""
    codes = np.zeros(len(starts), np.int64)
    for role, name in read:
        if role == "position":
            return np.arange(len(starts)), np.arange(len(starts))
        places, inside = rows.shifted(starts, role)
        values = rows.column(name).take(pa.array(places)).dictionary_encode(null_encoding="encode")
        own = np.where(inside, pc.fill_null(values.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64) + 2, 0)
        codes = np.unique(codes * (int(own.max(initial=0)) + 1) + own, return_inverse=True)[1].astype(np.int64)
    _, first, number = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank[number], first[order]


def rows_with(pending: Pending, piece: Rows, before: int) -> tuple[Rows, Ints, int]:
    """The rows of a piece behind those of pending windows, the windows' starts in them, and where the piece begins."""
    count = len(pending)
    offset = 3 * count
    own = piece.table.select(pending.rows.column_names)
    rows = Rows(pa.concat_tables([pending.rows.cast(own.schema), own]), (), before) if own.num_columns else _bare(offset, piece)
    starts = 3 * np.arange(count, dtype=np.int64) + 1
    place = np.arange(offset, dtype=np.int64)
    edge = np.full(piece.count, offset, np.int64)
    rows.first = np.concatenate([place, edge])
    rows.last = np.concatenate([place, edge + piece.count - 1])
    rows.origin = np.concatenate([place, edge - before])
    rows.first[starts] -= pending.before
    rows.last[starts] += pending.behind
    rows.origin[starts] -= pending.places
    return rows, starts, offset


def _bare(offset: int, piece: Rows) -> Rows:
    """Rows of which only the number matters."""
    return Rows(pa.table({"": pa.nulls(offset + piece.count, pa.bool_())}), ())
