"""Keep every version of a relation's rows: a row that goes or changes stays, with the epochs between which it held.

In: the change of a relation. Out: its history in the store. A version that holds has the row's own `_key`; one that is over has its end
behind it. Since when the history is complete goes with the epoch row: whoever asks for an earlier state must be told.
"""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.instants import microseconds
from belvedere.schema import KEY, SINCE_EPOCH, SINCE_TIME, TIMESTAMP, UNTIL_EPOCH, UNTIL_TIME, WEIGHT
from belvedere.spark.exchange import Rows, conform
from belvedere.spark.prepare import PreparedStage
from belvedere.spark.stages import Context, coming
from belvedere.store.read.history import BEGAN, BEGAN_TIME


def run_history(prepared: PreparedStage, context: Context) -> Rows | None:
    """End the versions of rows that went, and begin those of rows that came."""
    name = prepared.stage.output
    if name in context.fresh:
        context.sequences[name + BEGAN] = context.epoch
        context.sequences[name + BEGAN_TIME] = microseconds(context.clock)
    (delta,) = context.deltas_of(prepared)
    if delta is not None:
        _add_versions(delta, name, context)
    if prepared.stage.keep is not None:
        _forget(name, prepared.stage.keep, context)
    return None


def _add_versions(delta: Rows, name: str, context: Context) -> None:
    """End what went, then begin what came, each piece by piece: a row that changes does both."""
    now = (context.epoch, context.clock)
    schema = context.tables[name].arrow
    for batch in delta.batches():
        going = batch.filter(pc.less(batch.column(WEIGHT), 0)).column(KEY)
        if len(going):
            over = _dated(context.look_up(name, KEY, going).table, now, UNTIL_EPOCH, UNTIL_TIME)
            ended = pc.binary_join_element_wise(over[KEY], pa.scalar(f"{context.epoch}"), "\x01")
            over = conform(over.set_column(over.schema.names.index(KEY), KEY, ended), schema)
            context.overwrite(name, KEY, going, over.to_reader())
    came = (pa.Table.from_batches([b]) for b in delta.where(coming))
    began = (_dated(_dated(t, now, SINCE_EPOCH, SINCE_TIME), (None, None), UNTIL_EPOCH, UNTIL_TIME) for t in came)
    batches = (b for t in began for b in conform(t, schema).to_batches())
    context.transaction.append(name, pa.RecordBatchReader.from_batches(schema, batches))


def _dated(rows: pa.Table, when: tuple[object, object], epoch: str, time: str) -> pa.Table:
    """The rows with an epoch and its clock in two columns."""
    for column, value, type_ in ((epoch, when[0], pa.int64()), (time, when[1], TIMESTAMP)):
        values = pa.array([value] * rows.num_rows, type_)
        place = rows.schema.get_field_index(column)
        rows = rows.append_column(column, values) if place < 0 else rows.set_column(place, column, values)
    return rows


def _forget(name: str, keep: int, context: Context) -> None:
    """Drop versions that are over for long enough; what was before the end of the last of them can be told no more."""
    last = context.clock - timedelta(microseconds=keep)
    old = context.transaction.lookup_range(name, UNTIL_TIME, None, last)
    ends = [(pc.max(b.column(UNTIL_EPOCH)).as_py(), pc.max(b.column(UNTIL_TIME)).as_py()) for b in old if b.num_rows]
    if not ends:
        return
    context.transaction.delete_range(name, UNTIL_TIME, last)
    for suffix, newest in ((BEGAN, max(e for e, _ in ends)), (BEGAN_TIME, microseconds(max(t for _, t in ends)))):
        context.sequences[name + suffix] = max(context.sequences.get(name + suffix, newest), newest)
