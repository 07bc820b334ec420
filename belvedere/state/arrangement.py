"""An arrangement: one relation's rows, found by key, by access path, by range; changed epoch by epoch.

In: rows with `_key` and hashes. Out: the rows that are found, and what changed. New rows are runs of their own in memory until the epoch is
written; rows that go are marked. `commit` and `rollback` belong to the `State` that it is of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.errors import BelvedereError, fail
from belvedere.schema import KEY
from belvedere.state.hashing import Numbers, distinct, numbers, text_hashes
from belvedere.state.row_differences import differing
from belvedere.state.sorted_run import LEAST, TAKE, Arranged, Positions, Run, make_run, span_name
from belvedere.values.pieces import in_pieces

Keys: TypeAlias = pa.Array | pa.RecordBatchReader | None
"""Which rows: an array of keys, a stream of batches whose first column holds them, or None for all."""
Found: TypeAlias = list[tuple[Run, Positions]]
Weighted: TypeAlias = tuple[pa.RecordBatch, int]


class KeyTexts:
    """`_key`s to look up, by their hashes, each once and in order; of each the place of its first text in `order`, and how many it has."""

    def __init__(self, array: pa.Array):
        hashes = text_hashes(array)
        self.array = array
        self.order = np.argsort(hashes, kind="stable")
        self.hashes, self.first, self.count = np.unique(hashes[self.order], return_index=True, return_counts=True)

    @property
    def are_distinct(self) -> bool:
        """Whether no text comes twice."""
        return len(self.hashes) == len(self.array) or bool(pc.count_distinct(self.array).as_py() == len(self.array))


class Arrangement:
    """One relation in an epoch. Every call sees what the calls before it have changed."""

    def __init__(self, arranged: Arranged, spill: Callable[[Run], Run], run_bytes: int, runs: Iterable[Run] = ()):
        """`spill` writes a new run, where it is large, so that it leaves the memory; no new run has more than `run_bytes`."""
        self.arranged, self.spill, self.run_bytes = arranged, spill, run_bytes
        self.runs = list(runs)
        self.new: list[Run] = []
        self.killed: list[tuple[Run, Positions]] = []
        self.asked = self.found = 0
        """Since the start: keys and ranges that were looked up, and rows that were found."""

    @property
    def count(self) -> int:
        """How many rows there are now."""
        return sum(r.alive for r in self._all)

    @property
    def _all(self) -> tuple[Run, ...]:
        return (*self.runs, *self.new)

    # --- look-ups

    def look_up(self, by: str | None, keys: Keys) -> Iterator[pa.RecordBatch]:
        """The rows whose `by` (a path or `_key`) is among `keys`; all for None."""
        yield from self._rows(self._find(by, keys))

    def look_up_before(self, by: str, keys: Keys) -> Iterator[pa.RecordBatch]:
        """The rows as they were before this epoch whose path `by` is among `keys`."""
        requested, found = _distinct(keys), []
        for run in self.runs if len(requested) else ():
            positions = run.index(by).at(run.index(by).of_keys(requested)[0])
            if run.dead is not None:
                died = [p for r, p in self.killed if r is run] or [np.zeros(0, np.int64)]
                positions = positions[~run.dead[positions] | np.isin(positions, np.concatenate(died))]
            found.append((run, positions))
        yield from self._rows(self._counted(len(requested), found))

    def look_up_range(self, column: str, above: int | None, up_to: int | None) -> Iterator[pa.RecordBatch]:
        """The rows with `above < column <= up_to` (as numbers); None = unbounded on that side. NULLs never match."""
        found = []
        for run in self._all:
            index = run.index(column)
            first = 0 if above is None else int(np.searchsorted(index.values, above, "right"))
            last = len(index.values) if up_to is None else int(np.searchsorted(index.values, up_to, "right"))
            found.append((run, run.living(index.at(np.arange(first, max(first, last))))))
        yield from self._rows(self._counted(1, found))

    def least(self, column: str) -> int | None:
        """The least number of a row in a range column, as the last epoch has left them; None where there is none but NULL."""
        return min((n for run in self._all if (n := _least_living(run, column)) is not None), default=None)

    def look_up_span(self, by: str, key: int, column: str, low: int | None, high: int | None) -> Iterator[pa.RecordBatch]:
        """The rows whose path `by` is `key` with `low <= column <= high`; None = unbounded, below with the NULLs."""
        found = []
        for run in self._all:
            positions, values = self._span(run, by, key, column)
            first = 0 if low is None else int(np.searchsorted(values, low, "left"))
            last = len(values) if high is None else int(np.searchsorted(values, high, "right"))
            found.append((run, run.living(positions[first : max(first, last)])))
        yield from self._rows(self._counted(1, found))

    def place(self, by: str, key: int, column: str, value: int, count: int, after: bool) -> int | None:
        """The number in `column` of the row `count` rows before (`after`: behind) all with `value`; None where there are not so many."""
        near = [np.zeros(0, np.int64)]
        for run in self._all:
            positions, values = self._span(run, by, key, column)
            edge = int(np.searchsorted(values, value, "right" if after else "left"))
            near.append(_nearest(run, positions, values, edge, count, after))
        found = np.sort(np.concatenate(near))
        if len(found) < count:
            return None
        return int(found[count - 1] if after else found[-count])

    @staticmethod
    def _span(run: Run, by: str, key: int, column: str) -> tuple[Positions, Numbers]:
        """The positions and numbers of one key's rows in the order of a column; a NULL is the least number."""
        index = run.index(span_name(by, column))
        first, last = (int(np.searchsorted(index.values, key, side)) for side in ("left", "right"))
        assert index.seconds is not None
        assert index.positions is not None
        return index.positions[first:last].astype(np.int64), index.seconds[first:last]

    def _find(self, by: str | None, keys: Keys) -> Found:
        if by is None or keys is None:
            return self._counted(0, [(r, r.all_living()) for r in self._all])
        if by != KEY:
            requested = _distinct(keys)
            runs = self._all if len(requested) else ()
            return self._counted(
                len(requested), [(r, r.living(r.index(by).at(r.index(by).of_keys(requested)[0]))) for r in runs]
            )
        found: dict[int, list[Positions]] = {}
        asked = 0
        for texts in map(pc.unique, _arrays(keys)):
            asked += len(texts)
            for n, (_, positions, _) in enumerate(self._of_texts(self._all, KeyTexts(texts))):
                found.setdefault(n, []).append(positions)
        return self._counted(asked, [(self._all[n], distinct(np.concatenate(parts))) for n, parts in found.items()])

    def _counted(self, asked: int, found: Found) -> Found:
        self.asked += asked
        self.found += sum(len(positions) for _, positions in found)
        return found

    @staticmethod
    def _of_texts(runs: Sequence[Run], texts: KeyTexts) -> Iterator[tuple[Run, Positions, Positions]]:
        """For each run the positions of the rows that have these `_key`s, and which of the texts each has."""
        for run in runs:
            index = run.index(KEY)
            places, which = index.of_keys(texts.hashes)
            # texts of one hash are compared each
            size = texts.count[which]
            positions = np.repeat(index.at(places), size)
            starts = np.repeat(texts.first[which] - (np.cumsum(size) - size), size) + np.arange(len(positions))
            asked = texts.order[starts]
            alive = np.ones(len(positions), np.bool_) if run.dead is None else ~run.dead[positions]
            positions, asked = positions[alive], asked[alive]
            if len(positions):
                same = pc.equal(run.rows.column(KEY).take(pa.array(positions)), texts.array.take(pa.array(asked)))
                mask = same.to_numpy(zero_copy_only=False)
                positions, asked = positions[mask], asked[mask]
            yield run, positions, asked

    def _rows(self, found: Found) -> Iterator[pa.RecordBatch]:
        for run, positions in found:
            yield from run.taken(positions)

    # --- changes

    def append(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Put in rows whose `_key`s are new."""
        for piece in pieces(batches, self.arranged.schema, self.run_bytes):
            self.new.append(self.spill(make_run(piece, self.arranged)))

    def replace(self, by: str | None, keys: Keys, batches: Iterable[pa.RecordBatch]) -> Iterator[Weighted]:
        """Make the rows of `batches` the only ones whose `by` is among `keys` (all for None), and give what differs, with weights.

        An old row comes as it was stored, with -1, and the new with +1; rows that stay as they are, or differ in silent columns alone, do
        not come. Raises B7010 where two of the new rows have one key.
        """
        asked = self._find(by, keys)
        before, met = self._all, {id(r): [np.zeros(0, np.int64)] for r in self._all}
        for piece in pieces(batches, self.arranged.schema, self.run_bytes):
            texts = KeyTexts(piece.column(KEY))
            new = self._of_texts(self._all[len(before) :], texts)
            if not texts.are_distinct or any(len(positions) for _, positions, _ in new):
                raise self._same_key()
            stays = np.zeros(len(piece), np.bool_)
            known = np.zeros(len(piece), np.bool_)
            for run, positions, which in self._of_texts(before, texts):
                met[id(run)].append(positions)
                known[which] = True
                same, changes = self._difference(run, positions, piece, which)
                stays[which[same]] = True
                yield from changes
            came = np.flatnonzero(~stays)
            if len(came):
                self.new.append(self.spill(make_run(piece.take(pa.array(came)), self.arranged)))
            if not known.all():
                yield piece.filter(pa.array(~known)), 1
        for run, positions in asked:
            gone = np.setdiff1d(positions, np.concatenate(met[id(run)]), assume_unique=True)
            yield from ((b, -1) for b in run.taken(gone))
            self._kill(run, gone)

    def _difference(
        self, run: Run, positions: Positions, piece: pa.RecordBatch, which: Positions
    ) -> tuple[np.ndarray, list[Weighted]]:
        """Which of the rows at the positions equal the new ones beside them, and the others as changes; these are marked."""
        same = np.ones(len(positions), np.bool_)
        changes: list[Weighted] = []
        names = [n for n in self.arranged.schema.names if n != KEY]
        for begin in range(0, len(positions), TAKE):
            part = slice(begin, begin + TAKE)
            old, new = run.take(positions[part]), piece.take(pa.array(which[part]))
            differ = differing(old, new, names)
            same[part] = ~differ
            if self.arranged.internal and differ.any():
                differ = differing(old, new, [n for n in names if n not in self.arranged.internal])
            if differ.any():
                mask = pa.array(differ)
                changes += [(old.filter(mask), -1), (new.filter(mask), 1)]
        self._kill(run, positions[~same])
        return same, changes

    def overwrite(self, by: str | None, keys: Keys, batches: Iterable[pa.RecordBatch]) -> None:
        """Make the rows of `batches` the only ones whose `by` is among `keys` (all for None); what differs nobody asks."""
        for run, positions in self._find(by, keys):
            self._kill(run, positions)
        self.append(batches)

    def delete_up_to(self, column: str, last: int) -> int:
        """Take out the rows whose number in a range column is at most this; how many they were."""
        gone = 0
        for run in self._all:
            positions = run.up_to(column, last)
            self._kill(run, positions)
            gone += len(positions)
        return gone

    def _kill(self, run: Run, positions: Positions) -> None:
        if len(positions):
            self.killed.append((run, run.kill(positions)))

    def _same_key(self) -> BelvedereError:
        return fail("B7010", f'two rows for the stored relation "{self.arranged.name}" have the same key')

    # --- the end of an epoch

    def undo(self) -> None:
        """Forget what the epoch has changed."""
        for run, positions in self.killed:
            run.revive(positions)
        self.new, self.killed = [], []


def _least_living(run: Run, column: str) -> int | None:
    index = run.index(column)
    first = int(np.searchsorted(index.values, LEAST, "right"))
    while first < len(index.values):
        places = np.arange(first, min(first + TAKE, len(index.values)))
        alive = np.ones(len(places), np.bool_) if run.dead is None else ~run.dead[index.at(places)]
        if alive.any():
            return int(index.values[places[int(np.argmax(alive))]])
        first += TAKE
    return None


def _nearest(run: Run, positions: Positions, values: Numbers, edge: int, count: int, after: bool) -> Numbers:
    """The `count` numbers of living rows nearest to an edge, on one side of it; fewer where there are not so many."""
    width = count
    while True:
        part = slice(edge, edge + width) if after else slice(max(0, edge - width), edge)
        counts = values[part] != LEAST
        if run.dead is not None:
            counts &= ~run.dead[positions[part]]
        found: Numbers = values[part][counts]
        if len(found) >= count or (part.stop >= len(values) if after else part.start == 0):
            return found[:count] if after else found[-count:]
        width *= 4


def pieces(batches: Iterable[pa.RecordBatch], schema: pa.Schema, run_bytes: int) -> Iterator[pa.RecordBatch]:
    """The rows in a relation's columns and types, in batches of the bytes of a run."""
    for piece in in_pieces((b.select(schema.names).cast(schema) for b in batches), run_bytes, schema):
        yield from piece.combine_chunks().to_batches()


def _arrays(keys: pa.Array | pa.RecordBatchReader) -> Iterator[pa.Array]:
    """The keys, an array at a time."""
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    arrays = (b.column(0) for b in keys) if isinstance(keys, pa.RecordBatchReader) else (keys,)
    yield from (a for a in arrays if len(a))


def _distinct(keys: pa.Array | pa.RecordBatchReader) -> Numbers:
    """Hashes, sorted and distinct."""
    parts = [numbers(a) for a in _arrays(keys)]
    return distinct(np.concatenate(parts)) if parts else np.zeros(0, np.int64)
