"""Windows that begin in one block and end in another, as rows of output: what is told of their ends, and what it makes with their starts.

In: rows of both blocks, and a `KernelSpec`. Out: `Beyond`: at a block, the end's values and the states of the aggregates from the block's
first row on; `Tails`: for a window, the same from the row behind its own block on; and the kernels' output of such windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.spark.window_by import states
from belvedere.spark.window_by.kernel import label_columns
from belvedere.spark.window_by.output import Writer
from belvedere.spark.window_by.ranges import Bools, Ints
from belvedere.spark.window_by.rows import Rows, Windows
from belvedere.spark.window_by.specs import Aggregate, Flag, Gather, KernelSpec, Length, Nth, Output, Place
from belvedere.spark.window_by.states import State


@dataclass(frozen=True)
class Beyond:
    """By the outputs' names: states of aggregates, and columns of values at ends."""

    states: Mapping[str, State]
    columns: Mapping[str, pa.Array]

    def take(self, places: Ints) -> Beyond:
        taken = {n: c.take(pa.array(places)) for n, c in self.columns.items()}
        return Beyond({n: s.take(places) for n, s in self.states.items()}, taken)


def together(parts: Sequence[Beyond]) -> Beyond:
    """Rows of many blocks, one behind the other."""
    return Beyond(
        {n: states.joined([p.states[n] for p in parts]) for n in parts[0].states},
        {n: pa.concat_arrays([p.columns[n] for p in parts]) for n in parts[0].columns},
    )


@dataclass(frozen=True)
class Tails:
    """What is known of the ends of a block's pending windows: their `places` in the sequence from 0, whether END was found there, whether
    rows behind the block belong to them, and what is at the end."""

    places: Ints
    closed: Bools
    longer: Bools
    ends: Beyond

    def __len__(self) -> int:
        return len(self.places)


def seen(rows: Rows, spec: KernelSpec, first: Ints, last: Ints, closed: Bools) -> Beyond:
    """What is told of windows whose rows here are `first` to `last`, where they end."""
    yes = np.ones(len(first), np.bool_)
    writer = Writer(rows, Windows(first, first, last, yes, closed))
    columns: dict[str, pa.Array] = {}
    for output in spec.outputs:
        if isinstance(output, (Gather, Flag)) and output.side == "end":
            columns.update(writer.write(output))
        elif isinstance(output, Nth) and output.index < 0:
            place = last + ~closed + 1 + output.index
            inside = (place >= 0) & (place < rows.count)
            columns[output.output] = writer.taken(output.column, np.where(inside, place, 0), inside)
    folded = {o.output: states.state_of(o, rows, first, last) for o in spec.outputs if isinstance(o, Aggregate)}
    return Beyond(folded, columns)


def tails_of(
    spec: KernelSpec, number: int, where: Ints, row: Ints, count: int, places: Ints, told: Beyond, firsts: Ints
) -> Tails:
    """The tails of a block's pending windows: each ends in block `where` (behind the last: nowhere), told in its `row`.

    `count` is the number of all rows, `places` the ends' in the sequence; `firsts` are the first rows of each block in `told` and after
    them their number; the last row of each block in it is about all of the block.
    """
    blocks = len(firsts) - 1
    found = where < blocks
    at = np.where(found, firsts[np.minimum(where, blocks - 1)] + row, firsts[-1] - 1)
    closed = found | (spec.end is not None and spec.end.unbounded)
    between = where - 1 > number  # whole blocks lie between
    ends = told.take(at)
    aggregates = {o.output: o for o in spec.outputs if isinstance(o, Aggregate)}
    folded = {
        n: _over_blocks(aggregates[n], told.states[n].take(firsts[1:] - 1), number, where, between, found, s)
        for n, s in ends.states.items()
    }
    return Tails(np.where(found, places[at], count - 1), closed, found | between, Beyond(folded, ends.columns))


def _over_blocks(output: Aggregate, whole: State, number: int, where: Ints, between: Bools, found: Bools, last: State) -> State:
    """The states of the whole blocks behind block `number` and before `where`, with the last one's where the end is `found` there."""
    targets, target = np.unique(where, return_inverse=True)
    low = np.minimum(number + 1, len(whole.members) - 1)
    high = np.maximum(targets - 1, low)
    middle = states.merged(output, whole, np.full(len(targets), low, np.int64), high)
    return pairs(output, middle.take(target), last, between, found)


def pairs(output: Aggregate, left: State, right: State, has_left: Bools, has_right: Bools) -> State:
    """Each left state merged with the right one; only one of them where the other is not there."""
    count = len(left.members)
    if not count:
        return left
    order = np.arange(2 * count).reshape(2, count).T.ravel()
    first = 2 * np.arange(count, dtype=np.int64) + (~has_left & has_right)
    last = 2 * np.arange(count, dtype=np.int64) + has_right
    return states.merged(output, states.joined([left, right]).take(order), first, last)


def written_beyond(rows: Rows, spec: KernelSpec, before: int, high: int, starts: Ints, tails: Tails, number: Ints) -> pa.Table:
    """The output of windows that start in rows before `high` and go on behind it, each with one of the tails."""
    yes, last = np.ones(len(starts), np.bool_), np.full(len(starts), high - 1, np.int64)
    found = Windows(starts, starts, last, yes, yes)
    writer = Writer(rows, found)
    columns = label_columns(rows, found, spec)
    own = _Ends(rows, before, starts, tails, number)
    for output in spec.outputs:
        if isinstance(output, (Gather, Place, Flag)) and output.side != "end":
            columns.update(writer.write(output))
        elif isinstance(output, Aggregate):
            near = states.state_of(output, rows, starts, last)
            far = tails.ends.states[output.output].take(number)
            state = pairs(output, near, far, yes, tails.longer[number])
            extra = (~own.closed).astype(np.int64) if output.extra else np.zeros(len(starts), np.int64)
            columns[output.output] = states.finished(output, state, extra)
        else:
            columns.update(own.write(output))
    return pa.table(columns)


class _Ends:
    """The outputs that tell of windows' ends."""

    def __init__(self, rows: Rows, before: int, starts: Ints, tails: Tails, number: Ints):
        self.rows, self.starts, self.before = rows, starts, before
        self.places, self.closed = tails.places[number], tails.closed[number]
        self.told = {n: c.take(pa.array(number)) for n, c in tails.ends.columns.items()}

    def write(self, output: Output) -> dict[str, pa.Array]:
        first = self.starts + self.before
        if isinstance(output, Gather):
            return {output.output: only_where(self.told[output.output], self.closed)}
        if isinstance(output, Place):
            return {output.output: pa.array(self.places + 1, pa.int64(), mask=~self.closed)}
        if isinstance(output, Flag):
            return {output.output: pc.or_(self.told[output.output], pa.array(~self.closed))}
        if isinstance(output, Length):
            return {output.output: pa.array(self.places - first + 1 + ~self.closed, pa.int64())}
        assert isinstance(output, Nth)
        return self.nth(output, first)

    def nth(self, output: Nth, first: Ints) -> dict[str, pa.Array]:
        place = first + output.index if output.index >= 0 else self.places + ~self.closed + 1 + output.index
        there = (place >= first) & (place <= self.places)
        if output.index >= 0:
            value = self.rows.column(output.column).take(pa.array(np.where(there, place - self.before, 0), mask=~there))
        else:
            value = only_where(self.told[output.output], there)
        return {output.output: value, output.flag: pa.array(~there)}


def only_where(values: pa.Array, there: Bools) -> pa.Array:
    """The values, NULL elsewhere."""
    return values.take(pa.array(np.arange(len(values)), mask=~there))
