"""Windows that are longer than the rows around a cut: what the blocks of one sequence tell each other about them.

In: a block's sorted rows with some neighbours, and a `KernelSpec` without LABEL. Three steps, of which the first and second are asked of
all blocks at once, and the second's answers put together by `exchange_plan`:

1. `Block.pending`: the windows that start in a block and do not end in it, one for all those that no END can tell apart.
2. `Block.answer`: where those of earlier blocks would end in this one, with the states of the aggregates up to there; for TUMBLING also
   which window is still open at the block's end when the search goes on behind that place.
3. `Block.windows`: the windows that start in the block, with what is known of the ends beyond it.

So what is exchanged does not grow with the windows' length. Nothing is run on Spark. Source: the paper's two passes, with one answer for
all windows of a block that END cannot tell apart instead of one message for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from belvedere.spark.window_by import ends_beyond, search
from belvedere.spark.window_by.ends_beyond import Beyond, Tails
from belvedere.spark.window_by.kernel import Finder, written
from belvedere.spark.window_by.pending import Pending, pending_of, rows_with
from belvedere.spark.window_by.ranges import Bools, Ints
from belvedere.spark.window_by.rows import Rows, Windows
from belvedere.spark.window_by.specs import Aggregate, KernelSpec, Members, Nth
from belvedere.spark.window_by.states import WHOLE

CLEAN = -1
"""No window is open at a block's end."""


@dataclass(frozen=True)
class Answer:
    """What a block says of windows that start in earlier ones: `windows` of them (by number among all) end in it, at these `places` from 0.

    `ends` has one more row, for the block's last row. `exits`, of TUMBLING: which of the block's own pending windows is open at its end
    when the search goes on behind each place, and (the last) when it begins with the block; `CLEAN` for none.
    """

    windows: Ints
    places: Ints
    ends: Beyond
    exits: Ints


@dataclass(frozen=True)
class Exchange:
    """What the blocks need for their own windows: where in the sequence each begins to search, and the ends of its pending windows."""

    entries: tuple[int, ...]
    tails: tuple[Tails, ...]


def can_exchange(spec: KernelSpec) -> bool:
    """Whether blocks can find their windows with the others' answers."""
    return spec.label is None and spec.end is not None and in_parts(spec)


def in_parts(spec: KernelSpec) -> bool:
    """Whether all that is asked of a window can be computed of its parts."""
    return not any(isinstance(o, Members) or (isinstance(o, Aggregate) and o.function in WHOLE) for o in spec.outputs)


def neighbours(spec: KernelSpec) -> int:
    """How many rows before and behind it a block needs: PREV and NEXT, and `w[n]`."""
    return 2 + max((abs(o.index) for o in spec.outputs if isinstance(o, Nth)), default=0)


class Block:
    """One block: rows [low, high) of a piece of the sequence, `before` rows of which lie before the piece."""

    def __init__(self, piece: pa.Table, spec: KernelSpec, own: tuple[int, int], before: int):
        self.rows, self.before = Rows(piece, (), before), before
        self.low, self.high = own
        self.spec = replace(spec, only=False)
        self.only = spec.only
        self.found = self._sliding()
        self.open = ~self.found.closed | (self.found.end >= self.high)
        if self.spec.end is not None and self.spec.end.unbounded:
            self.open[:] = True
        self.pending, self.number = pending_of(self.rows, before, self.found.start[self.open], self.spec)

    def _sliding(self) -> Windows:
        """The windows of all starts in the block, ended by what the piece knows."""
        finder = Finder(self.rows, replace(self.spec, tumbling=False))
        mask = finder.starts()
        mask[: self.low] = False
        mask[self.high :] = False
        if self.spec.start.unbounded:
            mask[1 if self.before == 0 else 0 :] = False
        starts = np.flatnonzero(mask).astype(np.int64)
        yes = np.ones(len(starts), np.bool_)
        found = Windows(starts, starts, starts, yes, yes)
        found.end, found.closed = finder.ends(found)
        return found

    def answer(self, asked: Sequence[Pending]) -> Answer:
        """Step 2, for the pending windows of all blocks before this one."""
        numbers, ends = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        offset = 0
        for pending in asked:
            hits = self._ends_of(pending)
            inside = np.flatnonzero(hits != search.NONE)
            numbers.append(inside + offset)
            ends.append(hits[inside])
            offset += len(pending)
        places = np.concatenate(ends)
        every = np.append(places, self.high - 1)
        closed = np.ones(len(every), np.bool_)
        closed[-1] = self.spec.end is not None and self.spec.end.unbounded
        beyond = ends_beyond.seen(self.rows, self.spec, np.full(len(every), self.low, np.int64), every, closed)
        exits = self._exits(np.append(places + 1, self.low))
        return Answer(np.concatenate(numbers), places + self.before, beyond, exits)

    def _ends_of(self, pending: Pending) -> Ints:
        """The row of the piece where each window ends, in the block; -1 for none."""
        assert self.spec.end is not None
        count = len(pending)
        if self.spec.end.unbounded or not count:
            return np.full(count, search.NONE, np.int64)
        rows, known, offset = rows_with(pending, self.rows, self.before)
        yes = np.ones(count, np.bool_)
        found = Finder(rows, self.spec).found(
            self.spec.end, "end", Windows(known, known, known, yes, yes), np.full(count, offset + self.low, np.int64)
        )
        hits = np.where(found >= 0, found - offset, search.NONE)
        return np.where(hits < self.high, hits, search.NONE)

    def _exits(self, places: Ints) -> Ints:
        """The pending window that is open at the block's end when TUMBLING goes on at each place of the piece."""
        if not self.spec.tumbling:
            return np.full(len(places), CLEAN, np.int64)
        count = len(self.found)
        target = np.append(np.arange(count, dtype=np.int64), count)
        chained = np.flatnonzero(~self.open)
        target[chained] = np.searchsorted(self.found.start, self.found.end[chained] + 1)
        while True:  # each step doubles how many windows are passed
            further = target[target]
            if (further == target).all():
                break
            target = further
        number = np.full(count + 1, CLEAN, np.int64)
        number[np.flatnonzero(self.open)] = self.number
        found: Ints = number[target[np.searchsorted(self.found.start, places)]]
        return found

    def windows(self, entry: int, tails: Tails) -> pa.Table:
        """Step 3: the windows that start in the block at `entry` (a place in the sequence, from 0) or behind it."""
        if len(tails) != len(self.pending):
            raise ValueError("the block's rows are not those that the other blocks were asked about")
        chosen = np.arange(len(self.found))
        if self.spec.tumbling:
            following = np.where(self.open, len(chosen), np.searchsorted(self.found.start, self.found.end + 1)).astype(np.int64)
            chosen = search.follow(following, int(np.searchsorted(self.found.start, entry - self.before)))
        number = np.full(len(self.found), CLEAN, np.int64)
        number[np.flatnonzero(self.open)] = self.number
        found, beyond, number = self.found.take(chosen), self.open[chosen], number[chosen]
        done = written(self.rows, found.take(~beyond), self.spec)
        if not beyond.any():
            return done
        return self._joined(done, found, beyond, number, tails)

    def _joined(self, done: pa.Table, found: Windows, beyond: Bools, number: Ints, tails: Tails) -> pa.Table:
        """The windows that end in the block and those that end beyond it, in the order of their starts."""
        kept = beyond & (tails.closed[np.maximum(number, 0)] | (not self.only))
        rest = ends_beyond.written_beyond(self.rows, self.spec, self.before, self.high, found.start[kept], tails, number[kept])
        order = np.argsort(np.concatenate([found.start[~beyond], found.start[kept]]), kind="stable")
        both = pa.concat_tables([done, rest.select(done.column_names).cast(done.schema)]).combine_chunks()
        return both.take(pa.array(order))


def exchange_plan(spec: KernelSpec, begins: Sequence[int], pending: Sequence[Pending], answers: Sequence[Answer]) -> Exchange:
    """What all blocks' answers say. `begins` are the places of the blocks' first rows, and after them the number of all rows."""
    firsts = np.cumsum([0, *(len(p) for p in pending)])
    where, row = _nearest(int(firsts[-1]), answers)
    told = ends_beyond.together([a.ends for a in answers])
    lines = np.cumsum([0, *(len(a.windows) + 1 for a in answers)])
    places = np.concatenate([np.append(a.places, CLEAN) for a in answers])
    own = [slice(a, b) for a, b in pairwise(firsts.tolist())]
    tails = tuple(ends_beyond.tails_of(spec, n, where[o], row[o], begins[-1], places, told, lines) for n, o in enumerate(own))
    if not spec.tumbling:
        return Exchange(tuple(begins[:-1]), tails)
    return Exchange(_entries(begins, answers, firsts, where, row), tails)


def _nearest(count: int, answers: Sequence[Answer]) -> tuple[Ints, Ints]:
    """In which block each of so many windows ends, and its row in that answer; behind the last block where none has its end."""
    windows = np.concatenate([a.windows for a in answers])
    blocks = np.repeat(np.arange(len(answers)), [len(a.windows) for a in answers])
    rows = np.concatenate([np.arange(len(a.windows)) for a in answers])
    order = np.lexsort((blocks, windows))
    numbers, first = np.unique(windows[order], return_index=True)
    where, row = np.full(count, len(answers), np.int64), np.zeros(count, np.int64)
    where[numbers], row[numbers] = blocks[order[first]], rows[order[first]]
    return where, row


def _entries(begins: Sequence[int], answers: Sequence[Answer], firsts: Ints, where: Ints, row: Ints) -> tuple[int, ...]:
    """TUMBLING: where each block begins to search, from block to block by what is open at their ends."""
    entries = list(begins[1:])  # nothing begins in a block that an open window covers
    block, line = 0, len(answers[0].windows)
    while block < len(answers):
        entries[block] = int(np.append(answers[block].places + 1, begins[block])[line])
        open_ = int(answers[block].exits[line])
        if open_ != CLEAN:
            number = int(firsts[block]) + open_
            block, line = int(where[number]), int(row[number])
            continue
        block += 1
        line = len(answers[block].windows) if block < len(answers) else 0
    return tuple(entries)
