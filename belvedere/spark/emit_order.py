"""Run SELECT STREAM: rows that arrived come out in the order of their time, as soon as none before them can come.

In: the new rows of an input, its bound. Out: rows appended to the stream with an ever-growing number. Rows whose time is not reached wait
in a relation of their own, and follow their changes there (a window's values); once out they stay as they are. ORDER BY ... WITHIN makes
its own bound of the times seen, ignores the input's and drops rows below its own and rows without a time (SQLstream, T-sort).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.incremental.emission import WAITING_COLUMNS
from belvedere.incremental.pipeline import WAITING
from belvedere.plan.monotone import NEVER
from belvedere.plan.time_nodes import SEQUENCE, InOrder
from belvedere.schema import KEY, TIMESTAMP, UID, WEIGHT
from belvedere.spark.exchange import Rows, combined, conform
from belvedere.spark.prepare import PreparedStage
from belvedere.spark.stages import Context, stored_schema, weighted_stream

AT, ARRIVED = (c.name for c in WAITING_COLUMNS)


def run_in_order(prepared: PreparedStage, context: Context) -> Rows | None:
    """One epoch of a SELECT STREAM."""
    emission = prepared.stage.emission
    if emission is None or not isinstance(emission.node, InOrder):
        raise AssertionError(f"stage {prepared.stage.output} orders nothing")
    (delta,) = context.deltas_of(prepared)
    name, waiting = prepared.stage.output, prepared.stage.output + WAITING
    coming = None if delta is None else _arrived(_still_waiting(delta.table, waiting, context), emission.node, name, context)
    if emission.node.within is None:
        bound = emission.bounds(context.bounds.__getitem__)[0]
        bound -= 1 if emission.node.then and bound > NEVER else 0
    else:
        coming, bound = _sorted_in(coming, emission.node.within, name, context)
    due = context.transaction.lookup_range(waiting, AT, None, bound).read_all() if bound > NEVER else None
    parts = [] if due is None or not due.num_rows else [due]
    if due is not None and due.num_rows:
        context.overwrite(waiting, KEY, combined(due[KEY]), due.slice(0, 0).to_reader())
    if coming is not None and coming.num_rows:
        coming = conform(coming, context.tables[waiting].arrow)
        now = pc.less_equal(coming[AT], pa.scalar(bound, pa.int64()))
        context.append(waiting, Rows(coming.filter(pc.invert(now))))
        parts.append(coming.filter(now))
    rows = pa.concat_tables(parts) if parts else None
    return None if rows is None or not rows.num_rows else _released(rows, prepared, context)


def _still_waiting(delta: pa.Table, waiting: str, context: Context) -> pa.Table:
    """A change without those of rows that are out already; rows that wait and change are taken back from there first."""
    olds = delta.filter(pc.less(delta[WEIGHT], 0))
    if not olds.num_rows:
        return delta
    nothing = context.tables[waiting].arrow.empty_table().to_reader()
    found = context.replace(waiting, KEY, combined(olds[KEY]), nothing).table
    out = olds.filter(pc.invert(pc.is_in(olds[KEY], value_set=combined(found[KEY]))))
    return delta.filter(pc.invert(pc.is_in(delta[KEY], value_set=combined(out[KEY]))))


def _arrived(delta: pa.Table, node: InOrder, name: str, context: Context) -> pa.Table:
    """New rows with the time that they wait for and the order in which they came; rows without a time come first."""
    rows = delta.filter(pc.greater(delta[WEIGHT], 0))
    order = [(c, "ascending") for c in rows.schema.names if c == UID or c.startswith(f"{UID}_")]
    rows = rows.sort_by([*order, (KEY, "ascending")])
    first = context.sequences.get(f"{name} arrived", 0)
    context.sequences[f"{name} arrived"] = first + rows.num_rows
    times = rows[node.time].cast(TIMESTAMP).cast(pa.int64())
    if node.within is None:
        times = pc.fill_null(times, NEVER)
    rows = rows.append_column(AT, times)
    return rows.append_column(ARRIVED, pa.array(np.arange(first, first + rows.num_rows), pa.int64()))


def _sorted_in(rows: pa.Table | None, within: int, name: str, context: Context) -> tuple[pa.Table | None, int]:
    """The rows that are not too late for the sort, and the time up to which it is done."""
    highest = context.sequences.get(f"{name} highest", NEVER)
    if rows is None:
        return None, _before(highest, within)
    rows = rows.filter(pc.is_valid(rows[AT]))
    times = np.asarray(rows[AT].to_numpy(), dtype=np.int64)
    seen = np.maximum.accumulate(np.concatenate([np.array([highest], dtype=np.int64), times]))
    limits = np.where(seen[:-1] == NEVER, NEVER, seen[:-1] - within)
    context.sequences[f"{name} highest"] = int(seen[-1])
    return rows.filter(pa.array(times >= limits)), _before(int(seen[-1]), within)


def _before(highest: int, within: int) -> int:
    return highest - within if highest > NEVER else NEVER


def _in_order(rows: pa.Table, prepared: PreparedStage) -> pa.Table:
    """By time, then by the keys of ORDER BY, then as they arrived."""
    emission = prepared.stage.emission
    then = emission.node.then if emission is not None and isinstance(emission.node, InOrder) else ()
    keys = {AT: rows[AT]}
    order = [(AT, "ascending")]
    for number, (name, descending, nulls_first) in enumerate(then):
        keys |= {f"null{number}": pc.is_null(rows[name]), f"key{number}": rows[name]}
        order += [(f"null{number}", "descending" if nulls_first else "ascending")]
        order += [(f"key{number}", "descending" if descending else "ascending")]
    keys[ARRIVED] = rows[ARRIVED]
    return rows.take(pc.sort_indices(pa.table(keys), sort_keys=[*order, (ARRIVED, "ascending")]))


def _released(rows: pa.Table, prepared: PreparedStage, context: Context) -> Rows:
    name = prepared.stage.output
    rows = _in_order(rows, prepared)
    first = context.sequences.get(name, 1)
    context.sequences[name] = first + rows.num_rows
    numbers = pa.array(np.arange(first, first + rows.num_rows), pa.int64())
    columns = {c.name: numbers if c.name == SEQUENCE else rows[c.name] for c in prepared.output.schema}
    slot, _ = prepared.slots[0]
    context.exchange.put(prepared.view(slot, "rows"), Rows(pa.table(columns)))
    numbered = context.exchange.compute(prepared.sql[0], stored_schema(prepared.output))
    context.append(name, numbered)
    return context.exchange.keep(weighted_stream(numbered, 1))
