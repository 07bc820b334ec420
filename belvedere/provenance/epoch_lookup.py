"""Look up the epoch of an event in the epochs that the store remembers.

In: a time or an epoch, and the number of a row that arrived. Out: the epoch with its clock, and a predicate on its
arrivals. The store has the clocks of its last epochs. For sources that can be read again it also has the epoch of each
row.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlglot import exp

from belvedere.engine.epoch_row.source_spans import SPANS
from belvedere.errors import Diagnostic
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Order, Scan, TopK
from belvedere.provenance.constants import constant
from belvedere.provenance.narrowing import restricted
from belvedere.provenance.plan_queries import QueryRunner
from belvedere.provenance.row_predicates import RowPredicate
from belvedere.schema import INGEST_TIME, TIMESTAMP, UID
from belvedere.store.definitions import epoch_from_values
from belvedere.store.protocol import EpochRow
from belvedere.store.system import EPOCH
from belvedere.values.instants import microseconds
from belvedere.values.row_texts import value_text


@dataclass(frozen=True)
class Moment:
    """An epoch and its clock, the value of now() in UTC. `epoch` is None if the store no longer knows its number."""

    epoch: int | None
    time: datetime

    def __str__(self) -> str:
        at = value_text(self.time)
        return at if self.epoch is None else f"epoch {self.epoch}, {at}"


def arrival(query_runner: QueryRunner, input_: str, time: datetime, uid: int) -> Moment:
    """Return the epoch that accepted an input row: the first at or after its `_ingest_time` that assigned
    its `_uid`."""
    (least, first), *_ = query_runner.reader.execute(f"SELECT min(epoch), min(clock) FROM {EPOCH}")
    if first is not None and (least == 1 or int(first) <= microseconds(time)):
        later = f"SELECT epoch FROM {EPOCH} WHERE clock >= {microseconds(time)} ORDER BY epoch"
        rows = (_row(query_runner, int(epoch)) for (epoch,) in query_runner.reader.execute(later))
        found = next((r for r in rows if r is not None and uid < _next_uid(r)), None)
        if found is not None:
            return Moment(found.epoch, found.clock)
    return _spanned(query_runner, input_, uid) or Moment(None, time)


def emitted_in(query_runner: QueryRunner, time: datetime) -> Moment:
    """Return the epoch that emitted rows due at a time: the first whose clock is not before it.

    The epoch is unknown if several have that clock.
    """
    (least, first), *_ = query_runner.reader.execute(f"SELECT min(epoch), min(clock) FROM {EPOCH}")
    if first is None or (least != 1 and int(first) > microseconds(time)) or len(_epochs(query_runner, time)) > 1:
        return Moment(None, time)
    ((found,),) = query_runner.reader.execute(f"SELECT min(epoch) FROM {EPOCH} WHERE clock >= {microseconds(time)}")
    return Moment(None if found is None else int(found), time)


def arrived_in(query_runner: QueryRunner, moment: Moment) -> RowPredicate:
    """Return the predicate on the input rows that an epoch accepted.

    It tests row numbers (`_uid`), or the time if the store no longer knows the epoch.
    """
    last = None if moment.epoch is None else _row(query_runner, moment.epoch)
    before = None if moment.epoch is None else _row(query_runner, moment.epoch - 1)
    if last is None or (before is None and moment.epoch != 1):
        return RowPredicate((exp.EQ(this=column(INGEST_TIME), expression=constant(moment.time, TIMESTAMP)),))
    tests: list[exp.Expr] = [exp.LT(this=column(UID), expression=exp.Literal.number(_next_uid(last)))]
    if before is not None:
        tests.append(exp.GTE(this=column(UID), expression=exp.Literal.number(_next_uid(before))))
    return RowPredicate(tuple(tests))


def _epochs(query_runner: QueryRunner, time: datetime) -> list[int]:
    """Return the remembered epochs with this clock."""
    rows = query_runner.reader.execute(f"SELECT epoch FROM {EPOCH} WHERE clock = {microseconds(time)} ORDER BY epoch")
    return [int(r[0]) for r in rows]


def _row(query_runner: QueryRunner, epoch: int) -> EpochRow | None:
    rows = query_runner.reader.execute(f"SELECT epoch, clock, content, committed_at FROM {EPOCH} WHERE epoch = {epoch}")
    return epoch_from_values(rows[0]) if rows else None


def _next_uid(row: EpochRow) -> int:
    return int(row.extra.get("next_uid", 1))


def _spanned(query_runner: QueryRunner, input_: str, uid: int) -> Moment | None:
    """Return the epoch that read the row from its source, if the store recorded it."""
    if SPANS.name not in query_runner.tables:
        return None
    tests = (
        exp.EQ(this=column("input"), expression=exp.Literal.string(input_)),
        exp.LTE(this=column("first_uid"), expression=exp.Literal.number(uid)),
        exp.GT(this=exp.Add(this=column("first_uid"), expression=column("used")), expression=exp.Literal.number(uid)),
    )
    spans = restricted(Scan(SPANS.name, SPANS.schema), RowPredicate(tests))
    (found,) = query_runner.ask([TopK(spans, (Order(column("epoch"), descending=True),), 1)]).rows
    epochs = [] if isinstance(found, Diagnostic) else found.select(["epoch", "clock"]).to_pylist()
    return Moment(epochs[0]["epoch"], epochs[0]["clock"]) if epochs else None
