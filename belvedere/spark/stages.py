"""Run one stage of an epoch: the rule decides what is looked up, what Spark computes and how the store takes it in.

In: the changes of the stage's inputs, the store's transaction. Out: the change of the stage's output, as Arrow with weights.
What is retracted is always the row that was stored: `Transaction.replace` finds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.incremental.clock_filter import ENTER, LEAVE
from belvedere.incremental.pipeline import WAITING, Relation, Slot
from belvedere.schema import KEY, WEIGHT
from belvedere.spark.exchange import Exchange, Rows
from belvedere.spark.merge_sql import view_name
from belvedere.spark.prepare import NEW, PreparedStage
from belvedere.store.protocol import StoredTable, Transaction

WEIGHT_FIELD = pa.field(WEIGHT, pa.int64(), nullable=False)
NEW_FIELD = pa.field(NEW, pa.bool_())


@dataclass
class Context:
    """What the stages of one epoch share."""

    exchange: Exchange
    transaction: Transaction
    tables: Mapping[str, StoredTable]
    deltas: dict[str, Rows]
    clock: datetime
    fresh: frozenset[str]
    """Stored relations that were empty and unknown before this epoch: they take in all rows of their inputs."""
    sequences: dict[str, int] = field(default_factory=dict)
    """The next `_seq` of each subscription."""
    bounds: Mapping[str, Mapping[str, int] | None] = field(default_factory=dict)
    """Per input the bounds of its event-time columns after this epoch's rows; None where nobody waits for it."""
    epoch: int = 0
    """The number of this epoch."""

    def delta_of(self, slot: Slot, relation: Relation, output: str) -> Rows | None:
        """The change of a slot's relation as this stage must see it; None where nothing changed."""
        if output in self.fresh and relation.is_state and slot.relation not in self.fresh:
            return Rows(weighted(self.look_up(relation.name, None, None), 1))
        rows = self.deltas.get(slot.relation)
        return None if rows is None or rows.is_empty else rows

    def look_up(self, relation: str, by: str | None, keys: pa.Array | None) -> pa.Table:
        return self.transaction.lookup(relation, by, keys).read_all()

    def append(self, relation: str, rows: pa.Table) -> None:
        """Store new rows; columns that the store does not hold (weights, hashes for changes alone) are left out."""
        self.transaction.append(relation, rows.select(self.tables[relation].arrow.names).to_reader())

    def replace(self, relation: str, by: str | None, keys: pa.Array | None, rows: pa.Table) -> pa.Table:
        return self.transaction.replace(relation, by, keys, rows.to_reader()).read_all()


def weighted(table: pa.Table, weight: int) -> pa.Table:
    """The rows with one weight for all."""
    return table.append_column(
        pa.field(WEIGHT, pa.int64(), nullable=False), pa.array(np.full(table.num_rows, weight), pa.int64())
    )


def collect_rows(prepared: PreparedStage, context: Context, sql: str, *extra: pa.Field) -> pa.Table:
    """The rows of one of the stage's texts, as its output is stored, with extra columns."""
    schema = stored_schema(prepared.output)
    for added in extra:
        schema = schema.append(added)
    return context.exchange.collect(sql, schema)


def stored_schema(relation: Relation) -> pa.Schema:
    """The Arrow schema of a relation's rows with `_key` and hashes, whether it is stored or not."""
    return StoredTable(relation.name, relation.schema, tuple(p.name for p in relation.paths)).arrow


def run_linear(prepared: PreparedStage, context: Context) -> Rows | None:
    """The operator applied to the changes."""
    if not put_deltas(prepared, context):
        return None
    table = collect_rows(prepared, context, prepared.sql[0], WEIGHT_FIELD)
    return _take(prepared, context, table)


def run_constant(prepared: PreparedStage, context: Context) -> Rows | None:
    """A relation without inputs: put in once."""
    if prepared.stage.output not in context.fresh:
        return None
    return _take(prepared, context, collect_rows(prepared, context, prepared.sql[0], WEIGHT_FIELD))


def put_deltas(prepared: PreparedStage, context: Context) -> bool:
    """Make the views of the slots' changes (empty ones too); whether there is any."""
    changed = False
    for slot, relation in prepared.slots:
        delta = context.delta_of(slot, relation, prepared.stage.output)
        changed = changed or delta is not None
        empty = stored_schema(relation).append(WEIGHT_FIELD).empty_table()
        context.exchange.put(prepared.view(slot, "delta"), delta or Rows(empty))
    return changed


def _take(prepared: PreparedStage, context: Context, table: pa.Table) -> Rows:
    """Write weighted rows to the output and return what really changed."""
    output = prepared.output
    if output.append_only:
        context.append(output.name, table)
        return Rows(table)
    keys = pc.unique(table[KEY])
    coming = table.filter(pc.greater(table[WEIGHT], 0)).drop_columns([WEIGHT])
    return Rows(context.replace(output.name, KEY, combined(keys), coming))


def combined(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One contiguous array."""
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def run_keyed(prepared: PreparedStage, context: Context) -> Rows | None:
    """Recompute the keys that the changes touch from the inputs' rows of those keys."""
    stage = prepared.stage
    found: list[pa.ChunkedArray] = []
    for slot, relation in prepared.slots:
        delta = context.delta_of(slot, relation, stage.output)
        if delta is not None and slot.path is not None:
            found.append(delta.table[slot.path])
    if stage.output in context.fresh and stage.path is not None and not prepared.output.path(stage.path).exprs:
        found.append(pa.chunked_array([pa.array([0], pa.int64())]))  # one group over nothing is still a group
    if not found:
        return None
    keys = combined(pc.unique(pa.chunked_array([c for f in found for c in f.chunks], pa.int64())))
    count = 0
    for slot, _ in prepared.slots:
        rows = context.look_up(slot.relation, slot.path, keys)
        context.exchange.put(prepared.view(slot, "rows"), Rows(rows))
        count += rows.num_rows
    put_windows(prepared, context, count)
    table = collect_rows(prepared, context, prepared.sql[0])
    return Rows(context.replace(stage.output, stage.path, keys, table))


def put_windows(prepared: PreparedStage, context: Context, rows: int) -> None:
    """Make the views of WINDOW BY operators, over the views of the slots, which have so many rows."""
    for windows in prepared.windows:
        frame = windows.frame(context.exchange.spark, rows <= context.exchange.small)
        context.exchange.put(view_name(prepared.number, windows.name, "rows"), Rows(frame=frame))


def run_whole(prepared: PreparedStage, context: Context) -> Rows | None:
    """Recompute everything from all rows of the inputs."""
    stage = prepared.stage
    changed = any(context.delta_of(s, r, stage.output) is not None for s, r in prepared.slots)
    if not (changed or stage.reads_clock or stage.output in context.fresh):
        return None
    count = 0
    for slot, _ in prepared.slots:
        rows = context.look_up(slot.relation, None, None)
        context.exchange.put(prepared.view(slot, "rows"), Rows(rows))
        count += rows.num_rows
    put_windows(prepared, context, count)
    table = collect_rows(prepared, context, prepared.sql[0])
    return Rows(context.replace(stage.output, None, None, table))


def run_join(prepared: PreparedStage, context: Context) -> Rows | None:
    """dL x R + L x dR, where R and L are looked up by the changed rows' keys; keys of vanished pairs come from dL x dR."""
    deltas = [context.delta_of(s, r, prepared.stage.output) for s, r in prepared.slots]
    terms = []
    for n, delta in enumerate(deltas):
        if delta is None:
            continue
        own, (other, _) = prepared.slots[n][0], prepared.slots[1 - n]
        keys = None if own.path is None else combined(pc.unique(delta.table[own.path]))
        context.exchange.put(prepared.view(own, "delta"), delta)
        context.exchange.put(prepared.view(other, "rows"), Rows(context.look_up(other.relation, other.path, keys)))
        terms.append(prepared.sql[n])
    if not terms:
        return None
    if len(terms) == 2 and not all(_only_grows(d) for d in deltas):
        terms.append(prepared.sql[2])
    table = collect_rows(prepared, context, " UNION ALL ".join(terms), NEW_FIELD)
    keys = combined(pc.unique(table[KEY]))
    rows = distinct_keys(table.filter(table[NEW]).drop_columns([NEW]))
    if prepared.output.append_only:
        context.append(prepared.stage.output, rows)
        return Rows(weighted(rows, 1))
    return Rows(context.replace(prepared.stage.output, KEY, keys, rows))


def _only_grows(delta: Rows | None) -> bool:
    return delta is not None and delta.table.num_rows > 0 and pc.min(delta.table[WEIGHT]).as_py() > 0


def distinct_keys(table: pa.Table) -> pa.Table:
    """One row per `_key`: rows of equal key are equal here."""
    codes = combined(table[KEY]).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    first = np.unique(codes, return_index=True)[1]
    return table if len(first) == table.num_rows else table.take(pa.array(np.sort(first)))


def run_clock(prepared: PreparedStage, context: Context) -> Rows | None:
    """Let rows in and out as time passes: changes of the input, rows whose time has come, rows whose time is over."""
    output, schema = prepared.output, stored_schema(prepared.output)
    now = int(pc.cast(pa.scalar(context.clock, pa.timestamp("us", tz="UTC")), pa.int64()).as_py())
    changed = schema.append(WEIGHT_FIELD).empty_table()
    if put_deltas(prepared, context):
        changed = collect_rows(prepared, context, prepared.sql[0], WEIGHT_FIELD)
    coming = changed.filter(pc.greater(changed[WEIGHT], 0)).drop_columns([WEIGHT])
    touched = [combined(changed[KEY])]
    waits = ENTER in schema.names
    if waits:
        due = context.transaction.lookup_range(output.name + WAITING, ENTER, None, now).read_all()
        due = due.filter(pc.invert(pc.is_in(due[KEY], value_set=touched[0])))
        later = coming.filter(pc.greater(coming[ENTER], now))
        keys = combined(pc.unique(pa.chunked_array([touched[0], combined(due[KEY])])))
        if len(keys):
            context.replace(output.name + WAITING, KEY, keys, _still(later, now))
        coming = pa.concat_tables([coming.filter(pc.less_equal(coming[ENTER], now)), due])
        touched.append(combined(due[KEY]))
    if LEAVE in schema.names:
        over = context.transaction.lookup_range(output.name, LEAVE, None, now).read_all()
        touched.append(combined(over[KEY]))
        coming = _still(coming, now)
    keys = combined(pc.unique(pa.chunked_array(touched, pa.string())))
    if not len(keys):
        return None
    return Rows(context.replace(output.name, KEY, keys, coming))


def _still(table: pa.Table, now: int) -> pa.Table:
    """Rows whose time to leave has not come."""
    return table.filter(pc.greater(table[LEAVE], now)) if LEAVE in table.schema.names else table
