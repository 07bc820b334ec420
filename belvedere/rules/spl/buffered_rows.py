"""Contents of windows as an epoch reads them: the rows that may leave or arrived last, and blocks for the other rows.

In: a stage, the partitions that an epoch touches, the rows that arrived. Out: `BufferContents`, and the written state
after the epoch. A block is `BLOCK_ROWS` consecutive rows of a partition, with their accumulators. The cost of an epoch
follows the number of rows that arrive, leave and fire, plus one row for each block. All rows are read if aggregates
have no accumulators, or if rows leave in another order than they arrived.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.engine.arrow_copy import hashes_with_number
from belvedere.engine.rows.epoch_rows import Rows, combined, conform
from belvedere.engine.work import Work
from belvedere.kernels.search import Bools, Ints
from belvedere.kernels.spl.blocks import Blocks, closed, cut, in_one_order, taken
from belvedere.kernels.spl.sliding import falls
from belvedere.kernels.spl.window_rows import Partitions, Steps, WindowRows
from belvedere.plan.operators.spl_windows import Delta, Sliding
from belvedere.rules.spl.accumulated import accumulated, accumulators_of, folded
from belvedere.rules.spl.block_columns import BLOCK_PATH, BLOCK_ROWS, PATH, PLACED, STEPS
from belvedere.rules.spl.kernel_rows import ArrivedRows, sorted_rows, whole, window_rows
from belvedere.rules.spl.window_stage import SplWindows
from belvedere.rules.spl.window_state import BLOCK, CAME, LEFT, PART, of_parts, partitions_of
from belvedere.schema import KEY


@dataclass
class TouchedPartitions:
    """The partitions that an epoch touches: their texts, hashes and state, and the number of rows that have left and
    arrived so far."""

    parts: pa.Array
    hashes: Ints
    known: Partitions
    since: Ints
    until: Ints

    @classmethod
    def of(cls, stored: pa.Table, parts: pa.Array, hashes: Ints) -> TouchedPartitions:
        """Create the partitions from their stored rows."""
        nothing = np.zeros((2, len(parts)), np.int64)
        span = (of_parts(stored, parts, name, values) for name, values in zip((LEFT, CAME), nothing, strict=True))
        return cls(parts, hashes, partitions_of(stored, parts), *span)

    def code(self, texts: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Return the number of the partition of each text; NULL for others."""
        return pc.index_in(combined(texts), value_set=self.parts)

    def keys(self, partition: Ints, block: Ints) -> pa.Array:
        """Return the keys of blocks."""
        return pc.binary_join_element_wise(pa.array(block).cast(pa.string()), self.parts.take(pa.array(partition)), ":")

    def span(self, contents: BufferContents, kept: Bools) -> tuple[Ints, Ints]:
        """Return LEFT and CAME after the epoch.

        LEFT is the start of the block of the oldest row, since rows can leave before older ones.
        """
        given = contents.given
        came = self.until + np.bincount(given.partition[given.is_new], minlength=len(self.parts))
        left = came.copy()
        if (block := contents.block) is not None:
            np.minimum.at(left, given.partition[kept], block[kept] * BLOCK_ROWS)
        return left, came


@dataclass
class BufferContents:
    """Rows by partition and arrival, and blocks that represent other rows."""

    rows: ArrivedRows
    given: WindowRows
    """Rows and blocks together."""
    own_sums: pa.Table | None
    """Accumulators of the rows; None if aggregates have none."""
    known: pa.Table | None = None
    """The stored blocks, including those whose rows were read."""
    remaining: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    """Mask of `known`: the blocks that represent their rows."""
    order: Ints | None = None
    """Position of each of `given` among the rows, or after them among the remaining blocks; None if there are only
    rows."""

    @property
    def can_be_slid(self) -> bool:
        """Return whether rows leave in the order in which they arrived, or no block hides them."""
        steps = self.given.evicting
        return self.order is None or steps is None or not falls(steps.codes, self.given.partition).any()

    @property
    def sums(self) -> pa.Table | None:
        """Return the accumulators of each of `given`."""
        if self.order is None or self.own_sums is None:
            return self.own_sums
        assert self.known is not None
        blocks = self.known.filter(pa.array(self.remaining)).select(self.own_sums.schema.names)
        return pa.concat_tables([self.own_sums, blocks.cast(self.own_sums.schema)]).take(pa.array(self.order))

    @property
    def block(self) -> Ints | None:
        """Return the block of each of `given`, or None if there are no blocks."""
        if BLOCK not in self.rows.table.schema.names:
            return None
        found = whole(self.rows.table[BLOCK])
        if self.order is None:
            return found
        assert self.known is not None
        return np.concatenate([found, whole(self.known["block"])[self.remaining]])[self.order]

    def apart(self, of_given: Bools) -> tuple[Bools, Bools]:
        """Split values for `given` into those for the rows and those for the remaining blocks."""
        if self.order is None:
            return of_given, np.zeros(0, np.bool_)
        found = np.empty(len(of_given), np.bool_)
        found[self.order] = of_given
        return found[: len(self.rows.is_new)], found[len(self.rows.is_new) :]


def placed(stage: SplWindows, arrived: pa.Table, touched: TouchedPartitions) -> pa.Table:
    """Return the new rows with the numbers of their blocks."""
    if not stage.in_blocks or not arrived.num_rows:
        return arrived
    code = whole(touched.code(arrived[PART]))
    order = np.lexsort((whole(arrived[stage.node.order]), code))
    begins = np.searchsorted(code[order], code[order])
    block = np.empty(len(code), np.int64)
    block[order] = (touched.until[code[order]] + np.arange(len(code)) - begins) // BLOCK_ROWS
    found = _block_hashes(stage, touched, code, block)
    for name, values in ((BLOCK, block), (BLOCK_PATH, found)):
        index = arrived.schema.get_field_index(name)
        arrived = arrived.set_column(index, arrived.schema.field(index), pa.array(values))
    return arrived


def _block_hashes(stage: SplWindows, touched: TouchedPartitions, partition: Ints, block: Ints) -> Ints:
    return hashes_with_number(touched.hashes[partition], block, not stage.node.partition)


def read(
    stage: SplWindows, work: Work, arrived: pa.Table, touched: TouchedPartitions, now: int, all_rows: bool
) -> BufferContents:
    """Return the contents of the windows of these partitions, and the arrived rows (`placed`); `all_rows`: without
    blocks.
    """
    known = _stored_blocks(stage, work, touched) if stage.in_blocks else None
    remaining, loose, order = np.zeros(0, np.bool_), None, None
    if known is not None and known.num_rows:
        blocks = _as_kernels_take_them(stage, known, touched)
        new = window_rows(stage.node, _sorted(stage, arrived, touched, 0))
        remaining = ~cut(stage.window, blocks, touched.until, new, now) & (not all_rows)
        loose = None if all_rows else _loose(stage, touched, blocks.take(remaining))
    rows = _with_rows(stage, work, arrived, touched, loose)
    given = window_rows(stage.node, rows)
    if remaining.any():
        given, order = in_one_order(given, blocks.take(remaining), BLOCK_ROWS)
    kept = accumulators_of(stage.node)
    return BufferContents(rows, given, None if kept is None else accumulated(kept, rows.table), known, remaining, order)


def _stored_blocks(stage: SplWindows, work: Work, touched: TouchedPartitions) -> pa.Table:
    """Return the blocks of these partitions."""
    first, end = -(-touched.since // BLOCK_ROWS), touched.until // BLOCK_ROWS
    partition, block = _counted(first, end)
    schema = work.stored_schema(stage.blocks)
    if not len(block):
        return schema.empty_table()
    found = work.look_up(stage.blocks, KEY, touched.keys(partition, block)).table
    return conform(found, schema)


def _counted(first: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return for each position the numbers from `first` up to `end`, and the position itself."""
    counts = np.maximum(end - first, 0)
    place = np.repeat(np.arange(len(counts)), counts)
    return place, np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts - first, counts)


def _loose(stage: SplWindows, touched: TouchedPartitions, blocks: Blocks) -> Ints:
    """Return the hashes of those blocks of the touched partitions that are not in `blocks`."""
    partition, block = _counted(touched.since // BLOCK_ROWS, -(-touched.until // BLOCK_ROWS))
    width = int(block.max(initial=0)) + 1
    numbers = partition * width + block
    loose = ~np.isin(numbers, blocks.rows.partition * width + blocks.place // BLOCK_ROWS)
    return _block_hashes(stage, touched, partition[loose], block[loose])


def _with_rows(
    stage: SplWindows, work: Work, arrived: pa.Table, touched: TouchedPartitions, blocks: Ints | None
) -> ArrivedRows:
    """Return the new rows and the buffered ones of these blocks (None: of all blocks)."""
    by, hashes = (PATH, touched.hashes) if blocks is None else (BLOCK_PATH, blocks)
    held = work.look_up(stage.buffered, by, pa.array(np.unique(hashes))).table
    both = pa.concat_tables([conform(held, held.schema), arrived.select(held.schema.names).cast(held.schema)])
    return _sorted(stage, both, touched, held.num_rows)


def _sorted(stage: SplWindows, table: pa.Table, touched: TouchedPartitions, held: int) -> ArrivedRows:
    code = touched.code(table[PART])
    is_new = np.arange(table.num_rows) >= held
    mine = pc.is_valid(code)  # rows of other partitions may have the same hash
    table, is_new = table.filter(mine), is_new[mine.to_numpy(zero_copy_only=False)]
    return sorted_rows(stage.node, table, whole(code.drop_null()), is_new)


def _as_kernels_take_them(stage: SplWindows, known: pa.Table, touched: TouchedPartitions) -> Blocks:
    columns = {n: whole(known[n]) for n in ("block", *PLACED)}
    window = stage.window
    policies = window.policies if isinstance(window.kind, Sliding) else (None, *window.policies)
    by_delta = zip(STEPS, (isinstance(p, Delta) for p in policies), strict=True)
    steps = (Steps(columns[f"{s}.code"], columns[f"{s}.limit"]) if needed else None for s, needed in by_delta)
    evicting, triggering = steps
    nothing = np.zeros(known.num_rows, np.bool_)
    rows = WindowRows(
        whole(touched.code(known["part"])), columns["number"], columns["ended"], nothing, evicting, triggering
    )
    return Blocks(rows, columns["begun"], columns["block"] * BLOCK_ROWS)


# --- the state afterwards


def store(stage: SplWindows, work: Work, contents: BufferContents, touched: TouchedPartitions, kept: Bools) -> None:
    """Write the state: add new rows that stay, delete buffered rows that leave, and create and delete blocks."""
    rows, blocks = contents.apart(kept)
    new = contents.rows.is_new
    gone = contents.rows.table.filter(pa.array(~new & ~rows))
    if gone.num_rows:
        work.overwrite(stage.buffered, KEY, combined(gone[KEY]), ())
    come = contents.rows.table.filter(pa.array(new & rows))
    if come.num_rows:
        work.append(Rows(come), stage.buffered)
    if stage.in_blocks:
        _drop_blocks(stage, work, contents, touched, gone, blocks)
        _make_blocks(stage, work, contents, touched, rows)


def _drop_blocks(
    stage: SplWindows, work: Work, contents: BufferContents, touched: TouchedPartitions, gone: pa.Table, stay: Bools
) -> None:
    """Delete blocks that leave with their rows, and blocks of which some rows left."""
    known = contents.known
    if known is None or not known.num_rows:
        return
    left = known.filter(pa.array(contents.remaining)).filter(pa.array(~stay)) if len(stay) else known.slice(0, 0)
    keys = [combined(left[KEY])]
    if left.num_rows:
        partition, block = whole(touched.code(left["part"])), whole(left["block"])
        hashes = pa.array(np.unique(_block_hashes(stage, touched, partition, block)))
        rows = work.look_up(stage.buffered, BLOCK_PATH, hashes).table
        rows = rows.filter(pc.is_valid(touched.code(rows[PART])))
        rows = rows.filter(
            pc.is_in(touched.keys(whole(touched.code(rows[PART])), whole(rows[BLOCK])), value_set=keys[0])
        )
        work.overwrite(stage.buffered, KEY, combined(rows[KEY]), ())
    if gone.num_rows:
        partition, block = whole(touched.code(gone[PART])), whole(gone[BLOCK])
        broken = pc.unique(touched.keys(partition, block))
        keys.append(broken.filter(pc.is_in(broken, value_set=combined(known[KEY]))))
    work.overwrite(stage.blocks, KEY, pa.concat_arrays(keys), ())


def _make_blocks(
    stage: SplWindows, work: Work, contents: BufferContents, touched: TouchedPartitions, stay: Bools
) -> None:
    """Create blocks from the rows that are stored individually."""
    kept = accumulators_of(stage.node)
    assert kept is not None
    rows = window_rows(stage.node, contents.rows)
    held = np.flatnonzero(stay)
    number = whole(contents.rows.table[BLOCK])
    first = held[closed(taken(rows, held), number[held], BLOCK_ROWS)]
    keys = touched.keys(rows.partition[first], number[first])
    if contents.known is not None and contents.known.num_rows:
        unknown = ~pc.is_in(keys, value_set=combined(contents.known[KEY])).to_numpy(zero_copy_only=False)
        first, keys = first[unknown], keys.filter(pa.array(unknown))
    if not len(first):
        return
    last = first + BLOCK_ROWS - 1
    columns = {"part": touched.parts.take(pa.array(rows.partition[first])), KEY: keys, "block": number[first]}
    columns |= {"number": rows.number[first], "begun": rows.at[first], "ended": rows.at[last]}
    for name, steps in zip(STEPS, (rows.evicting, rows.triggering), strict=True):
        codes, limits = (first * 0, first * 0) if steps is None else (steps.codes[last], steps.limits[first])
        columns |= {f"{name}.code": codes, f"{name}.limit": limits}
    assert contents.own_sums is not None
    sums = folded(kept, contents.own_sums, first, last)
    table = pa.table(columns | {n: combined(sums[n]) for n in sums.schema.names})
    work.append(Rows(conform(table, work.stored_schema(stage.blocks))), stage.blocks)
