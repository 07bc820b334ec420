"""A run: some rows of a relation, sorted, with an index for every access path and range column.

Rows are marked dead, never changed.

In: rows as Arrow. Out: positions of the rows found, and the rows. A run is one record batch: the rows' columns, then
for each index the sorted numbers (`$n:`) and the rows' positions in that order (`$p:`), and for hashes except the first
a filter (`$b:`). The rows are in the order of the first index, which needs no positions. In an index of a column with
NULLs, these are last; the number of indexed rows is in the schema's metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from belvedere.schema import KEY
from belvedere.state.dead_rows import DeadRows, Mask, Positions
from belvedere.state.fingerprint import UNKNOWN, Fingerprint
from belvedere.state.hashing import Numbers, distinct, numbers, text_hashes
from belvedere.state.key_filters import Words, filter_of, is_filtered, words_of
from belvedere.state.opened_run import OpenedRun, RunBlocks

TAKE = 65_536
"""Maximum number of rows taken out of a run at once."""
_NUMBERS, _POSITIONS, _SECONDS, _FILTER, _COUNT, _IN_ORDER = "$n:", "$p:", "$s:", "$b:", b"count:", b"in order"
NONE: Positions = np.zeros(0, np.int64)
LEAST, GREATEST = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)
Fence: TypeAlias = tuple[int, int]
"""The least and the greatest number of an index; (1, 0) for an empty index."""
ANYWHERE: Fence = (LEAST, GREATEST)
NOWHERE: Fence = (1, 0)


@dataclass(frozen=True)
class Arranged:
    """Schema of an arrangement: `paths` are hash columns by which rows are looked up, `ranges` columns with an order.

    `spans` are pairs of a path and a column: the rows of a key in the order of the column. `internal` columns are used
    only by the engine.
    """

    name: str
    schema: pa.Schema
    paths: tuple[str, ...] = ()
    ranges: tuple[str, ...] = ()
    spans: tuple[tuple[str, str], ...] = ()
    internal: frozenset[str] = frozenset()
    append_only: bool = False
    fingerprint: Fingerprint = UNKNOWN
    """Fingerprint of the rows."""

    @property
    def final(self) -> bool:
        """Return whether bounds delete rows that still count."""
        return bool(self.fingerprint.final)

    @cached_property
    def indexes(self) -> tuple[str, ...]:
        """Return the indexes of every run. Rows are sorted by the first. Other indexes are made on request."""
        keyed = () if self.append_only or KEY not in self.schema.names else (KEY,)
        return (*self.paths, *keyed, *self.ranges, *(span_name(*s) for s in self.spans))

    @cached_property
    def hashed(self) -> str | None:
        """Return the first index if it is of a hash. Rows are in its order, so a large run can be cut by it."""
        first = self.indexes[0] if self.indexes else None
        return first if first in self.paths or first == KEY else None

    @cached_property
    def fenced(self) -> tuple[str, ...]:
        """Return the indexes whose least and greatest number the manifest stores for each run.

        Of hashes only the first is included.
        """
        return (*([self.hashed] if self.hashed else []), *self.ranges)


def span_name(path: str, column: str) -> str:
    """Return the name of the index of a path and a column."""
    return f"{path}\0{column}"


@dataclass(frozen=True)
class FileRange:
    """The place of a piece of state: a file, a range of bytes in it, and their checksum."""

    file: str
    offset: int
    length: int
    checksum: int


@dataclass(frozen=True)
class RunIndex:
    """Sorted numbers, and the positions of the rows that have them; None = the rows are in this order.

    In an index of a span, rows with equal numbers are sorted by `seconds`; NULLs are the least there.
    """

    values: Numbers
    positions: npt.NDArray[np.int32] | None
    seconds: Numbers | None = None

    def at(self, places: Positions) -> Positions:
        """Return the positions of the rows at these places of the index."""
        return places if self.positions is None else self.positions[places].astype(np.int64)

    def of_keys(self, keys: Numbers) -> tuple[Positions, Positions]:
        """Return the places of the rows whose number is among `keys` (sorted, distinct), and the key of each."""
        first = self.values.searchsorted(keys)
        last = len(self.values) - 1
        there = np.flatnonzero(self.values[np.minimum(first, last)] == keys) if len(self.values) else NONE
        if not len(there):
            return NONE, NONE
        first = first[there]
        count = self.values.searchsorted(keys[there], "right") - first
        total = int(count.sum())
        if total == len(there):
            return first, there
        ends = np.cumsum(count)
        return np.repeat(first - (ends - count), count) + np.arange(total), np.repeat(there, count)


@dataclass(eq=False)
class Run:
    """Rows with their indexes. `place` is the place of a written run.

    A run of an earlier process is read by `read` on first use, and so are its dead positions. A run of a remote state
    is released if the copies take too much space.
    """

    held: pa.RecordBatch | None
    arranged: Arranged
    place: FileRange | None = None
    dead_places: tuple[FileRange, ...] = ()
    """Places of the positions that were dead at the last commit."""
    unread: tuple[FileRange, ...] = ()
    """Places in `dead_places` and `died_apart` that have not been read yet."""
    carried: Positions = field(default_factory=lambda: NONE)
    """Dead positions of a merged run that no epoch has written yet."""
    carried_place: FileRange | None = None
    """Place of `carried`, once this epoch has written them for tasks to read."""
    died_apart: tuple[FileRange, ...] = ()
    """Places of positions that have died in this epoch, written by tasks, or by the driver for tasks to read."""
    lost_apart: int = 0
    """Number of rows that have died in tasks in this epoch."""
    alive: int = -1
    in_order: bool = False
    """Whether the rows are in the order of the first index."""
    read: Callable[[FileRange], pa.RecordBatch] | None = None
    blocks: Callable[[FileRange], RunBlocks | None] | None = None
    """Function that opens a remote run to fetch only the needed blocks; None if the run is here completely."""
    size: int = -1
    """Number of rows; -1: the number of rows read."""
    depth: int = 0
    """Number of leading bits of the first hash that all rows share after a merge has cut them."""
    fences: Mapping[str, Fence] = field(default_factory=dict)
    """Known fences, by index."""
    is_used: bool = False
    """Whether rows were read since the flag was last reset."""
    _dead: DeadRows | None = None
    _opened: OpenedRun | None = None
    _made: dict[str, RunIndex] = field(default_factory=dict)
    _filters: dict[str, Words | None] = field(default_factory=dict)
    _freed: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.held is not None:
            self.size = int(self.held.num_rows)
        if self.alive < 0:
            self.alive = self.size

    def __len__(self) -> int:
        if self.size < 0:
            self.size = int(self.opened.batch.num_rows)
        return self.size

    @property
    def dead(self) -> DeadRows | None:
        """Return the dead rows, or None if there are none."""
        if self.unread:
            found = DeadRows(len(self)) if self._dead is None else self._dead
            self._dead, self.unread = self._with_marks(found, self.unread), ()
        return self._dead

    def _with_marks(self, dead: DeadRows, places: Iterable[FileRange]) -> DeadRows:
        for place in places:
            assert self.read is not None
            dead.add(self.read(place))
        return dead

    def died_at(self, positions: Positions) -> Mask:
        """Return which of the rows at these positions have died in this epoch, according to files."""
        if not self.died_apart:
            return np.zeros(len(positions), np.bool_)
        return self._with_marks(DeadRows(len(self)), self.died_apart).at(positions)

    @property
    def opened(self) -> OpenedRun:
        """Return the columns of rows and indexes."""
        self.is_used = True
        if (found := self._opened) is None:
            held, blocks = self.held, None
            if held is None:
                assert self.place is not None
                assert self.read is not None
                blocks = self.blocks(self.place) if self.blocks is not None else None
                held = self.read(self.place) if blocks is None else blocks.batch
                self.in_order = is_in_order(held)
                self.held = held if blocks is None else None
            found = self._opened = OpenedRun(held, self.arranged.schema, blocks)
        return found

    @property
    def bytes(self) -> int:
        """Return its bytes, without reading it."""
        if self.place is not None:
            return self.place.length
        return int(self.opened.batch.nbytes)

    def let_go(self) -> None:
        """Release the data read. It is read again when it is used."""
        assert self.read is not None
        self.held = self._opened = None
        self._made.clear()
        self._filters.clear()

    @property
    def rows(self) -> pa.RecordBatch:
        """Return the rows without the indexes."""
        return self.opened.rows()

    def rows_for(self, positions: Positions, names: Sequence[str] | None = None) -> pa.RecordBatch:
        """Return the rows, of which only these positions and columns will be read."""
        return self.opened.rows(positions, names)

    def index(self, name: str) -> RunIndex:
        """Return the index of a path, of `_key`, or of a range column; create it if the run has none."""
        self.is_used = True
        if (found := self._made.get(name)) is None:  # `let_go` may clear it in another thread
            found = self._made[name] = self._stored_index(name) or make_index(self.rows, name)
        return found

    def _stored_index(self, name: str) -> RunIndex | None:
        opened = self.opened
        if self.in_order and name == self.arranged.indexes[0] and name in self.arranged.paths:
            return RunIndex(numbers(opened.columns([name])[0]), None)
        names, metadata = opened.batch.schema.names, opened.batch.schema.metadata or {}
        if _NUMBERS + name not in names:
            return None
        there = [p for p in (_NUMBERS, _POSITIONS, _SECONDS) if p + name in names]
        arrays = {p: a.to_numpy() for p, a in zip(there, opened.columns([p + name for p in there]), strict=True)}
        count = int(metadata.get(_COUNT + name.encode(), len(arrays[_NUMBERS])))
        positions, seconds = (arrays[p][:count] if p in arrays else None for p in (_POSITIONS, _SECONDS))
        return RunIndex(arrays[_NUMBERS][:count], positions, seconds)

    def filter(self, name: str) -> Words | None:
        """Return the filter of a hash, or None if the run has none."""
        if name in (known := self._filters):
            return known.get(name)
        opened, column = self.opened, _FILTER + name
        is_there = column in opened.batch.schema.names
        found = known[name] = words_of(opened.columns([column])[0].to_numpy()) if is_there else None
        return found

    def living(self, positions: Positions) -> Positions:
        """Return the positions that are not deleted."""
        return positions if (dead := self.dead) is None else positions[~dead.at(positions)]

    def all_living(self) -> Positions:
        """Return the positions of all live rows."""
        return np.arange(len(self)) if self.dead is None else np.flatnonzero(~self.dead.mask())

    def take(self, positions: Positions) -> pa.RecordBatch:
        """Return the rows at these positions."""
        count = len(positions)
        if count and positions[-1] - positions[0] + 1 == count and bool((np.diff(positions) == 1).all()):
            return self.rows_for(positions).slice(int(positions[0]), count)
        return self.rows_for(positions).take(pa.array(positions))

    def taken(self, positions: Positions) -> Iterator[pa.RecordBatch]:
        """Yield the rows at these positions, a part at a time."""
        for begin in range(0, len(positions), TAKE):
            yield self.take(positions[begin : begin + TAKE])

    def kill(self, positions: Positions) -> Positions:
        """Mark rows as dead, and return the positions of those that were live."""
        dead = self.dead
        if dead is None:
            dead = self._dead = DeadRows(len(self))
        found = distinct(self.living(positions))
        dead.mark(found)
        self.alive -= len(found)
        return found

    def revive(self, positions: Positions) -> None:
        """Remove dead marks."""
        assert self._dead is not None
        self._dead.unmark(positions)
        self.alive += len(positions)
        self._freed.clear()

    def bury(self, place: FileRange, count: int) -> None:
        """Take over `count` positions that a task has marked. They are read when they are needed."""
        self.died_apart, self.unread = (*self.died_apart, place), (*self.unread, place)
        self.alive -= count
        self.lost_apart += count

    def unearth(self) -> None:
        """Forget the rows that died in this epoch according to files.

        Call it after the other marks of the epoch were removed.
        """
        self.carried_place = None
        if not self.died_apart:
            return
        self.alive += self.lost_apart
        self.died_apart, self.lost_apart = (), 0
        self._dead, self.unread = None, self.dead_places
        self._freed.clear()
        if len(self.carried):
            dead = self.dead
            self._dead = DeadRows(len(self)) if dead is None else dead
            self._dead.mark(self.carried)

    def count_dead(self, places: tuple[FileRange, ...]) -> None:
        """Record the places of all dead positions after a commit."""
        self.dead_places, self.carried, self.carried_place = places, NONE, None
        self.died_apart, self.lost_apart = (), 0

    def up_to(self, column: str, number: int) -> Positions:
        """Return the positions of the live rows whose number in a range column is at most `number`.

        The run treats them as deleted from now on.
        """
        index = self.index(column)
        last, first = int(np.searchsorted(index.values, number, "right")), self._freed.get(column, 0)
        self._freed[column] = max(first, last)
        return self.living(index.at(np.arange(first, max(first, last))))


def make_index(rows: pa.RecordBatch, name: str) -> RunIndex:
    """Return the index of a column of some rows, or of a path and a column."""
    if "\0" in name:
        return _span_index(rows, *name.split("\0"))
    column = rows.column(name)
    values = text_hashes(column) if name == KEY else numbers(column)
    valid = (
        None
        if name == KEY or not column.null_count
        else np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    )
    kept = values if valid is None else values[valid]
    order = np.argsort(kept, kind="stable")
    positions = order if valid is None else valid[order]
    return RunIndex(kept[order], positions.astype(np.int32))


def _span_index(rows: pa.RecordBatch, path: str, column: str) -> RunIndex:
    hashes, held = numbers(rows.column(path)), rows.column(column)
    values = np.where(held.is_valid().to_numpy(zero_copy_only=False), numbers(held), LEAST)
    order = np.lexsort((values, hashes))
    return RunIndex(hashes[order], order.astype(np.int32), values[order])


def order_of(rows: pa.RecordBatch, arranged: Arranged) -> RunIndex | None:
    """Return the first index of rows that are not in its order, or None if no index contains all rows."""
    if not arranged.indexes:
        return None
    first = make_index(rows, arranged.indexes[0])
    return first if first.positions is not None and len(first.positions) == len(rows) else None


def make_run(rows: pa.RecordBatch, arranged: Arranged, order: RunIndex | None = None) -> Run:
    """Sort rows by their first index, which can be passed if known."""
    order = order or order_of(rows, arranged)
    if order is None:
        return Run(rows, arranged)
    run = Run(rows.take(pa.array(order.positions)), arranged, in_order=True)
    if order.seconds is None:
        run._made[arranged.indexes[0]] = RunIndex(order.values, None)
    return run


def fences_of(run: Run) -> dict[str, Fence]:
    """Return the least and the greatest number of each index that has a fence."""
    found = {}
    for name in run.arranged.fenced:
        if name != run.arranged.hashed or run.in_order:
            values = run.index(name).values
            found[name] = (int(values[0]), int(values[-1])) if len(values) else NOWHERE
    return found


def with_indexes(run: Run) -> pa.RecordBatch:
    """Return the rows with all indexes, in the form in which a run is written."""
    arrays, fields = list(run.rows.columns), list(run.rows.schema)
    metadata = {_IN_ORDER: b"1"} if run.in_order else {}
    for n, name in enumerate(run.arranged.indexes):
        if n == 0 and run.in_order and name in run.arranged.paths:
            continue  # the column itself
        index = run.index(name)
        metadata[_COUNT + name.encode()] = str(len(index.values)).encode()
        for prefix, values in ((_NUMBERS, index.values), (_POSITIONS, index.positions), (_SECONDS, index.seconds)):
            if values is None:
                continue
            arrays.append(pa.array(np.pad(values, (0, len(run) - len(values)))))
            fields.append(pa.field(prefix + name, arrays[-1].type))
        if (
            n
            and len(index.values) == len(run)
            and is_filtered(len(run))
            and (name == KEY or name in run.arranged.paths)
        ):
            arrays.append(pa.array(filter_of(index.values)))
            fields.append(pa.field(_FILTER + name, arrays[-1].type))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, metadata))


def read_run(batch: pa.RecordBatch, arranged: Arranged, place: FileRange) -> Run:
    """Return the run of a batch from `with_indexes`."""
    return Run(batch, arranged, place, in_order=is_in_order(batch))


def is_in_order(batch: pa.RecordBatch) -> bool:
    """Return whether the rows of a written run are in the order of its first index."""
    return _IN_ORDER in (batch.schema.metadata or {})
