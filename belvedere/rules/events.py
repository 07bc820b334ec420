"""Events: one for each row of a relation that is new, changed or deleted (by its key), for subscriptions and exports.

An event has its row, `_op`, `_event_time` (the epoch's clock) and an increasing `_seq`. Events are stored as rows of a
relation; this module accesses no sink.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.catalog.subscriptions import ChangeKind, Subscription
from belvedere.engine.relation import Relation, Slot
from belvedere.engine.rows.epoch_rows import Rows, combined
from belvedere.engine.rows.ordered_rows import changes_by_key, stream
from belvedere.engine.sql.stage_sql import ROWS, Texts
from belvedere.engine.stage import Stage
from belvedere.engine.work import Work
from belvedere.plan.operators.nodes import Order, Scan
from belvedere.plan.sorting import sorted_places
from belvedere.rules.builder import Builder, StageOwner
from belvedere.schema import KEY, TIMESTAMP, WEIGHT, Column, Schema
from belvedere.store.stage_memory import Numbered
from belvedere.values.months import with_month_texts

OPERATION, EVENT_TIME, SEQUENCE, OLD = "_op", "_event_time", "_seq", "_old"
EVENT_COLUMNS = (
    Column(OPERATION, pa.string(), nullable=False),
    Column(EVENT_TIME, TIMESTAMP, nullable=False),
    Column(SEQUENCE, pa.int64(), nullable=False),
)
"""Additional columns of every event: ADD, CHANGE or DELETE, the epoch's clock, an increasing number."""
CHANGES = "$changes"
"""Suffix of the relation that holds an exported relation's changes until they are delivered."""
SAID = {ChangeKind.ADD: "new", ChangeKind.CHANGE: "changed", ChangeKind.DELETE: "gone"}
TEXT_ROWS = 1_000


@dataclass(frozen=True)
class EventsStage(Stage):
    """Stage of events. `on` selects the changes of the slot's relation that make events; None = all."""

    on: ChangeKind | None = None
    order: tuple[Order, ...] = ()
    """Order of an epoch's events of one kind. Ties, and epochs with many changes, are ordered by key."""

    rule = "events"
    in_driver = "the events, which it numbers"
    is_result = True
    emits_changes = True
    memory = Numbered

    @property
    def definition(self) -> tuple[str, ...]:
        return (*super().definition, str(self.on))

    def texts(self, texts: Texts) -> Mapping[str, str]:
        return {"rows": texts.rows(Scan("s0", texts.output.schema), ROWS)}

    def run(self, work: Work) -> Rows | None:
        """Return the events of this epoch, appended to the stage's relation in the order of `matching`."""
        (delta,) = work.deltas
        if delta is None:
            return None
        kinds = tuple(ChangeKind) if self.on is None else (self.on,)
        first = [n for n in (SEQUENCE,) if n in delta.schema.names]
        pieces = changes_by_key(delta, work.name("s0", "sorted"), work.compute, first)
        found = (_events(*self._in_order(*matching(piece, kind)), kind, work) for kind in kinds for piece in pieces())
        events = work.compute.keep(stream(_schema(work), found))
        if events.is_empty:
            return None
        work.put("s0", ROWS, events)
        return work.added(work.rows("rows"))

    def _in_order(self, rows: pa.Table, old: pa.Table) -> tuple[pa.Table, pa.Table]:
        if not self.order:
            return rows, old
        places = sorted_places(rows, self.order)
        return rows.take(places), old.take(places) if old.num_rows == rows.num_rows else old

    def frees(self, relation: Relation) -> str | None:
        return "changes leave once they are delivered" if relation.name.endswith(CHANGES) else None


def maintain_events(builder: Builder, subscription: Subscription) -> None:
    """Maintain the events of a subscription."""
    observed = builder.relation_of(subscription.view)
    reason = f"one event for each row of the observed query that is {SAID[subscription.on]}"
    scan = Scan("s0", builder.drafts[observed].relation.schema)
    stage = EventsStage(subscription.id, scan, (Slot("s0", observed),), subscription.id, reason, subscription.on)
    part = StageOwner(subscription.id, subscription.id, subscription.id)
    builder.emit(stage, part, subscription.schema, append_only=True, ranges=(SEQUENCE,))


def maintain_changes(builder: Builder, id_: str) -> None:
    """Maintain the changes of an exported relation, which are retained until they are delivered."""
    relation = builder.drafts[builder.relation_of(id_)].relation
    schema = Schema((*(c for c in relation.schema if not c.hidden), *EVENT_COLUMNS), (SEQUENCE,))
    part = StageOwner(id_ + CHANGES, id_, None)
    reason = "one event for each row that is new, changed or gone, until it is exported"
    order = builder.catalog.views[id_].order if id_ in builder.catalog.views else ()
    stage = EventsStage(part.name, Scan("s0", relation.schema), (Slot("s0", relation.name),), id_, reason, None, order)
    builder.emit(stage, part, schema, append_only=True, ranges=(SEQUENCE,))


def _events(rows: pa.Table, old: pa.Table, kind: ChangeKind, work: Work) -> pa.Table:
    """Return rows of one kind as events. `old` holds the previous version of each changed row, in the same order."""
    size = rows.num_rows
    made = {
        OPERATION: pa.repeat(pa.scalar(kind.value.upper()), size),
        EVENT_TIME: pa.repeat(pa.scalar(work.clock, TIMESTAMP), size),
        SEQUENCE: next_numbers(work, size),
    }
    columns = []
    for column in work.output.schema:
        if column.name == OLD:
            columns.append(_old_rows(old, column.type))
        else:
            columns.append(made.get(column.name) if column.name in made else rows[column.name].cast(column.type))
    return pa.table(columns, schema=_schema(work))


def _schema(work: Work) -> pa.Schema:
    """Return the columns of events.

    Rows of an earlier script can be NULL in columns that are not nullable now. Their events are deletes.
    """
    return pa.schema([f.with_nullable(True) for f in work.output.schema.arrow])


def next_numbers(work: Work, count: int) -> pa.Array:
    """Return the next `count` numbers of the output's rows. The stage's memory is `Numbered`."""
    numbers = work.recall(Numbered).take_numbers(count)
    return pa.array(np.arange(numbers.start, numbers.stop), pa.int64())


def matching(delta: pa.Table, on: ChangeKind) -> tuple[pa.Table, pa.Table]:
    """Return the rows that make events and, for CHANGE, their old rows in the same order.

    Rows are matched by their keys, or by their numbers in a changelog.
    """
    order = [(n, "ascending") for n in (SEQUENCE, KEY) if n in delta.schema.names]
    new = delta.filter(pc.greater(delta[WEIGHT], 0)).sort_by(order)
    old = delta.filter(pc.less(delta[WEIGHT], 0)).sort_by(order)
    if on is ChangeKind.ADD:
        return new.filter(pc.invert(pc.is_in(new[KEY], value_set=combined(old[KEY])))), old.slice(0, 0)
    if on is ChangeKind.DELETE:
        return old.filter(pc.invert(pc.is_in(old[KEY], value_set=combined(new[KEY])))), old.slice(0, 0)
    both = new.filter(pc.is_in(new[KEY], value_set=combined(old[KEY])))
    return both, old.filter(pc.is_in(old[KEY], value_set=combined(new[KEY])))


def _shown(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = with_month_texts(pa.Table.from_batches([rows])).to_pylist()
    return found


def _old_rows(old: pa.Table, type_: pa.DataType) -> pa.Array:
    """Return the old rows as the value of `_old`: a struct of the observed columns, or JSON text."""
    if pa.types.is_struct(type_):
        fields = [combined(old[f.name]).cast(f.type) for f in type_]
        return pa.StructArray.from_arrays(fields, fields=list(type_))
    names = [n for n in old.schema.names if not n.startswith("_")]
    batches = old.select(names).to_batches(
        max_chunksize=TEXT_ROWS
    )  # rows as Python values take about ten times the memory
    texts = [pa.array([json.dumps(row, default=str) for row in _shown(b)], pa.string()) for b in batches]
    return pa.concat_arrays(texts) if texts else pa.array([], pa.string())
