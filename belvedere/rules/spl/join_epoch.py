"""One epoch of joined SPL windows.

In: a stage, the rows that arrived at both sides, the clock. Out: the new results, and the written state after the
epoch.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from belvedere.engine.relation import delta_schema
from belvedere.engine.rows.epoch_rows import Rows, combined, conform
from belvedere.engine.sql.stage_sql import ROWS as VIEW
from belvedere.engine.work import Work
from belvedere.kernels.search import Bools, Ints
from belvedere.kernels.spl.join import places
from belvedere.rules.spl.firing_memory import FiringMemory
from belvedere.rules.spl.join_stage import AT, MATCHED, PART, SplJoins
from belvedere.rules.spl.kernel_rows import whole, with_values
from belvedere.rules.spl.output_rows import identified_rows, numbered
from belvedere.rules.spl.pairs import SIDES, Side, given, pair_rows, result_rows, results_of, side_of
from belvedere.schema import KEY
from belvedere.values.instants import microseconds


def run_join(stage: SplJoins, work: Work) -> Rows | None:
    """Return the results of arrived rows and of rows that have become too old."""
    if work.is_fresh:
        work.recall(FiringMemory).forget()
    has_rows = work.put_deltas()
    if not has_rows and not stage.reads_clock:
        return None
    now = microseconds(work.clock)
    arrived = (_arrived(stage, work, 0, has_rows), _arrived(stage, work, 1, has_rows))
    held = (_buffered(stage, work, 0, arrived, now), _buffered(stage, work, 1, arrived, now))
    *place, clocks = _places(stage, arrived)
    left, right = (_side(stage, n, held[n], arrived[n], place[n], clocks, now) for n in (0, 1))
    sides = (left, right)
    pairs = _pairs(stage, work, sides)
    matched = (_matched(left, pairs[0]), _matched(right, pairs[1]))
    for n, side in enumerate(sides):
        _store(stage, work, n, side, matched[n], now)
    made = results_of(stage.node, sides, pairs, matched, clocks)
    if not len(made):
        return None
    firings = work.recall(FiringMemory).take_firings(int(made.firing[-1]) + 1)
    rows = result_rows(stage.node, sides, made, firings[made.firing])
    return work.added(identified_rows(work, numbered(work, rows)))


def _arrived(stage: SplJoins, work: Work, side: int, has_rows: bool) -> pa.Table:
    """Return the new rows of a side in the form of the state."""
    schema = delta_schema(work.prepared.states[stage.buffered[side]])
    if not has_rows or work.deltas[side] is None:
        return schema.empty_table()
    found = work.compute.compute(work.sql[SIDES[side]], schema).table
    return with_values(found, stage.node.windows[side].window.columns)


def _buffered(stage: SplJoins, work: Work, side: int, arrived: tuple[pa.Table, pa.Table], now: int) -> pa.Table:
    """Return the buffered rows that the epoch needs.

    These are the rows of the partitions that receive rows, the rows that new rows of the other side can match, and the
    rows that are too old.
    """
    name, age, own, other = stage.buffered[side], stage.ages[side], arrived[side], arrived[1 - side]
    found = [work.stored_schema(name).empty_table()]
    partition, key, other_key = stage.partitions[side], stage.keys[side], stage.keys[1 - side]
    if own.num_rows and partition is not None:
        found.append(work.look_up(name, partition, pa.array(np.unique(whole(own[partition])))).table)
    if other.num_rows:
        keys = None if other_key is None else pa.array(np.unique(whole(other[other_key])))
        found.append(work.look_up(name, key, keys).table)
    if age is not None and stage.node.outer[side]:
        found.append(work.look_up_range(name, AT, None, now - age - 1).table)
    table = pa.concat_tables([conform(t, found[0].schema) for t in found])
    first = np.unique(whole(table[stage.node.windows[side].order]), return_index=True)[1]
    return table if len(first) == table.num_rows else table.take(pa.array(first))


def _places(stage: SplJoins, arrived: tuple[pa.Table, pa.Table]) -> tuple[Ints, Ints, Ints]:
    left, right = stage.node.windows
    at = (whole(arrived[0][AT]), whole(arrived[1][AT]))
    number = (whole(arrived[0][left.order]), whole(arrived[1][right.order]))
    one_epoch = (np.zeros(len(at[0]), np.int64), np.zeros(len(at[1]), np.int64))
    return places(at, number, None if stage.node.one_order else one_epoch)


def _side(stage: SplJoins, side: int, held: pa.Table, arrived: pa.Table, place: Ints, clocks: Ints, now: int) -> Side:
    names = held.schema.names
    both = pa.concat_tables([held, arrived.select(names).cast(held.schema)])
    codes = combined(both[PART]).dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return side_of(
        stage.node, side, both, codes, np.concatenate([np.zeros(held.num_rows, np.int64), place]), clocks, now
    )


def _pairs(stage: SplJoins, work: Work, sides: tuple[Side, Side]) -> tuple[Ints, Ints]:
    tables = [given(stage.node, n, side) for n, side in enumerate(sides)]
    if not all(t.num_rows for t in tables) or not any(bool(s.rows.place.any()) for s in sides):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    for name, table in zip(SIDES, tables, strict=True):
        work.put(name, VIEW, Rows(table))
    return pair_rows(work.compute.compute(work.sql["pairs"]).table)


def _matched(side: Side, pairs: Ints) -> Bools:
    """Return whether each row ever had a match."""
    found = np.array(combined(side.table[MATCHED]).to_numpy(zero_copy_only=False), np.bool_)
    found[pairs] = True
    return found


def _store(stage: SplJoins, work: Work, n: int, side: Side, matched: Bools, now: int) -> None:
    """Write the state: add new rows that stay, delete buffered rows that leave, and record first matches."""
    name, age, is_outer = stage.buffered[n], stage.ages[n], stage.node.outer[n]
    is_new, gone = side.rows.place > 0, side.stays.gone
    table = side.table
    if is_outer:
        at = table.schema.get_field_index(MATCHED)
        table = table.set_column(at, table.schema.field(at), pa.array(matched))
    known = np.array(combined(side.table[MATCHED]).to_numpy(zero_copy_only=False), np.bool_)
    changed = ~is_new & (gone | ((matched & ~known) if is_outer else np.zeros(len(matched), np.bool_)))
    if changed.any():
        staying = table.filter(pa.array(changed & ~gone))
        work.overwrite(name, KEY, combined(table.filter(pa.array(changed))[KEY]), Rows(staying))
    if age is not None and not is_outer:
        work.storage.delete_range(name, AT, now - age - 1)
    come = table.filter(pa.array(is_new & ~gone))
    if come.num_rows:
        work.append(Rows(come), name)
