"""An arrangement: one relation's rows, looked up by key, access path or range, and changed epoch by epoch.

In: rows with `_key` and hashes. Out: the rows found, and the changes. New rows are separate runs in memory until the
epoch is written; deleted rows are marked. The `State` of an arrangement calls its `commit` and `rollback`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.errors import BelvedereError, fail
from belvedere.schema import KEY
from belvedere.state.dead_rows import Positions
from belvedere.state.found_keys import Held, Matched, found_keys
from belvedere.state.gathered_rows import gathered
from belvedere.state.hashing import Numbers, distinct, numbers
from belvedere.state.key_texts import KeyTexts, in_groups
from belvedere.state.row_differences import differing
from belvedere.state.run_fences import RunFences
from belvedere.state.sorted_run import LEAST, NONE, TAKE, Arranged, Run, make_run, span_name
from belvedere.values.pieces import in_pieces

Keys: TypeAlias = pa.Array | pa.RecordBatchReader | None
"""The rows to look up: an array of keys, a stream of batches whose first column holds them, or None for all."""
Found: TypeAlias = list[tuple[Run, Positions]]
Weighted: TypeAlias = tuple[pa.RecordBatch, int]


class Arrangement:
    """One relation in an epoch. Every call sees the changes of the calls before it."""

    def __init__(self, arranged: Arranged, spill: Callable[[Run], Run], run_bytes: int, runs: Iterable[Run] = ()):
        """`spill` writes a large new run to a file to free memory. No new run has more than `run_bytes`."""
        self.arranged, self.spill, self.run_bytes = arranged, spill, run_bytes
        self.runs: Sequence[Run] = tuple(runs)
        """Runs of earlier epochs. A change replaces the sequence."""
        self.new: list[Run] = []
        self.killed: list[tuple[Run, Positions]] = []
        self.filed = 0
        """Number of `killed` marks that are also in files, for tasks to read."""
        self.has_died_apart = False
        """Whether tasks have marked rows in this epoch."""
        self._fences: dict[str, RunFences] = {}
        self.asked = self.found = 0
        """Since the start: number of keys and ranges looked up, and number of rows found."""
        self.jobs = 0
        """Since the start: number of look-ups and changes by tasks in other processes."""

    @property
    def count(self) -> int:
        """Return the present number of rows."""
        return sum(r.alive for r in self.all_runs)

    @property
    def is_changed(self) -> bool:
        """Whether this epoch has changed it."""
        return bool(self.new or self.killed or self.has_died_apart)

    @property
    def all_runs(self) -> tuple[Run, ...]:
        """Return the runs of earlier epochs, then the runs of this one."""
        return (*self.runs, *self.new)

    def _fences_of(self, name: str) -> RunFences:
        """Return the fences of the runs of earlier epochs."""
        found = self._fences.get(name)
        if found is None or found.runs is not self.runs:
            found = self._fences[name] = RunFences(self.runs, name, found)
        return found

    def _holding(self, name: str, keys: Numbers, new: Sequence[Run]) -> Iterator[Held]:
        """Yield the runs that can have rows with these numbers (sorted), each with its part of them; those of `new`
        with all of them."""
        yield from self._fences_of(name).holding(keys)
        yield from _with_all(new, keys)

    def _between(self, name: str, low: int | None, high: int | None) -> list[Run]:
        """Return the runs that can have rows with `low <= number <= high` in an index."""
        return [*self._fences_of(name).between(low, high), *self.new]

    # --- look-ups

    def look_up(self, by: str | None, keys: Keys) -> Iterator[pa.RecordBatch]:
        """Yield the rows whose `by` (a path or `_key`) is among `keys`; all for None."""
        yield from self._rows(self._find(by, keys))

    def look_up_before(self, by: str, keys: Keys) -> Iterator[pa.RecordBatch]:
        """Yield the rows as they were before this epoch, whose path `by` is among `keys`."""
        requested, found = _distinct(keys), []
        killed = by_run(self.killed)
        for run, positions, _ in found_keys(self._fences_of(by).holding(requested), by, requested):
            died = np.concatenate([NONE, *killed.get(id(run), ())])
            alive = (
                True
                if run.dead is None
                else ~run.dead.at(positions) | np.isin(positions, died) | run.died_at(positions)
            )
            found.append((run, positions[alive] if run.dead is not None else positions))
        yield from self._rows(self._counted(len(requested), found))

    def look_up_range(self, column: str, above: int | None, up_to: int | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows with `above < column <= up_to` (as numbers); None = unbounded on that side.

        NULLs never match.
        """
        places = self._places(column, above, up_to)
        found = [(run, run.living(run.index(column).at(np.arange(first, last)))) for run, first, last in places]
        yield from self._rows(self._counted(1, found))

    def count_range(self, column: str, above: int | None, up_to: int | None) -> int:
        """Return the number of these rows, with those that are dead."""
        return sum(last - first for _, first, last in self._places(column, above, up_to))

    def _places(self, column: str, above: int | None, up_to: int | None) -> Iterator[tuple[Run, int, int]]:
        """Yield the places in each run's index with a number in a range."""
        for run in self._between(column, above, up_to):
            values = run.index(column).values
            first = 0 if above is None else int(np.searchsorted(values, above, "right"))
            last = len(values) if up_to is None else int(np.searchsorted(values, up_to, "right"))
            if first < last:
                yield run, first, last

    def least(self, column: str) -> int | None:
        """Return the least number of a row in a range column, as of the last epoch.

        Return None if there are no rows, or only NULLs.
        """
        found = [n for run in self.new if (n := _least_living(run, column)) is not None]
        for run, least in self._fences_of(column).in_order():
            if found and min(found) <= least:
                break
            if (n := _least_living(run, column)) is not None:
                found.append(n)
        return min(found, default=None)

    def look_up_span(
        self, by: str, key: int, column: str, low: int | None, high: int | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows whose path `by` is `key` with `low <= column <= high`.

        None = unbounded; a lower bound of None includes NULLs.
        """
        found = []
        for run in self._between(by, key, key):
            positions, values = self._span(run, by, key, column)
            first = 0 if low is None else int(np.searchsorted(values, low, "left"))
            last = len(values) if high is None else int(np.searchsorted(values, high, "right"))
            found.append((run, run.living(positions[first : max(first, last)])))
        yield from self._rows(self._counted(1, found))

    def place(self, by: str, key: int, column: str, value: int, count: int, after: bool) -> int | None:
        """Return the number in `column` of the row `count` rows before (`after`: after) all rows with `value`, or None
        if there are fewer rows."""
        near = [NONE]
        for run in self._between(by, key, key):
            positions, values = self._span(run, by, key, column)
            edge = int(np.searchsorted(values, value, "right" if after else "left"))
            near.append(_nearest(run, positions, values, edge, count, after))
        found = np.sort(np.concatenate(near))
        if len(found) < count:
            return None
        return int(found[count - 1] if after else found[-count])

    @staticmethod
    def _span(run: Run, by: str, key: int, column: str) -> tuple[Positions, Numbers]:
        """Return the positions and numbers of one key's rows in the order of a column. A NULL is the least number."""
        index = run.index(span_name(by, column))
        first, last = (int(np.searchsorted(index.values, key, side)) for side in ("left", "right"))
        assert index.seconds is not None
        assert index.positions is not None
        return index.positions[first:last].astype(np.int64), index.seconds[first:last]

    def _find(self, by: str | None, keys: Keys) -> Found:
        if by is None or keys is None:
            return self._counted(0, [(r, r.all_living()) for r in self.all_runs])
        if by != KEY:
            requested = _distinct(keys)
            return self._counted(len(requested), list(self._of_numbers(by, requested)))
        found: dict[int, tuple[Run, list[Positions]]] = {}
        asked = 0
        for texts in map(pc.unique, _arrays(keys)):
            asked += len(texts)
            asked_for = KeyTexts(texts)
            for run, positions, _ in asked_for.rows_in(self._holding(KEY, asked_for.hashes, self.new)):
                found.setdefault(id(run), (run, []))[1].append(positions)
        return self._counted(asked, [(run, distinct(np.concatenate(parts))) for run, parts in found.values()])

    def _of_numbers(self, by: str, requested: Numbers) -> Iterator[tuple[Run, Positions]]:
        held = self._holding(by, requested, self.new) if len(requested) else ()
        for run, positions, _ in found_keys(held, by, requested):
            if len(alive := run.living(positions)):
                yield run, alive

    def _counted(self, asked: int, found: Found) -> Found:
        self.asked += asked
        self.found += sum(len(positions) for _, positions in found)
        return found

    def _rows(self, found: Found) -> Iterator[pa.RecordBatch]:
        yield from gathered(found)

    # --- changes

    def append(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Insert rows whose `_key`s are new."""
        for piece in pieces(batches, self.arranged.schema, self.run_bytes):
            self.new.append(self.spill(make_run(piece, self.arranged)))

    def replace(self, by: str | None, keys: Keys, batches: Iterable[pa.RecordBatch]) -> Iterator[Weighted]:
        """Replace the rows whose `by` is among `keys` (all for None) by those of `batches`, and yield the differences
        with weights.

        An old row is yielded as it was stored, with -1, and the new one with +1. Unchanged rows, and rows that differ
        only in internal columns, are not yielded. Raises B7010 if two of the new rows have the same key.
        """
        asked = self._find(by, keys)
        earlier = len(self.new)
        before, met = self.new[:earlier], {id(r): [NONE] for r, _ in asked}
        for piece in pieces(batches, self.arranged.schema, self.run_bytes):
            texts = KeyTexts(piece.column(KEY))
            if not texts.are_distinct or any(True for _ in texts.rows_in(_with_all(self.new[earlier:], texts.hashes))):
                raise self.same_key()
            stays = np.zeros(len(piece), np.bool_)
            known = np.zeros(len(piece), np.bool_)
            for group in in_groups(texts.rows_in(self._holding(KEY, texts.hashes, before))):
                same, changes = self._difference(group, piece)
                for run, positions, which in group:
                    known[which] = True
                    if id(run) in met:
                        met[id(run)].append(positions)
                stays[np.concatenate([which for _, _, which in group])[same]] = True
                yield from changes
            came = np.flatnonzero(~stays)
            if len(came):
                self.new.append(self.spill(make_run(piece.take(pa.array(came)), self.arranged)))
            if not known.all():
                yield piece.filter(pa.array(~known)), 1
        gone = [
            (r, np.setdiff1d(p, np.concatenate(met[id(r)]), assume_unique=True) if len(met[id(r)]) > 1 else p)
            for r, p in asked
        ]
        yield from ((b, -1) for b in gathered(gone))
        for run, positions in gone:
            self._kill(run, positions)

    def _difference(self, group: Sequence[Matched], piece: pa.RecordBatch) -> tuple[np.ndarray, list[Weighted]]:
        """Return which rows of a group equal the new rows beside them, and the others as changes, which are marked."""
        names = [n for n in self.arranged.schema.names if n != KEY]
        old = _one(gathered((run, positions) for run, positions, _ in group), self.arranged.schema)
        new = piece.take(pa.array(np.concatenate([which for _, _, which in group])))
        differ = differing(old, new, names)
        same = ~differ
        self._kill_where(group, differ)
        if self.arranged.internal and differ.any():
            differ = differing(old, new, [n for n in names if n not in self.arranged.internal])
        if not differ.any():
            return same, []
        mask = pa.array(differ)
        return same, [(old.filter(mask), -1), (new.filter(mask), 1)]

    def _kill_where(self, group: Sequence[Matched], mask: np.ndarray) -> None:
        """Mark the selected rows of a group as dead."""
        begin = 0
        for run, positions, _ in group if mask.any() else ():
            self._kill(run, positions[mask[begin : begin + len(positions)]])
            begin += len(positions)

    def overwrite(self, by: str | None, keys: Keys, batches: Iterable[pa.RecordBatch]) -> None:
        """Replace the rows whose `by` is among `keys` (all for None) by those of `batches`, without computing
        differences."""
        for run, positions in self._find(by, keys):
            self._kill(run, positions)
        self.append(batches)

    def delete_up_to(self, column: str, last: int) -> int:
        """Delete the rows whose number in a range column is at most `last`, and return how many there were."""
        gone = 0
        for run in self._between(column, None, last):
            positions = run.up_to(column, last)
            self._kill(run, positions)
            gone += len(positions)
        return gone

    def _kill(self, run: Run, positions: Positions) -> None:
        if len(positions):
            self.killed.append((run, run.kill(positions)))

    def same_key(self) -> BelvedereError:
        """Return the diagnostic for two rows with the same key."""
        return fail("B7010", f'two rows for the stored relation "{self.arranged.name}" have the same key')

    # --- the end of an epoch

    def undo(self) -> None:
        """Undo the changes of the epoch."""
        for run, positions in self.killed:
            run.revive(positions)
        for run in self.runs:
            run.unearth()
        self.new, self.killed, self.filed, self.has_died_apart = [], [], 0, False


def by_run(killed: Iterable[tuple[Run, Positions]]) -> dict[int, list[Positions]]:
    """Group the positions of dead rows by the `id` of their run."""
    found: dict[int, list[Positions]] = {}
    for run, positions in killed:
        found.setdefault(id(run), []).append(positions)
    return found


def _with_all(runs: Iterable[Run], keys: Numbers) -> Iterator[Held]:
    return ((run, 0, len(keys)) for run in runs)


def _one(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows in one batch."""
    found = list(batches)
    return found[0] if len(found) == 1 else pa.concat_batches(found)


def _least_living(run: Run, column: str) -> int | None:
    index = run.index(column)
    first = int(np.searchsorted(index.values, LEAST, "right"))
    while first < len(index.values):
        places = np.arange(first, min(first + TAKE, len(index.values)))
        alive = np.ones(len(places), np.bool_) if run.dead is None else ~run.dead.at(index.at(places))
        if alive.any():
            return int(index.values[places[int(np.argmax(alive))]])
        first += TAKE
    return None


def _nearest(run: Run, positions: Positions, values: Numbers, edge: int, count: int, after: bool) -> Numbers:
    """Return the `count` numbers of live rows nearest to an edge, on one side of it; fewer if there are fewer rows."""
    width = count
    while True:
        part = slice(edge, edge + width) if after else slice(max(0, edge - width), edge)
        counts = values[part] != LEAST
        if run.dead is not None:
            counts &= ~run.dead.at(positions[part])
        found: Numbers = values[part][counts]
        if len(found) >= count or (part.stop >= len(values) if after else part.start == 0):
            return found[:count] if after else found[-count:]
        width *= 4


def pieces(batches: Iterable[pa.RecordBatch], schema: pa.Schema, run_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows in a relation's columns and types, in batches of the size of a run."""
    for piece in in_pieces((b.select(schema.names).cast(schema) for b in batches), run_bytes, schema):
        yield from piece.combine_chunks().to_batches()


def _arrays(keys: pa.Array | pa.RecordBatchReader) -> Iterator[pa.Array]:
    """Yield the keys, an array at a time."""
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    arrays = (b.column(0) for b in keys) if isinstance(keys, pa.RecordBatchReader) else (keys,)
    yield from (a for a in arrays if len(a))


def _distinct(keys: pa.Array | pa.RecordBatchReader) -> Numbers:
    """Return the distinct hashes, sorted."""
    parts = [numbers(a) for a in _arrays(keys)]
    return distinct(np.concatenate(parts)) if parts else np.zeros(0, np.int64)
