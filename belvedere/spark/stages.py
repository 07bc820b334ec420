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

from belvedere.engine.costs import Costs
from belvedere.engine.relation import Relation, Slot
from belvedere.engine.render import quote
from belvedere.plan.monotone import NEVER
from belvedere.rules.clock_filter import ENTER, LEAVE
from belvedere.rules.pipeline import WAITING, Rule
from belvedere.schema import KEY, WEIGHT
from belvedere.spark.exchange import Exchange, Keys, Rows, combined, keys_of
from belvedere.spark.merge_sql import view_name
from belvedere.spark.prepare import NEW, PreparedStage
from belvedere.spark.standing import beside_standing
from belvedere.store.protocol import StoredTable, Transaction
from belvedere.time.event_time import Clocks

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
    clocks: Clocks = field(default_factory=Clocks)
    """The clocks of the inputs' event-time columns after this epoch's rows."""
    costs: Costs = field(default_factory=lambda: Costs(False))
    standing: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Per relation columns and bounds before this epoch: rows below them stand, and are not made anew of what is left of their inputs."""
    _seen: tuple[int, tuple[Rows | None, ...]] | None = None

    def deltas_of(self, prepared: PreparedStage) -> tuple[Rows | None, ...]:
        """The changes of a stage's slots as the stage must see them; None where nothing changed. Read once for each stage."""
        if self._seen is None or self._seen[0] != prepared.number:
            self._seen = (prepared.number, tuple(self._delta(s, r, prepared.stage.output) for s, r in prepared.slots))
        return self._seen[1]

    def _delta(self, slot: Slot, relation: Relation, output: str) -> Rows | None:
        if output in self.fresh and relation.is_state and slot.relation not in self.fresh:
            stored = self.look_up(relation.name, None, None)
            return self.exchange.keep(weighted_stream(stored, 1))
        rows = self.deltas.get(slot.relation)
        return None if rows is None or rows.is_empty else rows

    def is_touched(self, prepared: PreparedStage) -> bool:
        """Whether the stage has new input: a change of a slot, or all rows for a fresh output."""
        if prepared.stage.output in self.fresh:
            return True
        return any(not rows.is_empty for s in prepared.stage.slots if (rows := self.deltas.get(s.relation)) is not None)

    def look_up(self, relation: str, by: str | None, keys: Keys | pa.Array | None) -> Rows:
        return self.exchange.keep(self.transaction.lookup(relation, by, given(keys)))

    def look_up_range(self, relation: str, column: str, above: int | None, up_to: int | None) -> Rows:
        return self.exchange.keep(self.transaction.lookup_range(relation, column, above, up_to))

    def append(self, relation: str, rows: Rows) -> None:
        """Store new rows; columns that the store does not hold (weights, hashes for changes alone) are left out."""
        self.transaction.append(relation, rows.reader(self.tables[relation].arrow.names))

    def replace(self, relation: str, by: str | None, keys: Keys | pa.Array | None, rows: pa.RecordBatchReader) -> Rows:
        """What differs, once the rows of these keys are `rows`."""
        return self.exchange.keep(self.transaction.replace(relation, by, given(keys), rows))

    def overwrite(self, relation: str, by: str | None, keys: Keys | pa.Array, rows: pa.RecordBatchReader) -> None:
        """The same where nobody wants to know what differs."""
        self.transaction.replace(relation, by, given(keys), rows)


def given(keys: Keys | pa.Array | None) -> pa.Array | pa.RecordBatchReader | None:
    """Keys as the store takes them."""
    return keys.given() if isinstance(keys, Keys) else keys


def weighted_stream(rows: Rows, weight: int) -> pa.RecordBatchReader:
    """The same, a batch at a time."""
    schema = rows.schema.append(WEIGHT_FIELD)
    batches = (
        pa.RecordBatch.from_arrays([*b.columns, pa.repeat(pa.scalar(weight, pa.int64()), b.num_rows)], schema=schema)
        for b in rows.batches()
    )
    return pa.RecordBatchReader.from_batches(schema, batches)


def collect_rows(prepared: PreparedStage, context: Context, sql: str, *extra: pa.Field) -> Rows:
    """The rows of one of the stage's texts, as its output is stored, with extra columns."""
    schema = stored_schema(prepared.output)
    for added in extra:
        schema = schema.append(added)
    return context.exchange.compute(sql, schema)


def stored_schema(relation: Relation) -> pa.Schema:
    """The Arrow schema of a relation's rows with `_key` and hashes, whether it is stored or not."""
    return StoredTable(relation.name, relation.schema, tuple(p.name for p in relation.paths)).arrow


def run_linear(prepared: PreparedStage, context: Context) -> Rows | None:
    """The operator applied to the changes."""
    if not put_deltas(prepared, context):
        return None
    return _take(prepared, context, collect_rows(prepared, context, prepared.sql[0], WEIGHT_FIELD))


def run_constant(prepared: PreparedStage, context: Context) -> Rows | None:
    """A relation without inputs: put in once."""
    if prepared.stage.output not in context.fresh:
        return None
    return _take(prepared, context, collect_rows(prepared, context, prepared.sql[0], WEIGHT_FIELD))


def put_deltas(prepared: PreparedStage, context: Context) -> bool:
    """Make the views of the slots' changes (empty ones too), where there is any or the output is new; whether there is any."""
    if not context.is_touched(prepared):
        return False  # most stages of a script in most epochs
    deltas = context.deltas_of(prepared)
    for (slot, relation), delta in zip(prepared.slots, deltas, strict=True):
        empty = stored_schema(relation).append(WEIGHT_FIELD).empty_table()
        context.exchange.put(prepared.view(slot, "delta"), delta or Rows(empty))
    return any(d is not None for d in deltas)


def put_rows(prepared: PreparedStage, context: Context, keys: Keys | None) -> None:
    """Make the views of the slots' rows that have these keys (None: of all), and of WINDOW BY operators over them."""
    count = 0
    for slot, _ in prepared.slots:
        rows = context.look_up(slot.relation, None if keys is None else slot.path, keys)
        context.exchange.put(prepared.view(slot, "rows"), rows)
        count += rows.num_rows
    put_windows(prepared, context, count)


def put_windows(prepared: PreparedStage, context: Context, rows: int) -> None:
    """Make the views of WINDOW BY operators, over the views of the slots, which have so many rows."""
    for windows in prepared.windows:
        frame = windows.frame(context.exchange.spark, rows <= context.exchange.small)
        found = Rows(frame=frame, schema=windows.block.schema.arrow, count=rows)  # about as many
        context.exchange.put(view_name(prepared.number, windows.name, "rows"), found)


def coming(batch: pa.RecordBatch) -> pa.Array:
    """Which rows of a change come."""
    return pc.greater(batch.column(WEIGHT), 0)


def _take(prepared: PreparedStage, context: Context, rows: Rows) -> Rows:
    """Write weighted rows to the output and return what really changed."""
    output = prepared.output
    if output.append_only:
        context.append(output.name, rows)
        return rows
    return context.replace(output.name, KEY, keys_of([(rows, KEY)]), rows.where(coming, without(rows, WEIGHT)))


def without(rows: Rows, *names: str) -> list[str]:
    """The columns but these."""
    return [n for n in rows.schema.names if n not in names]


def prefers_whole(prepared: PreparedStage, context: Context) -> bool:
    """Whether to compute all of an operator's rows is cheaper than those of the changed keys: the choice by cost.

    A look-up by key costs some three times as much a row as reading a table from its beginning, and old and new rows of a join are
    joined three times. Rows that only arrive are not written again. Where rows have left, all that is left is not all: key by key.
    """
    stage, fresh = prepared.stage, prepared.stage.output in context.fresh
    if not context.costs.counted or (prepared.output.append_only and not fresh):
        return False
    if not fresh and any(r.loses_rows for r in (prepared.output, *(relation for _, relation in prepared.slots))):
        return False
    changed = [0 if delta is None else delta.num_rows for delta in context.deltas_of(prepared)]
    relations = [s.relation for s in stage.slots]
    crossed = stage.rule in (Rule.JOIN, Rule.EXISTENCE) and all(s.path is None for s in stage.slots)
    if not fresh and not context.costs.is_most(changed, relations, context.transaction.count, crossed):
        return False
    context.costs.whole.append(stage.output)
    return True


def run_keyed(prepared: PreparedStage, context: Context) -> Rows | None:
    """Recompute the keys that the changes touch from the inputs' rows of those keys."""
    if prefers_whole(prepared, context):
        return run_whole(prepared, context)
    stage = prepared.stage
    deltas = zip(prepared.slots, context.deltas_of(prepared), strict=True)
    found = [(delta, slot.path) for (slot, _), delta in deltas if delta is not None and slot.path is not None]
    more = []
    if stage.output in context.fresh and stage.path is not None and not prepared.output.path(stage.path).exprs:
        more.append(pa.array([0], pa.int64()))  # one group over nothing is still a group
    if not found and not more:
        return None
    keys = keys_of(found, *more)
    put_rows(prepared, context, keys)
    rows = collect_rows(prepared, context, prepared.sql[0])
    limits = limits_of(context, stage.output)
    if not limits or stage.output in context.fresh:
        return context.replace(stage.output, stage.path, keys, rows.reader())
    stored = context.look_up(stage.output, stage.path, keys)
    return context.replace(stage.output, stage.path, keys, beside_standing(rows, stored, limits))


def limits_of(context: Context, output: str) -> dict[str, int]:
    """The columns of a relation and the bounds below which its rows stand."""
    return {n: b for n, b in context.standing.get(output, {}).items() if b > NEVER}


def run_whole(prepared: PreparedStage, context: Context) -> Rows | None:
    """Recompute everything from all rows of the inputs."""
    if not (context.is_touched(prepared) or prepared.stage.reads_clock):
        return None
    put_rows(prepared, context, None)
    return context.replace(prepared.stage.output, None, None, collect_rows(prepared, context, prepared.sql[0]).reader())


def run_join(prepared: PreparedStage, context: Context) -> Rows | None:
    """dL x R + L x dR, where R and L are looked up by the changed rows' keys; keys of vanished pairs come from dL x dR."""
    if prefers_whole(prepared, context):
        return _join_whole(prepared, context)
    deltas = context.deltas_of(prepared)
    terms = []
    for n, delta in enumerate(deltas):
        if delta is None:
            continue
        own, (other, _) = prepared.slots[n][0], prepared.slots[1 - n]
        keys = None if own.path is None else keys_of([(delta, own.path)])
        context.exchange.put(prepared.view(own, "delta"), delta)
        context.exchange.put(prepared.view(other, "rows"), context.look_up(other.relation, other.path, keys))
        terms.append(prepared.sql[n])
    if not terms:
        return None
    if len(terms) == 2 and not all(_only_grows(d) for d in deltas):
        terms.append(prepared.sql[2])
    rows = collect_rows(prepared, context, " UNION ALL ".join(terms), NEW_FIELD)
    new = first_of_each_key(rows, NEW_FIELD, f"{prepared.number}_pairs", context) if len(terms) > 1 else rows
    there = new.where(lambda b: b.column(NEW), without(new, NEW))
    if prepared.output.append_only:
        kept = context.exchange.keep(there)
        context.append(prepared.stage.output, kept)
        return context.exchange.keep(weighted_stream(kept, 1))
    return context.replace(prepared.stage.output, KEY, keys_of([(rows, KEY)]), there)


def _join_whole(prepared: PreparedStage, context: Context) -> Rows:
    put_rows(prepared, context, None)
    rows = collect_rows(prepared, context, prepared.sql[3])
    if not prepared.output.append_only:
        return context.replace(prepared.stage.output, None, None, rows.reader())
    context.append(prepared.stage.output, rows)
    return context.exchange.keep(weighted_stream(rows, 1))


def _only_grows(delta: Rows | None) -> bool:
    if delta is None or delta.is_empty:
        return False
    return all(pc.min(b.column(0)).as_py() > 0 for b in delta.batches([WEIGHT]) if b.num_rows)


def first_of_each_key(rows: Rows, by: pa.Field, view: str, context: Context) -> Rows:
    """One row per `_key`: one with the greatest value of `by`. Rows of equal key and `by` are equal here."""
    if rows.is_collected:
        return Rows(_first_of_each_key(rows.table, by.name))
    context.exchange.put(view, rows)
    names = ", ".join(quote(n) for n in rows.schema.names)
    ranked = f"row_number() OVER (PARTITION BY {quote(KEY)} ORDER BY {quote(by.name)} DESC) AS `_rank`"
    source = quote(context.exchange.view_name(view))
    return context.exchange.compute(
        f"SELECT {names} FROM (SELECT *, {ranked} FROM {source}) AS r WHERE `_rank` = 1", rows.schema
    )


def _first_of_each_key(table: pa.Table, by: str) -> pa.Table:
    codes = combined(table[KEY]).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    rank = combined(table[by].cast(pa.int64())).to_numpy(zero_copy_only=False)
    order = np.lexsort((-rank, codes))
    first = order[np.unique(codes[order], return_index=True)[1]]
    return table if len(first) == table.num_rows else table.take(pa.array(np.sort(first)))


def run_clock(prepared: PreparedStage, context: Context) -> Rows | None:
    """Let rows in and out as time passes: changes of the input, rows whose time has come, rows whose time is over."""
    output, schema = prepared.output, stored_schema(prepared.output)
    now = int(pc.cast(pa.scalar(context.clock, pa.timestamp("us", tz="UTC")), pa.int64()).as_py())
    changed = Rows(schema.append(WEIGHT_FIELD).empty_table())
    if put_deltas(prepared, context):
        changed = collect_rows(prepared, context, prepared.sql[0], WEIGHT_FIELD)
    touched = [(changed, KEY)]
    entered = [changed.where(lambda b: pc.and_(coming(b), _is_in(b, now)), schema.names)]
    if ENTER in schema.names:
        due = _due(prepared, context, changed, now)
        entered.append(due.where(lambda b: _is_in(b, now)))
        touched.append((due, KEY))
    if LEAVE in schema.names:
        touched.append((context.look_up_range(output.name, LEAVE, None, now), KEY))
    keys = keys_of(touched)
    if keys.is_empty:
        return None
    batches = (b for part in entered for b in part)
    return context.replace(output.name, KEY, keys, pa.RecordBatchReader.from_batches(schema, batches))


def _due(prepared: PreparedStage, context: Context, changed: Rows, now: int) -> Rows:
    """Rows that waited and whose time has come; those of changed keys are replaced first, and later ones wait from now on."""
    waiting = prepared.output.name + WAITING
    schema = stored_schema(prepared.output)

    def waits(batch: pa.RecordBatch) -> pa.Array:
        later = pc.and_(coming(batch), pc.greater(batch.column(ENTER), now))
        return pc.and_(later, _lasts(batch, now))

    if not changed.is_empty:
        context.overwrite(waiting, KEY, keys_of([(changed, KEY)]), changed.where(waits, schema.names))
    due = context.look_up_range(waiting, ENTER, None, now)
    if not due.is_empty:
        context.transaction.delete_range(waiting, ENTER, now)
    return due


def _is_in(batch: pa.RecordBatch, now: int) -> pa.Array:
    """Which rows have entered and not left."""
    lasts = _lasts(batch, now)
    return pc.and_(pc.less_equal(batch.column(ENTER), now), lasts) if ENTER in batch.schema.names else lasts


def _lasts(batch: pa.RecordBatch, now: int) -> pa.Array:
    """Rows whose time to leave has not come."""
    if LEAVE not in batch.schema.names:
        return pa.repeat(pa.scalar(True), batch.num_rows)
    return pc.greater(batch.column(LEAVE), now)
