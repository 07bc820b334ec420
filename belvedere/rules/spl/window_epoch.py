"""One epoch of SPL windows.

In: a stage, the rows that arrived, the clock and the bounds. Out: the change of the output, and the written state after
the epoch.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.engine.relation import delta_schema
from belvedere.engine.rows.epoch_rows import Rows, combined, conform
from belvedere.engine.sql.stage_sql import ROWS as VIEW
from belvedere.engine.work import Work
from belvedere.kernels.search import GREATEST, Ints
from belvedere.kernels.spl.firings import find
from belvedere.kernels.spl.panes import PaneRows, find_panes, in_time
from belvedere.kernels.spl.window_rows import NEVER, Firings, Found
from belvedere.plan.bounds import bounds_of
from belvedere.plan.operators.spl_windows import Interval
from belvedere.rules.spl.accumulated import accumulated, accumulators_of, firing_rows
from belvedere.rules.spl.block_columns import PATH
from belvedere.rules.spl.buffered_rows import BufferContents, TouchedPartitions, placed, read, store
from belvedere.rules.spl.contents import CONTENTS, contents, last_firings, ordered
from belvedere.rules.spl.firing_memory import WindowMemory
from belvedere.rules.spl.kernel_rows import micros, present, sorted_rows, whole
from belvedere.rules.spl.output_rows import identified_rows, numbered
from belvedere.rules.spl.sorting import RANKED, ranks
from belvedere.rules.spl.window_stage import SplWindows
from belvedere.rules.spl.window_state import DUE, HASH, PART, TIME, UNDER, next_due, partition_rows
from belvedere.schema import KEY
from belvedere.values.instants import microseconds


def run_windows(stage: SplWindows, work: Work) -> Rows | None:
    """Run an epoch of tumbling and sliding windows."""
    now, memory = microseconds(work.clock), _memory(work)
    ticked, memory.ticked = memory.ticked, now
    arrived = present(stage.node, _arrived(stage, work))
    parts, hashes = _touched(stage, work, arrived, now)
    if not len(parts):
        return None
    touched = TouchedPartitions.of(work.look_up(stage.partitions, KEY, parts).table, parts, hashes)
    arrived = placed(stage, arrived, touched)
    for all_rows in (False, True):
        contents = read(stage, work, arrived, touched, now, all_rows)
        if stage.node.progressive:
            contents.given.ranks = _ranks(stage, work, contents)
        if contents.can_be_slid:
            found = find(stage.window, contents.given, touched.known, ticked, now)
            shown = _shown(stage, work, found.firings)
            made = _made(stage, contents.sums, found.members, *shown)
            if made is not None or contents.order is None:
                break
    _store(stage, work, contents, touched, found, now)
    if made is None:
        made, _ = _queried(stage, work, contents.rows.table, *shown, found.members)
    memory.firings += len(found.firings)
    return _written(stage, work, made, pa.array(hashes[shown[0].partition]))


def _ranks(stage: SplWindows, work: Work, contents: BufferContents) -> Ints:
    """Return the positions of rows in the order of a sort."""
    work.put(RANKED, VIEW, Rows(contents.rows.table.select(stage.node.input.schema.names)))
    return ranks(work.compute.compute(work.sql[RANKED]).table, contents.given.number)


def _store(
    stage: SplWindows, work: Work, contents: BufferContents, touched: TouchedPartitions, found: Found, now: int
) -> None:
    """Store the rows that remain in windows, and the state of the partitions."""
    store(stage, work, contents, touched, found.kept)
    due = next_due(stage.window, contents.given, found.kept, found.partitions, now)
    span = touched.span(contents, found.kept)
    coming = partition_rows(touched.parts, touched.hashes, found.partitions, span, due, ~found.forgotten)
    work.overwrite(stage.partitions, KEY, touched.parts, Rows(coming))


def _memory(work: Work) -> WindowMemory:
    """Return the stage's memory: empty if its output is recomputed."""
    memory = work.recall(WindowMemory)
    if work.is_fresh:
        memory.forget()
    return memory


def _arrived(stage: SplWindows, work: Work) -> pa.Table:
    """Return the new rows in the form of the state."""
    schema = delta_schema(work.prepared.states[stage.buffered])
    if not work.put_deltas():
        return schema.empty_table()
    return work.compute.compute(work.sql["input"], schema).table


def _touched(stage: SplWindows, work: Work, arrived: pa.Table, now: int) -> tuple[pa.Array, Ints]:
    """Return the partitions that have something to do: their texts, and the hashes of their values."""
    texts, hashes = combined(arrived[PART]), combined(arrived[PATH])
    if stage.takes_all:
        more = work.look_up(stage.partitions, None, None).table
    else:
        more = work.look_up_range(stage.partitions, DUE, None, now).table
    texts = pa.concat_arrays([texts, combined(more["part"]).cast(texts.type)])
    hashes = pa.concat_arrays([hashes, combined(more[HASH])])
    encoded = texts.dictionary_encode()
    first = np.unique(encoded.indices.to_numpy(zero_copy_only=False), return_index=True)[1]
    return encoded.dictionary, hashes.to_numpy(zero_copy_only=False)[first]


# --- panes


def run_panes(stage: SplWindows, work: Work) -> Rows | None:
    """Run an epoch of event-time windows."""
    node, kind = stage.node, stage.window.kind
    assert isinstance(kind, Interval)
    assert node.time is not None
    memory = _memory(work)
    before = memory.watermark
    watermark = max(before, bounds_of(stage.source, work.bounds.__getitem__).get(node.time, NEVER))
    arrived = _in_time(stage, present(node, _arrived(stage, work)), before)
    if arrived.num_rows:
        work.append(Rows(arrived), stage.buffered)
        times = whole(arrived[TIME])
        memory.late = min(int(times.min()), memory.late)
    if watermark == before:
        return None
    oldest = min(before, memory.late)
    memory.watermark, memory.late = watermark, GREATEST
    low = None if oldest - NEVER <= kind.duration + 1 else oldest - kind.duration - 1
    held = work.look_up_range(stage.buffered, TIME, low, watermark).table
    if kind.discard + kind.duration < watermark - NEVER:
        work.storage.delete_range(stage.buffered, TIME, watermark - kind.discard - kind.duration)
    if not held.num_rows:
        return None
    encoded = combined(held[PART]).dictionary_encode()
    code = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    rows = sorted_rows(node, held, code, np.zeros(held.num_rows, np.bool_))
    given = PaneRows(rows.partition, whole(rows.table[node.order]), whole(rows.table[TIME]), whole(rows.table[UNDER]))
    found = find_panes(kind, given, before, np.array([watermark], np.int64))
    firings, numbers = _shown(stage, work, found.firings)
    kept = accumulators_of(node)
    made, hashes = (
        _made(stage, None if kept is None else accumulated(kept, rows.table), found.members, firings, numbers),
        None,
    )
    if made is None:
        made, hashes = _queried(stage, work, rows.table, firings, numbers, found.members)
    memory.firings += len(found.firings)
    return _written(stage, work, made, hashes)


def _in_time(stage: SplWindows, arrived: pa.Table, watermark: int) -> pa.Table:
    """Return the new rows that are not late, with their time and the watermark at their arrival."""
    kind = stage.window.kind
    assert isinstance(kind, Interval)
    times = micros(arrived[stage.node.time])
    under = np.full(len(times), watermark, np.int64)
    for name, values in ((TIME, times), (UNDER, under)):
        place = arrived.schema.get_field_index(name)
        arrived = arrived.set_column(place, arrived.schema.field(place), pa.array(values, pa.int64()))
    return arrived.filter(pa.array(in_time(kind, times, under)))


# --- the output


def _shown(stage: SplWindows, work: Work, firings: Firings) -> tuple[Firings, Ints]:
    """Return the firings that the output shows, and their numbers."""
    numbers = np.arange(len(firings)) + work.recall(WindowMemory).firings
    if stage.node.every:
        return firings, numbers
    chosen = last_firings(firings)
    return firings.take(chosen), numbers[chosen]


def _made(
    stage: SplWindows, sums: pa.Table | None, members: Ints | None, firings: Firings, numbers: Ints
) -> pa.Table | None:
    """Compute the rows of firings from accumulators. Return None if the node needs the window's contents."""
    if not len(firings):
        return stage.node.schema.arrow.empty_table()
    if sums is None:
        return None
    return firing_rows(stage.node, sums if members is None else sums.take(pa.array(members)), firings, numbers)


def _written(stage: SplWindows, work: Work, made: pa.Table, hashes: pa.Array | None) -> Rows | None:
    """Return the change of the output for the rows of firings.

    `hashes` are those of their access path (None: each pane has its row).
    """
    if not made.num_rows:
        return None
    if stage.node.every:
        return work.added(identified_rows(work, numbered(work, made)))
    found = identified_rows(work, conform(made, work.output.schema.arrow))
    if hashes is None:
        assert stage.path is not None
        hashes = pa.concat_arrays([combined(t[stage.path]) for t in found.tables()])
    return work.replace(stage.path, pc.unique(hashes), found)


def _queried(
    stage: SplWindows, work: Work, rows: pa.Table, firings: Firings, numbers: Ints, members: Ints | None
) -> tuple[pa.Table, pa.Array | None]:
    """Compute the rows of firings by the query over their contents. Return them with the hashes of their panes."""
    tables, hashes = [], []
    for piece in contents(stage.node, rows, firings, numbers, members):
        work.put(CONTENTS, VIEW, Rows(piece))
        tables.append(ordered(work.compute.compute(work.sql["contents"]).table))
        if "panes" in work.sql:
            found = work.compute.compute(work.sql["panes"], pa.schema([(stage.path, pa.int64())]))
            hashes.append(combined(found.table[stage.path]))
    return pa.concat_tables(tables), pa.concat_arrays(hashes) if hashes else None
