"""Keep every version of a relation's rows: a row that goes or changes stays, with the epochs between which it held.

In: the change of a relation. Out: its history in the store. A version that holds has the row's own `_key`; one that is over has its end
behind it. Since when the history is complete goes with the epoch row: whoever asks for an earlier state must be told.
"""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.incremental.event_time import instant
from belvedere.schema import KEY, SINCE_EPOCH, SINCE_TIME, TIMESTAMP, UNTIL_EPOCH, UNTIL_TIME, WEIGHT
from belvedere.spark.exchange import Rows, combined, conform
from belvedere.spark.prepare import PreparedStage
from belvedere.spark.stages import Context
from belvedere.store.history import BEGAN, BEGAN_TIME


def run_history(prepared: PreparedStage, context: Context) -> Rows | None:
    """End the versions of rows that went, and begin those of rows that came."""
    name = prepared.stage.output
    if name in context.fresh:
        context.sequences[name + BEGAN] = context.epoch
        context.sequences[name + BEGAN_TIME] = instant(context.clock)
    (delta,) = context.deltas_of(prepared)
    if delta is not None:
        _add_versions(delta.table, name, context)
    if prepared.stage.keep is not None:
        _forget(name, prepared.stage.keep, context)
    return None


def _add_versions(delta: pa.Table, name: str, context: Context) -> None:
    coming = delta.filter(pc.greater(delta[WEIGHT], 0))
    going = combined(delta.filter(pc.less(delta[WEIGHT], 0))[KEY])
    schema = context.tables[name].arrow
    began = _dated(coming, (context.epoch, context.clock), SINCE_EPOCH, SINCE_TIME)
    began = conform(_dated(began, (None, None), UNTIL_EPOCH, UNTIL_TIME), schema)
    if not len(going):
        context.append(name, Rows(began))
        return
    over = context.look_up(name, KEY, going).table
    over = _dated(over, (context.epoch, context.clock), UNTIL_EPOCH, UNTIL_TIME)
    ended = pc.binary_join_element_wise(over[KEY], pa.scalar(f"{context.epoch}"), "\x01")
    over = conform(over.set_column(over.schema.names.index(KEY), KEY, ended), schema)
    context.overwrite(name, KEY, combined(pc.unique(delta[KEY])), pa.concat_tables([over, began]).to_reader())


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
    old = context.transaction.lookup_range(name, UNTIL_TIME, None, last).read_all()
    if not old.num_rows:
        return
    context.transaction.delete_range(name, UNTIL_TIME, last)
    for suffix, newest in ((BEGAN, pc.max(old[UNTIL_EPOCH]).as_py()), (BEGAN_TIME, instant(pc.max(old[UNTIL_TIME]).as_py()))):
        context.sequences[name + suffix] = max(context.sequences.get(name + suffix, newest), newest)
