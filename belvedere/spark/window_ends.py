"""Where the windows of a stage end, as the store keeps it: which of them a change can touch, wherever they start.

In: the windows of some rows, the place of a change. Out: rows of the stage's state; the first window that did not end before the change. A
window is a row here whether the query shows it or drops it (ONLY, HAVING). A partition is known once all of its windows were found
together, by a row of its own; until then, and after all of it was computed by other rules, it is read whole.

To find the windows that reach a place, whatever their length, they are stored by the size of their length, in powers of 16: one of size k
that reaches it starts less than 16^k before it. So one look-up on an index by size and start finds them and few others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from belvedere.rules.window_by.settling import ROW, SINCE, SIZE, UNTIL, Reach
from belvedere.schema import KEY
from belvedere.spark.exchange import Keys
from belvedere.spark.prepare import PreparedStage
from belvedere.spark.spans import Spans, TooMuch
from belvedere.spark.stages import Context, stored_schema
from belvedere.spark.stretch import GREATEST, LEAST, Bools, Ints, Windows, mirrored, placed

KNOWN, OPEN, NOWHERE = -1, -2, -3
"""In place of a size: the partition is known; the window has no end; its start has no order key."""
MOST_OPEN = 10_000
"""With more windows without an end in a partition all rows from the first of them on are read."""
STEP, SIZES = 4, 17
"""Bits from one size to the next, and how many sizes there are: the lengths are differences of 64-bit numbers."""


@dataclass(frozen=True)
class Touched:
    """The least (mirrored) order key of windows that did not end before a change, or the change's own; whether all of them had an end.

    `open` are the keys of the rows where windows without an end start before the change, where these are apart from the others.
    """

    first: int
    closed: bool
    open: pa.Array


class Ends:
    """The state of one stage in one epoch."""

    def __init__(self, prepared: PreparedStage, context: Context, reach: Reach):
        assert prepared.state is not None
        self.state, self.context, self.reach = prepared.state, context, reach
        self.path = self.state.paths[0].name
        self.falls = reach.ranges.descending
        self.spans = Spans(context, self.state, self.path, SINCE)

    def touched(self, key: int, low: int, high: int) -> Touched | None:
        """The windows that a change in a place can touch, those that start in it or before it; None for a partition that is not known."""
        asked = [(KNOWN, None, None), (NOWHERE, None, None), (OPEN, *self._between(None, high))]
        asked += [(size, *self._between(low - (1 << STEP * size), high)) for size in range(SIZES)]
        rows = self._rows(key, asked)
        size = np.asarray(rows[SIZE], np.int64)
        if not (size == KNOWN).any():
            return None
        since, until = placed(rows[SINCE], self.falls), placed(rows[UNTIL], self.falls, LEAST)
        found = (size != KNOWN) & (since <= high) & ((until == LEAST) | (until >= low))
        apart = found & (size == OPEN) & (since < low)
        if not self.reach.ranges.pairs or np.count_nonzero(apart) > MOST_OPEN:
            apart = np.zeros(len(size), np.bool_)
        found &= ~apart
        keys = rows[ROW].combine_chunks().filter(pa.array(apart))
        return Touched(int(since[found].min(initial=low)), not (until[found] == LEAST).any(), keys)

    def _between(self, low: int | None, high: int) -> tuple[object, object]:
        """The values of the column between two (mirrored) places; None where there is no such value."""
        values = [
            self.spans.value(mirrored(n, self.falls)) if n is not None and self.spans.has(mirrored(n, self.falls)) else None
            for n in (low, high)
        ]
        return (values[1], values[0]) if self.falls else (values[0], values[1])

    def _rows(self, key: int, asked: list[tuple[int, object, object]]) -> pa.Table:
        reader = self.context.transaction.lookup_spans(self.state.name, self.path, key, SIZE, SINCE, asked)
        batches: list[pa.RecordBatch] = []
        size = 0
        for batch in reader:
            size += batch.nbytes
            if not self.context.exchange.memory.has_room(size):
                raise TooMuch
            batches.append(batch)
        return pa.Table.from_batches(batches, reader.schema)

    def rows(self, key: int, rows: pa.Table, windows: Windows, chosen: Bools, known: bool) -> pa.Table:
        """The state of those of the windows of one partition, of which `rows` has some; and that the partition is `known`."""
        until = windows.after if self.reach.ranges.ahead else windows.to
        until = np.where(windows.complete, until, LEAST)[chosen]
        since, keys = windows.since[chosen], windows.keys.filter(pa.array(chosen))
        size = sizes(since, until, self.falls)
        if known:
            mark = np.array([LEAST])
            keys = pa.concat_arrays([keys, pa.array([f"~#{key}"])])  # no row's key is like that
            since, until, size = np.append(since, mark), np.append(until, mark), np.append(size, KNOWN)
        names = [f"by{n}" for n in range(len(self.reach.partition))]
        own = rows.select(list(self.reach.partition)).rename_columns(names).take(pa.array(np.zeros(len(size), np.int64)))
        nowhere = (size == NOWHERE) | (size == KNOWN)
        columns = {
            ROW: keys,
            **{n: own[n] for n in names},
            SIZE: pa.array(size, pa.int64()),
            SINCE: self._typed(since, nowhere),
            UNTIL: self._typed(until, until == LEAST),
            KEY: keys,
            self.path: pa.array(np.full(len(size), key), pa.int64()),
        }
        schema = stored_schema(self.state)
        return pa.table({f.name: columns[f.name] for f in schema}).cast(schema)

    def _typed(self, places: Ints, none: Bools) -> pa.Array:
        """Order keys of the column's type."""
        numbers = pa.array(np.where(none, 0, ~places if self.falls else places), pa.int64(), mask=none)
        type_ = self.spans.type
        return (numbers.cast(pa.int32()) if pa.types.is_date32(type_) else numbers).cast(type_)

    def write(self, gone: pa.Array, around: list[pa.Table], whole: list[int], all_: list[pa.Table]) -> None:
        """Let `around` stand for the rows of these keys, and `all_` for these partitions."""
        schema = stored_schema(self.state)
        self.context.overwrite(self.state.name, KEY, gone, pa.concat_tables([schema.empty_table(), *around]).to_reader())
        if whole:
            rows = pa.concat_tables([schema.empty_table(), *all_]).to_reader()
            self.context.overwrite(self.state.name, self.path, pa.array(whole, pa.int64()), rows)


def sizes(since: Ints, until: Ints, falls: bool) -> Ints:
    """For each window the least k for which its length is less than 16^k."""
    apart = until.astype(np.uint64) - since.astype(np.uint64)  # modulo 2^64, and never negative
    bits = np.frexp(apart.astype(np.float64))[1]
    found: Ints = np.where(until == LEAST, OPEN, -(-bits // STEP)).astype(np.int64)
    return np.where(since == (GREATEST if falls else LEAST), NOWHERE, found)


def forget_ends(prepared: PreparedStage, context: Context, keys: Keys | None) -> None:
    """Partitions (all for None) are computed by other rules: where their windows end is not known any more."""
    if prepared.stage.reach is None or prepared.state is None:
        return
    empty = stored_schema(prepared.state).empty_table().to_reader()
    context.overwrite(prepared.state.name, None if keys is None else prepared.state.paths[0].name, keys, empty)
