"""Subscriptions: from a view's change to events.

In: the delta of the observed query in one epoch. Out: one event per row that is new, changed or gone (by its key), with `_op`,
`_event_time` (the epoch's clock) and an ever-growing `_seq`. Events are rows like any other; nothing here talks to a sink.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.catalog import ChangeKind
from belvedere.rules.pipeline import EVENT_TIME, OLD, OPERATION, SEQUENCE
from belvedere.schema import KEY, TIMESTAMP, WEIGHT
from belvedere.spark.exchange import Rows, combined
from belvedere.spark.ordered import changes_by_key, stream
from belvedere.spark.prepare import PreparedStage
from belvedere.spark.stages import Context, stored_schema, weighted_stream

TEXT_ROWS = 1_000


def run_events(prepared: PreparedStage, context: Context) -> Rows | None:
    """The events of this epoch, appended to the subscription's relation in the order of `matching`."""
    slot, _ = prepared.slots[0]
    (delta,) = context.deltas_of(prepared)
    if delta is None:
        return None
    kinds = tuple(ChangeKind) if prepared.stage.on is None else (prepared.stage.on,)
    first = [n for n in (SEQUENCE,) if n in delta.schema.names]
    pieces = changes_by_key(delta, prepared.view(slot, "sorted"), context.exchange, first)
    found = (_events(*matching(piece, kind), kind, prepared, context) for kind in kinds for piece in pieces())
    events = context.exchange.keep(stream(prepared.output.schema.arrow, found))
    if events.is_empty:
        return None
    context.exchange.put(prepared.view(slot, "rows"), events)
    numbered = context.exchange.compute(prepared.sql[0], stored_schema(prepared.output))
    context.append(prepared.stage.output, numbered)
    return context.exchange.keep(weighted_stream(numbered, 1))


def _events(rows: pa.Table, old: pa.Table, kind: ChangeKind, prepared: PreparedStage, context: Context) -> pa.Table:
    """Rows of one kind as events; `old` are the rows before, side by side, where they changed."""
    name, size = prepared.stage.output, rows.num_rows
    first = context.sequences.get(name, 1)
    context.sequences[name] = first + size
    made = {
        OPERATION: pa.repeat(pa.scalar(kind.value.upper()), size),
        EVENT_TIME: pa.repeat(pa.scalar(context.clock, TIMESTAMP), size),
        SEQUENCE: pa.array(np.arange(first, first + size), pa.int64()),
    }
    columns = []
    for column in prepared.output.schema:
        if column.name == OLD:
            columns.append(_old_rows(old, column.type))
        else:
            columns.append(made.get(column.name) if column.name in made else rows[column.name].cast(column.type))
    return pa.table(columns, schema=prepared.output.schema.arrow)


def matching(delta: pa.Table, on: ChangeKind) -> tuple[pa.Table, pa.Table]:
    """The rows that make events and (for CHANGE) their old rows side by side: by their keys, those of a changelog by their numbers."""
    order = [(n, "ascending") for n in (SEQUENCE, KEY) if n in delta.schema.names]
    new = delta.filter(pc.greater(delta[WEIGHT], 0)).sort_by(order)
    old = delta.filter(pc.less(delta[WEIGHT], 0)).sort_by(order)
    if on is ChangeKind.ADD:
        return new.filter(pc.invert(pc.is_in(new[KEY], value_set=combined(old[KEY])))), old.slice(0, 0)
    if on is ChangeKind.DELETE:
        return old.filter(pc.invert(pc.is_in(old[KEY], value_set=combined(new[KEY])))), old.slice(0, 0)
    both = new.filter(pc.is_in(new[KEY], value_set=combined(old[KEY])))
    return both, old.filter(pc.is_in(old[KEY], value_set=combined(new[KEY])))


def _old_rows(old: pa.Table, type_: pa.DataType) -> pa.Array:
    """The old rows as the value of `_old`: a struct of the observed columns, or JSON text."""
    if pa.types.is_struct(type_):
        fields = [combined(old[f.name]).cast(f.type) for f in type_]
        return pa.StructArray.from_arrays(fields, fields=list(type_))
    names = [n for n in old.schema.names if not n.startswith("_")]
    batches = old.select(names).to_batches(max_chunksize=TEXT_ROWS)  # rows as Python values take some ten times the memory
    texts = [pa.array([json.dumps(row, default=str) for row in b.to_pylist()], pa.string()) for b in batches]
    return pa.concat_arrays(texts) if texts else pa.array([], pa.string())
