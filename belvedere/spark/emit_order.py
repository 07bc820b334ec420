"""Run SELECT STREAM: rows that arrived come out in the order of their time, as soon as none before them can come.

In: the new rows of an input, its bound. Out: rows appended to the stream with an ever-growing number. Rows whose time is not reached wait
in a relation of their own, and follow their changes there (a window's values); once out they stay as they are. ORDER BY ... WITHIN makes
its own bound of the times seen, ignores the input's and drops rows below its own and rows without a time (SQLstream, T-sort).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.engine.render import quote
from belvedere.plan.monotone import NEVER
from belvedere.plan.time_nodes import SEQUENCE, InOrder
from belvedere.rules.emit.emission import WAITING_COLUMNS
from belvedere.rules.pipeline import WAITING
from belvedere.schema import KEY, TIMESTAMP, UID, WEIGHT
from belvedere.spark.exchange import Rows, combined, conform
from belvedere.spark.ordered import changes_by_key, in_order, stream
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
    coming = None if delta is None else _coming(delta, emission.node, prepared, context)
    if emission.node.within is None:
        bound = emission.bounds(context.bounds.__getitem__)[0]
        bound -= 1 if emission.node.then and bound > NEVER else 0
    else:
        bound = _before(context.sequences.get(f"{name} highest", NEVER), emission.node.within)
    parts = []
    if bound > NEVER:
        parts.append(context.look_up_range(waiting, AT, None, bound))
        context.transaction.delete_range(waiting, AT, bound)
    if coming is not None:
        limit = pa.scalar(bound, pa.int64())
        context.transaction.append(waiting, coming.where(lambda b: pc.greater(b.column(AT), limit)))
        parts.append(context.exchange.keep(coming.where(lambda b: pc.less_equal(b.column(AT), limit))))
    parts = [p for p in parts if not p.is_empty]
    return _released(parts, prepared, context) if parts else None


def _coming(delta: Rows, node: InOrder, prepared: PreparedStage, context: Context) -> Rows:
    """The new rows of a change that have their turn yet to come, numbered as they arrived."""
    slot, relation = prepared.slots[0]
    name = prepared.stage.output
    schema = context.tables[name + WAITING].arrow
    if relation.append_only:
        rows = delta
    else:
        pieces = changes_by_key(delta, prepared.view(slot, "changes"), context.exchange)
        found = (_still_waiting(t, name + WAITING, context) for t in pieces())
        rows = context.exchange.keep(stream(delta.schema, found))
    numbers = [c for c in rows.schema.names if c == UID or c.startswith(f"{UID}_")]
    if rows.is_collected:
        ordered = Rows(rows.table.sort_by([(c, "ascending") for c in (*numbers, KEY)]))
    else:
        ordered = in_order(rows, [quote(c) for c in (*numbers, KEY)], prepared.view(slot, "arrived"), context.exchange)
    arrived = (_arrived(t, node, name, context) for t in ordered.tables())
    if node.within is not None:
        arrived = (_sorted_in(t, node.within, name, context) for t in arrived)
    return context.exchange.keep(stream(schema, (conform(t, schema) for t in arrived)))


def _still_waiting(delta: pa.Table, waiting: str, context: Context) -> pa.Table:
    """A change without those of rows that are out already; rows that wait and change are taken back from there first.

    All rows of a key are in the change.
    """
    olds = delta.filter(pc.less(delta[WEIGHT], 0))
    if not olds.num_rows:
        return delta
    nothing = context.tables[waiting].arrow.empty_table().to_reader()
    found = context.replace(waiting, KEY, combined(olds[KEY]), nothing).table
    out = olds.filter(pc.invert(pc.is_in(olds[KEY], value_set=combined(found[KEY]))))
    return delta.filter(pc.invert(pc.is_in(delta[KEY], value_set=combined(out[KEY]))))


def _arrived(delta: pa.Table, node: InOrder, name: str, context: Context) -> pa.Table:
    """New rows, in the order in which they came, with its number and the time that they wait for; rows without a time come first."""
    rows = delta.filter(pc.greater(delta[WEIGHT], 0))
    first = context.sequences.get(f"{name} arrived", 0)
    context.sequences[f"{name} arrived"] = first + rows.num_rows
    times = rows[node.time].cast(TIMESTAMP).cast(pa.int64())
    if node.within is None:
        times = pc.fill_null(times, NEVER)
    rows = rows.append_column(AT, times)
    return rows.append_column(ARRIVED, pa.array(np.arange(first, first + rows.num_rows), pa.int64()))


def _sorted_in(rows: pa.Table, within: int, name: str, context: Context) -> pa.Table:
    """The rows that are not too late for the sort; the highest time seen goes on beside the epoch."""
    highest = context.sequences.get(f"{name} highest", NEVER)
    rows = rows.filter(pc.is_valid(rows[AT]))
    times = np.asarray(rows[AT].to_numpy(), dtype=np.int64)
    seen = np.maximum.accumulate(np.concatenate([np.array([highest], dtype=np.int64), times]))
    limits = np.where(seen[:-1] == NEVER, NEVER, seen[:-1] - within)
    context.sequences[f"{name} highest"] = int(seen[-1])
    return rows.filter(pa.array(times >= limits))


def _before(highest: int, within: int) -> int:
    return highest - within if highest > NEVER else NEVER


def _in_order(parts: list[Rows], prepared: PreparedStage, context: Context) -> Rows:
    """By time, then by the keys of ORDER BY, then as they arrived."""
    emission = prepared.stage.emission
    then = emission.node.then if emission is not None and isinstance(emission.node, InOrder) else ()
    if not all(p.is_collected for p in parts):
        rows = context.exchange.keep(stream(parts[0].schema, (t for p in parts for t in p.tables())))
        words = (f"{quote(n)} {'DESC' if down else 'ASC'} NULLS {'FIRST' if nulls else 'LAST'}" for n, down, nulls in then)
        view = prepared.view(prepared.slots[0][0], "due")
        return in_order(rows, [quote(AT), *words, quote(ARRIVED)], view, context.exchange)
    table = pa.concat_tables([p.table for p in parts])
    keys = {AT: table[AT]}
    order = [(AT, "ascending")]
    for number, (name, descending, nulls_first) in enumerate(then):
        way = "descending" if descending else "ascending"
        keys |= {f"null{number}": pc.is_null(table[name]), f"key{number}": table[name]}
        order += [(f"null{number}", "descending" if nulls_first else "ascending")]
        if pa.types.is_floating(table[name].type):
            keys[f"nan{number}"] = pc.is_nan(table[name])  # NaN is the greatest number
            order += [(f"nan{number}", way)]
        order += [(f"key{number}", way)]
    keys[ARRIVED] = table[ARRIVED]
    return Rows(table.take(pc.sort_indices(pa.table(keys), sort_keys=[*order, (ARRIVED, "ascending")])))


def _released(parts: list[Rows], prepared: PreparedStage, context: Context) -> Rows:
    """Rows whose turn has come, numbered and stored."""
    slot, _ = prepared.slots[0]
    found = (_numbered(t, prepared, context) for t in _in_order(parts, prepared, context).tables())
    rows = context.exchange.keep(stream(prepared.output.schema.arrow, found))
    context.exchange.put(prepared.view(slot, "rows"), rows)
    stored = context.exchange.compute(prepared.sql[0], stored_schema(prepared.output))
    context.append(prepared.stage.output, stored)
    return context.exchange.keep(weighted_stream(stored, 1))


def _numbered(rows: pa.Table, prepared: PreparedStage, context: Context) -> pa.Table:
    name = prepared.stage.output
    first = context.sequences.get(name, 1)
    context.sequences[name] = first + rows.num_rows
    numbers = pa.array(np.arange(first, first + rows.num_rows), pa.int64())
    columns = {c.name: numbers if c.name == SEQUENCE else rows[c.name] for c in prepared.output.schema}
    return conform(pa.table(columns), prepared.output.schema.arrow)
