"""Merges: many small runs become few large ones, without dead rows.

In: the runs of an arrangement. Out: the runs to merge, and the runs that replace them.

* Small runs have geometric levels: `WIDTH` runs of one level become one of the next, up to the bytes of a run.
* Large runs are cut. When the runs of a range of the first hash have more than `FULL` of the bytes of `WIDTH` runs,
  they become the `WIDTH` parts of that range, a run each. So a range has few runs for any number of rows, and
  each cut writes a row once more. All hashes are the first range. A range has a depth: the number of leading bits
  that its hashes share.
* A run with at least half of its rows dead is rewritten by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from belvedere.state.dead_rows import Positions
from belvedere.state.sorted_run import ANYWHERE, LEAST, Run, make_run, order_of

WIDTH = 8
MIN_ROWS = 4_096
"""Maximum number of rows of a run of the lowest level."""
FULL = 0.75
"""Share of the bytes of `WIDTH` runs above which a range is cut."""
LIGHT = 0.25
"""Share of a run's bytes below which a part of a range stays in the range, together with other such parts."""
HEAVY = 1.5
"""Size, in bytes of runs, above which a part of a range is cut again."""
BITS = 64
Part: TypeAlias = tuple[int, slice]
"""Number of a run in a merge, and a slice of the positions taken from it."""


@dataclass(frozen=True)
class MergePiece:
    """Rows of a range of this depth that become one run."""

    depth: int
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class MergedRun:
    """The run made from a piece, and for each of the piece's rows, in the order of its parts, its position in
    the run."""

    run: Run
    piece: MergePiece
    places: Positions


@dataclass(frozen=True)
class Merge:
    """A merge of some runs of one range, with the positions of the rows that were live when it was decided.

    They become one run, or with `cut_at` (the bytes of a run) one for each part of their range.
    """

    runs: tuple[Run, ...]
    taken: tuple[Positions, ...]
    cut_at: int | None = None

    def pieces(self) -> list[MergePiece]:
        """Return the planned new runs."""
        if self.cut_at is None:
            depth = min(r.depth for r in self.runs)
            return [MergePiece(depth, tuple((n, slice(0, len(p))) for n, p in enumerate(self.taken)))]
        return list(_Cuts(self, self.cut_at).of(*range_of(self.runs[0])))

    def make(self, piece: MergePiece) -> MergedRun:
        """Return the run of a piece, in memory."""
        rows = pa.concat_batches([self.runs[n].take(self.taken[n][part]) for n, part in piece.parts])
        arranged = self.runs[0].arranged
        order = order_of(rows, arranged)
        places = np.arange(len(rows))
        if order is not None:
            places[order.positions] = np.arange(len(rows))
        run = make_run(rows, arranged, order)
        run.depth = piece.depth
        return MergedRun(run, piece, places)

    def carry_over(self, merged: MergedRun) -> None:
        """Mark the rows in the new run that have died since."""
        dead = [_dead(self.runs[n], self.taken[n][part]) for n, part in merged.piece.parts]
        gone = merged.places[np.flatnonzero(np.concatenate(dead))]
        if len(gone):
            merged.run.carried = merged.run.kill(gone)


def _dead(run: Run, positions: Positions) -> np.ndarray:
    return np.zeros(len(positions), np.bool_) if run.dead is None else run.dead.at(positions)


class _Cuts:
    """The cuts of a merge's rows into ranges of the first hash."""

    def __init__(self, merge: Merge, limit: int):
        self.taken, self.limit = merge.taken, limit
        name = merge.runs[0].arranged.hashed
        assert name is not None
        self.values = [r.index(name).values for r in merge.runs]
        self.row_bytes = [r.bytes / max(1, len(r)) for r in merge.runs]

    def of(self, depth: int, low: int) -> Iterator[MergePiece]:
        """Yield the pieces of a range."""
        bits = min(WIDTH.bit_length() - 1, BITS - depth)
        light: list[Part] = []
        width = 1 << (BITS - depth - bits)
        for start in range(low, low + (width << bits), width):
            parts = self._parts(start, start + width - 1)
            size = self._bytes(parts)
            if size < LIGHT * self.limit:
                light += parts
            elif self._is_one(parts):
                yield from (MergePiece(BITS, some) for some in self._by_bytes(parts))
            elif size <= HEAVY * self.limit:
                yield MergePiece(depth + bits, tuple(parts))
            else:
                yield from self.of(depth + bits, start)
        yield from (MergePiece(depth, some) for some in self._by_bytes(light))

    def _parts(self, low: int, high: int) -> list[Part]:
        found = []
        for n, (values, taken) in enumerate(zip(self.values, self.taken, strict=True)):
            ends = values.searchsorted(low), values.searchsorted(high, "right")
            first, last = taken.searchsorted(ends).tolist()
            if last > first:
                found.append((n, slice(first, last)))
        return found

    def _bytes(self, parts: Sequence[Part]) -> float:
        return sum(((p.stop - p.start) * self.row_bytes[n] for n, p in parts), 0.0)

    def _is_one(self, parts: Sequence[Part]) -> bool:
        """Return whether all rows have the same hash."""
        ends = [self.values[n][self.taken[n][[p.start, p.stop - 1]]] for n, p in parts]
        return bool(min(low for low, _ in ends) == max(high for _, high in ends))

    def _by_bytes(self, parts: Sequence[Part]) -> Iterator[tuple[Part, ...]]:
        """Yield the parts, cut where a run has enough bytes."""
        chosen: list[Part] = []
        for n, part in parts:
            rows = max(1, int(self.limit / self.row_bytes[n]))
            for begin in range(part.start, part.stop, rows):
                some = (n, slice(begin, min(begin + rows, part.stop)))
                if chosen and self._bytes([*chosen, some]) > self.limit:
                    yield tuple(chosen)
                    chosen = []
                chosen.append(some)
        if chosen:
            yield tuple(chosen)


def decided(runs: Sequence[Run], cut_at: int | None = None) -> Merge:
    """Return the merge of these runs as they are now."""
    return Merge(tuple(runs), tuple(r.all_living() for r in runs), cut_at)


def together(runs: Sequence[Run]) -> Run:
    """Return one run of all live rows of some runs. A single run without dead rows is returned unchanged."""
    if len(runs) == 1 and runs[0].dead is None:
        return runs[0]
    merge = decided(runs)
    return merge.make(merge.pieces()[0]).run


def level(run: Run) -> int:
    """Return the level of a run by its number of live rows."""
    return max(0, int(math.log(max(1, run.alive) / MIN_ROWS) / math.log(WIDTH)) + 1) if run.alive > MIN_ROWS else 0


def range_of(run: Run) -> tuple[int, int]:
    """Return the depth and the least hash of the range of a run."""
    if not run.depth:
        return 0, LEAST
    least = run.fences[run.arranged.hashed or ""][0]
    shift = BITS - run.depth
    return run.depth, ((least - LEAST) >> shift << shift) + LEAST


def living_bytes(run: Run) -> int:
    """Return the bytes of its live rows."""
    return run.bytes * run.alive // max(1, len(run))


def to_merge(runs: Sequence[Run], limit: int) -> tuple[tuple[Run, ...], bool]:
    """Return the runs to merge, empty if none need it, and whether to cut them. `limit` is the bytes of a run."""
    for run in runs:
        if 0 < run.alive <= run.size // 2:
            return (run,), False
    ranges: dict[tuple[int, int], list[Run]] = {}
    for run in runs:
        if run.alive:
            ranges.setdefault(range_of(run), []).append(run)
    for found in ranges.values():
        if len(found) > 1 and (chosen := _of_one_level(found, limit)):
            return chosen, False
    for (depth, _), found in sorted(ranges.items(), key=lambda item: item[0]):
        if depth < BITS and sum(map(living_bytes, found)) > FULL * WIDTH * limit and _can_be_cut(found):
            return tuple(found), True
    return (), False


def _can_be_cut(runs: Sequence[Run]) -> bool:
    name = runs[0].arranged.hashed
    return name is not None and all(r.fences.get(name, ANYWHERE) != ANYWHERE for r in runs)


def _of_one_level(runs: Sequence[Run], limit: int) -> tuple[Run, ...]:
    levels: dict[int, list[Run]] = {}
    for run in runs:
        levels.setdefault(level(run), []).append(run)
    for _, found in sorted(levels.items()):
        chosen: list[Run] = []
        size = 0
        for run in found:
            size += living_bytes(run)
            if size > limit and chosen:
                break
            chosen.append(run)
        if len(chosen) >= WIDTH or (len(chosen) > 1 and size > limit):
            return tuple(chosen)
    return ()
