"""History: every version of a relation's rows.

A row that is deleted or changed stays, with the epochs in which it was valid.

A valid version has the `_key` of its row; an ended version has its end appended to the `_key`. The epoch row records
from when on the history is complete; reads of an earlier state are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.engine.relation import Relation, Slot
from belvedere.engine.rows.epoch_rows import WEIGHT_FIELD, Rows, coming, conform
from belvedere.engine.sql.stage_sql import Texts
from belvedere.engine.stage import Stage
from belvedere.engine.work import Work
from belvedere.plan.operators.nodes import Scan
from belvedere.rules.builder import Builder, StageOwner
from belvedere.schema import (
    HISTORY,
    KEY,
    SINCE_EPOCH,
    SINCE_TIME,
    TIMESTAMP,
    UNTIL_EPOCH,
    UNTIL_TIME,
    WEIGHT,
    Column,
    Schema,
)
from belvedere.store.stage_memory import HistoryMemory
from belvedere.values.instants import microseconds

VERSION_COLUMNS = (
    Column(SINCE_EPOCH, pa.int64(), nullable=False, hidden=True),
    Column(UNTIL_EPOCH, pa.int64(), hidden=True),
    Column(SINCE_TIME, TIMESTAMP, nullable=False, hidden=True),
    Column(UNTIL_TIME, TIMESTAMP, hidden=True),
)
"""Additional columns of a version of a row."""


@dataclass(frozen=True)
class HistoryStage(Stage):
    """Stage of a history. `retention`: microseconds for which ended versions are retained; None = always."""

    retention: int | None

    rule = "history"
    in_driver = "the versions that end, which the database has"
    is_result = True
    memory = HistoryMemory

    def texts(self, texts: Texts) -> Mapping[str, str]:
        return {}

    def run(self, work: Work) -> Rows | None:
        """End the versions of deleted rows, and begin versions of new rows."""
        if work.is_fresh:
            memory = work.recall(HistoryMemory)
            memory.began, memory.began_at = work.context.epoch, microseconds(work.clock)
        (delta,) = work.deltas
        if delta is not None:
            _add_versions(delta, self.output, work)
        if self.retention is not None:
            _forget(self.output, self.retention, work)
        return None

    def frees(self, relation: Relation) -> str | None:
        known = self.retention is not None
        return "versions leave some time after they end" if known else "unbounded: every version is retained"


def maintain_history(builder: Builder, id_: str, retention: int | None) -> None:
    """Maintain all versions of a relation's rows in a relation beside it."""
    relation = builder.drafts[builder.relation_of(id_)].relation
    part = StageOwner(id_ + HISTORY, id_, None)
    schema = Schema((*relation.schema.columns, *VERSION_COLUMNS), (*(relation.schema.key or ()), SINCE_EPOCH))
    reason = "every version of every row" + (f", for {retention}us after it ends" if retention is not None else "")
    stage = HistoryStage(part.name, Scan("s0", relation.schema), (Slot("s0", relation.name),), id_, reason, retention)
    builder.emit(stage, part, schema, ranges=(UNTIL_TIME,))


def _add_versions(delta: Rows, name: str, work: Work) -> None:
    """End old versions, then begin new ones, piece by piece. A changed row does both."""
    now = (work.context.epoch, work.clock)
    schema = work.stored_schema(name)
    for batch in delta.batches():
        going = batch.filter(pc.less(batch.column(WEIGHT), 0)).column(KEY)
        if len(going):
            held = work.look_up(name, KEY, going).table
            over = _dated(held, now, UNTIL_EPOCH, UNTIL_TIME)
            ended = pc.binary_join_element_wise(over[KEY], pa.scalar(f"{work.context.epoch}"), "\x01")
            over = over.set_column(over.schema.names.index(KEY), KEY, ended)
            weighted = ((conform(held, schema), -1), (conform(over, schema), 1))
            parts = (t.append_column(WEIGHT_FIELD, pa.repeat(pa.scalar(w, pa.int64()), len(t))) for t, w in weighted)
            work.storage.apply(name, pa.concat_tables(parts).to_reader())

    def began(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in (pa.Table.from_batches([b.filter(coming(b))]) for b in batches):
            since = _dated(table, now, SINCE_EPOCH, SINCE_TIME)
            yield from conform(_dated(since, (None, None), UNTIL_EPOCH, UNTIL_TIME), schema).to_batches()

    work.append(work.mapped(delta, schema, began), name)


def _dated(rows: pa.Table, when: tuple[object, object], epoch: str, time: str) -> pa.Table:
    """Return the rows with an epoch and its clock in two columns."""
    for column, value, type_ in ((epoch, when[0], pa.int64()), (time, when[1], TIMESTAMP)):
        values = pa.array([value] * rows.num_rows, type_)
        place = rows.schema.get_field_index(column)
        rows = rows.append_column(column, values) if place < 0 else rows.set_column(place, column, values)
    return rows


def _forget(name: str, retention: int, work: Work) -> None:
    """Drop versions that ended longer ago than `retention`.

    States before the end of the last dropped version are no longer known.
    """
    last = work.clock - timedelta(microseconds=retention)
    old = work.storage.look_up_range(name, UNTIL_TIME, None, last)
    ends = [(pc.max(b.column(UNTIL_EPOCH)).as_py(), pc.max(b.column(UNTIL_TIME)).as_py()) for b in old if b.num_rows]
    if not ends:
        return
    work.storage.delete_range(name, UNTIL_TIME, last)
    memory, newest, newest_at = (
        work.recall(HistoryMemory),
        max(e for e, _ in ends),
        microseconds(max(t for _, t in ends)),
    )
    memory.began = max(memory.began or newest, newest)
    memory.began_at = newest_at if memory.began_at is None else max(memory.began_at, newest_at)
